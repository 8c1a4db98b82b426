package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/objectstore/s3test"
	"suanli.dev/internal/protocol"
)

// bucket is the control plane's side of transfers: it has the keys, and the agent has
// none.
type bucket struct {
	*objectstore.Store
	w *world
}

func openBucket(w *world) bucket {
	w.t.Helper()
	s, err := objectstore.New(s3test.Start(w.t).Config)
	if err != nil {
		w.t.Fatal(err)
	}
	return bucket{s, w}
}

// save copies a volume to a key, and returns how it ended.
func (b bucket) save(volume, key string) (protocol.CommandResult, string) {
	t := b.w.t
	t.Helper()
	upload, err := b.Begin(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	c := protocol.TransferCommand{ID: key, VolumeID: volume, Want: protocol.TransferSave, PartMiB: 5}
	var r protocol.CommandResult
	b.w.until("the volume is saved", func() bool {
		r = b.w.send(protocol.Command{Transfer: &c})
		if !r.Accepted {
			return r.Code != "not_ready"
		}
		c.Parts = nil
		if n := r.Transfer.NextPart; n > 0 {
			u, err := b.PartURL(t.Context(), key, upload, n, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			c.Parts = []protocol.SignedPart{{Number: n, URL: u}}
		}
		return r.Transfer.State != protocol.TransferRunning
	})
	return r, upload
}

func (b bucket) complete(key, upload string, s protocol.TransferStatus) {
	t := b.w.t
	t.Helper()
	p, err := b.Parts(t.Context(), key, upload, s.Parts)
	if err != nil || p.Digest != s.PartsDigest || p.Bytes != s.Bytes {
		t.Fatalf("the service has %+v, %v and the agent put %+v", p, err, s)
	}
	if err := b.Complete(t.Context(), key, upload, p); err != nil {
		t.Fatal(err)
	}
}

// fill makes a volume of what was saved at a key.
func (b bucket) fill(id, volume, key string, sizeMiB int64, s protocol.TransferStatus) (r protocol.CommandResult) {
	t := b.w.t
	t.Helper()
	u, err := b.GetURL(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	c := protocol.TransferCommand{ID: id, VolumeID: volume, Want: protocol.TransferFill, URL: u, SizeMiB: sizeMiB, Bytes: s.Bytes, ObjectSHA256: s.ObjectSHA256, ContentSHA256: s.ContentSHA256}
	b.w.until("the volume is filled", func() bool {
		r = b.w.send(protocol.Command{Transfer: &c})
		return !r.Accepted || r.Transfer.State != protocol.TransferRunning
	})
	return r
}

func TestASnapshotGoesToObjectStorageAndBackInParts(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	b := openBucket(w)
	w.volume("vo-1", true, 64)
	noise := make([]byte, 17<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise) // does not compress: several parts
	sim.Write("vo-1", string(noise))
	saved, upload := b.save("vo-1", "sn-1")
	if !saved.Accepted || saved.Transfer.State != protocol.TransferDone || saved.Transfer.Parts != 4 {
		t.Fatalf("%+v, %+v", saved, saved.Transfer)
	}
	if sum := sha256.Sum256(noise); saved.Transfer.ContentSHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("the checksum is %s", saved.Transfer.ContentSHA256)
	}
	b.complete("sn-1", upload, *saved.Transfer)
	if r := b.fill("fi-1", "vo-2", "sn-1", 64, *saved.Transfer); !r.Accepted || r.Transfer.State != protocol.TransferDone {
		t.Fatalf("%+v %+v", r, r.Transfer)
	}
	if sim.Read("vo-2") != string(noise) {
		t.Error("what came back is something else")
	}
	// What is damaged is not taken for a volume.
	forged := *saved.Transfer
	forged.ContentSHA256 = strings.Repeat("0", 64)
	if r := b.fill("fi-2", "vo-3", "sn-1", 64, forged); r.Transfer.State != protocol.TransferFailed || r.Code != "snapshot_damaged" {
		t.Errorf("%+v, %+v", r, r.Transfer)
	}
	cut := *saved.Transfer
	cut.Bytes -= 1000
	if r := b.fill("fi-3", "vo-3", "sn-1", 64, cut); r.Transfer.State != protocol.TransferFailed || r.Code != "snapshot_damaged" {
		t.Errorf("%+v, %+v", r, r.Transfer)
	}
	if r, _ := b.save("vo-none", "sn-2"); r.Code != "volume_missing" {
		t.Errorf("%+v", r)
	}
	for name, c := range map[string]protocol.TransferCommand{
		"a path": {ID: "a", VolumeID: "../x", Want: protocol.TransferSave, PartMiB: 5}, "small parts": {ID: "a", VolumeID: "vo-1", Want: protocol.TransferSave, PartMiB: 1},
		"nothing": {ID: "a", VolumeID: "vo-1"}, "no size": {ID: "a", VolumeID: "vo-9", Want: protocol.TransferFill, Bytes: 1},
	} {
		if r := w.send(protocol.Command{Transfer: &c}); r.Accepted || r.Code != "bad_spec" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := w.send(protocol.Command{Transfer: &protocol.TransferCommand{ID: "sn-1", VolumeID: "vo-1", Want: protocol.TransferStop}}); !r.Accepted {
		t.Errorf("%+v", r)
	}
}

func TestDockerVolumesAreSavedAtRestAndFilledWhole(t *testing.T) {
	w := dockerWorld(t, nil)
	b := openBucket(w)
	image := busybox(t)
	if r := w.volume("vo-1", true, 300); !r.Accepted {
		t.Fatalf("%+v", r)
	}
	with := func(volume, script string) *protocol.InstanceSpec {
		s := shell(image, script)
		s.Volumes = []protocol.VolumeMount{{VolumeID: volume, Path: "/vol"}}
		return s
	}
	writer := ident.New(ident.Lease)
	w.run(writer, 1, with("vo-1", `mkdir /vol/deep; echo precious > /vol/deep/file; dd if=/dev/urandom of=/vol/noise bs=1M count=12; md5sum /vol/noise > /vol/sum; echo wrote; sleep 600`))
	w.until("the writer has written", func() bool { return strings.Contains(w.logs(writer), "wrote\n") })
	if r, _ := b.save("vo-1", "sn-used"); r.Transfer.State != protocol.TransferFailed || r.Code != "volume_in_use" {
		t.Errorf("a volume that a lease writes to was saved: %+v", r)
	}
	w.send(protocol.Command{LeaseID: writer, Generation: 2, Want: protocol.WantAbsent})
	w.reach(writer, 2, protocol.PhaseAbsent)
	saved, upload := b.save("vo-1", "sn-1")
	if !saved.Accepted || saved.Transfer.State != protocol.TransferDone {
		t.Fatalf("%+v", saved)
	}
	if saved.Transfer.Bytes > 40<<20 {
		t.Errorf("12 MiB in a volume of 300 came to %d bytes", saved.Transfer.Bytes)
	}
	b.complete("sn-1", upload, *saved.Transfer)
	// A larger volume, and the agent is killed while it is filled.
	u, err := b.GetURL(t.Context(), "sn-1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	w.send(protocol.Command{Transfer: &protocol.TransferCommand{ID: "fi-1", VolumeID: "vo-2", Want: protocol.TransferFill, URL: u, SizeMiB: 600, Bytes: saved.Transfer.Bytes, ContentSHA256: saved.Transfer.ContentSHA256}})
	w.kill()
	w.start()
	w.volume("vo-x", false, 0)
	for range 2 {
		if r := b.fill("fi-1", "vo-2", "sn-1", 600, *saved.Transfer); !r.Accepted || r.Transfer.State != protocol.TransferDone {
			t.Fatalf("%+v", r)
		}
	}
	reader := ident.New(ident.Lease)
	w.run(reader, 1, with("vo-2", `cat /vol/deep/file; md5sum -c /vol/sum; df -m /vol | tail -1; echo read; sleep 600`))
	w.until("the reader has read", func() bool { return strings.Contains(w.logs(reader), "read\n") })
	if out := w.logs(reader); !strings.Contains(out, "precious\n/vol/noise: OK\n") {
		t.Errorf("the restored volume has: %s", out)
	}
	w.send(protocol.Command{LeaseID: reader, Generation: 2, Want: protocol.WantAbsent})
	w.reach(reader, 2, protocol.PhaseAbsent)
	// A lease that starts is worth more than a copy, which can be made again.
	upload, err = b.Begin(t.Context(), "sn-2")
	if err != nil {
		t.Fatal(err)
	}
	if u, err = b.PartURL(t.Context(), "sn-2", upload, 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	half := protocol.Command{Transfer: &protocol.TransferCommand{ID: "sn-2", VolumeID: "vo-1", Want: protocol.TransferSave, PartMiB: 5, Parts: []protocol.SignedPart{{Number: 1, URL: u}}}}
	w.until("one part is there", func() bool {
		r := w.send(half)
		return r.Accepted && r.Transfer.Bytes == 5<<20
	})
	next := ident.New(ident.Lease)
	w.run(next, 1, with("vo-1", `cat /vol/deep/file; echo read; sleep 600`))
	w.until("the lease has read", func() bool { return strings.Contains(w.logs(next), "precious\nread\n") })
	if r := w.send(half); r.Transfer.State != protocol.TransferFailed || r.Code != "volume_in_use" {
		t.Errorf("the copy of a volume that a lease has now is %+v, %+v", r, r.Transfer)
	}
	w.send(protocol.Command{LeaseID: next, Generation: 2, Want: protocol.WantAbsent})
	w.reach(next, 2, protocol.PhaseAbsent)
	for _, v := range []string{"vo-1", "vo-2"} {
		if r := w.volume(v, false, 0); !r.Accepted {
			t.Errorf("%+v", r)
		}
		if _, err := os.Stat(filepath.Join(w.cfg.Dir, "volumes", v)); err == nil {
			t.Errorf("the folder of %s is still there", v)
		}
	}
}

func TestAnOutageOfS3DelaysASnapshotAndNoMore(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	s3 := s3test.Start(t)
	store, err := objectstore.New(s3.Config)
	if err != nil {
		t.Fatal(err)
	}
	b := bucket{store, w}
	w.volume("vo-1", true, 64)
	noise := make([]byte, 12<<20)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(noise)
	sim.Write("vo-1", string(noise))
	upload, err := b.Begin(t.Context(), "sn-1")
	if err != nil {
		t.Fatal(err)
	}
	c := protocol.TransferCommand{ID: "sn-1", VolumeID: "vo-1", Want: protocol.TransferSave, PartMiB: 5}
	for n := 1; n <= 3; n++ {
		u, err := b.PartURL(t.Context(), "sn-1", upload, n, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		c.Parts = append(c.Parts, protocol.SignedPart{Number: n, URL: u})
	}
	rest := c.Parts[1:]
	c.Parts = c.Parts[:1]
	var r protocol.CommandResult
	w.until("one part is there", func() bool {
		r = w.send(protocol.Command{Transfer: &c})
		return r.Accepted && r.Transfer.Bytes == 5<<20
	})
	s3.Kill()
	c.Parts = rest
	if r = w.send(protocol.Command{Transfer: &c}); r.Transfer.State != protocol.TransferRunning {
		t.Fatalf("%+v, %+v", r, r.Transfer)
	}
	s3.Again()
	w.until("the volume is saved", func() bool {
		r = w.send(protocol.Command{Transfer: &c})
		return r.Transfer.State != protocol.TransferRunning
	})
	if r.Transfer.State != protocol.TransferDone {
		t.Fatalf("%+v", r)
	}
	b.complete("sn-1", upload, *r.Transfer)
	if r := b.fill("fi-1", "vo-2", "sn-1", 64, *r.Transfer); r.Transfer.State != protocol.TransferDone || sim.Read("vo-2") != string(noise) {
		t.Errorf("%+v", r)
	}
}
