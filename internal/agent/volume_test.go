package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

func (w *world) volume(id string, present bool, sizeMiB int64) protocol.CommandResult {
	w.t.Helper()
	var r protocol.CommandResult
	w.until("the agent is ready for volumes", func() bool {
		r = w.send(protocol.Command{Volume: &protocol.VolumeCommand{VolumeID: id, Present: present, SizeMiB: sizeMiB}})
		return r.Code != "not_ready"
	})
	return r
}

func TestAVolumeIsMadeOnceAndAnInstanceWithoutItsVolumeFails(t *testing.T) {
	t.Parallel()
	w, sim := simWorld(t)
	for range 2 {
		if r := w.volume("vo-1", true, 64); !r.Accepted {
			t.Fatalf("%+v", r)
		}
	}
	for name, r := range map[string]protocol.CommandResult{
		"a path": w.volume("../etc", true, 64), "no name": w.volume("", true, 64), "no size": w.volume("vo-2", true, 0),
	} {
		if r.Accepted || r.Code != "bad_spec" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if got := sim.Volumes(); !slices.Equal(got, []string{"vo-1"}) {
		t.Fatalf("volumes: %q", got)
	}
	c := want("ls-a", 1, protocol.WantRunning)
	c.Spec.Volumes = []protocol.VolumeMount{{VolumeID: "vo-gone", Path: "/data"}}
	w.send(c)
	if s := w.reach("ls-a", 1, protocol.PhaseFailed); s.Code != "volume_missing" {
		t.Errorf("%+v", s)
	}
	for name, mounts := range map[string][]protocol.VolumeMount{
		"relative": {{VolumeID: "vo-1", Path: "data"}}, "the root": {{VolumeID: "vo-1", Path: "/"}}, "upwards": {{VolumeID: "vo-1", Path: "/a/../b"}},
		"one path twice": {{VolumeID: "vo-1", Path: "/a"}, {VolumeID: "vo-2", Path: "/a"}}, "one volume twice": {{VolumeID: "vo-1", Path: "/a"}, {VolumeID: "vo-1", Path: "/b"}},
	} {
		c := want("ls-b", 1, protocol.WantRunning)
		c.Spec.Volumes = mounts
		if r := w.send(c); r.Accepted || r.Code != "bad_spec" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if r := w.volume("vo-1", false, 0); !r.Accepted || len(sim.Volumes()) != 0 {
		t.Errorf("%+v, %q are left", r, sim.Volumes())
	}
}

func TestDockerVolumeOutlivesItsLeasesIsLimitedAndIsCounted(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	volume, writer, reader := "vo-1", ident.New(ident.Lease), ident.New(ident.Lease)
	if r := w.volume(volume, true, 64); !r.Accepted {
		t.Fatalf("%+v", r)
	}
	with := func(script string, readOnly bool) *protocol.InstanceSpec {
		s := shell(image, script)
		s.Volumes = []protocol.VolumeMount{{VolumeID: volume, Path: "/vol", ReadOnly: readOnly}}
		return s
	}
	w.run(writer, 1, with(`echo kept > /vol/file; dd if=/dev/zero of=/vol/big bs=1M count=100; rm /vol/big; echo wrote; sleep 600`, false))
	w.until("the writer has written", func() bool { return strings.Contains(w.logs(writer), "wrote\n") })
	if out := w.logs(writer); !strings.Contains(out, "No space left on device") {
		t.Errorf("a volume of 64 MiB held 100: %s", out)
	}
	w.run(reader, 1, with(`cat /vol/file; touch /vol/other; echo tried; sleep 600`, true))
	w.until("the reader has tried", func() bool { return strings.Contains(w.logs(reader), "tried\n") })
	if out := w.logs(reader); !strings.Contains(out, "kept\n") || !strings.Contains(out, "Read-only file system") {
		t.Errorf("the reader says: %s", out)
	}
	if r := w.volume(volume, false, 0); r.Accepted || r.Code != "volume_in_use" {
		t.Errorf("a volume in use was removed: %+v", r)
	}
	mounted := func() bool {
		b, err := os.ReadFile("/proc/self/mounts")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(b), filepath.Join(w.cfg.Dir, "volumes", volume))
	}
	w.send(protocol.Command{LeaseID: writer, Generation: 2, Want: protocol.WantAbsent})
	w.reach(writer, 2, protocol.PhaseAbsent)
	if !mounted() {
		t.Error("the writer's end took the volume away from its reader")
	}
	w.send(protocol.Command{LeaseID: reader, Generation: 2, Want: protocol.WantAbsent})
	w.reach(reader, 2, protocol.PhaseAbsent)
	if mounted() {
		t.Error("a volume that nobody has is mounted still")
	}
	// The agent is killed, and another lease finds what the first has written.
	w.kill()
	w.start()
	next := ident.New(ident.Lease)
	w.run(next, 1, with(`cat /vol/file; echo read; sleep 600`, false))
	w.until("the next lease has read", func() bool { return strings.Contains(w.logs(next), "read\n") })
	if out := w.logs(next); !strings.Contains(out, "kept\nread") {
		t.Errorf("the volume did not outlive its lease: %s", out)
	}
	w.send(protocol.Command{LeaseID: next, Generation: 2, Want: protocol.WantAbsent})
	w.reach(next, 2, protocol.PhaseAbsent)
	if r := w.volume(volume, false, 0); !r.Accepted {
		t.Errorf("%+v", r)
	}
	if _, err := os.Stat(filepath.Join(w.cfg.Dir, "volumes", volume)); err == nil {
		t.Error("the volume's folder is still there")
	}
}
