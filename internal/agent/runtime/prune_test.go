package runtime

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

func TestUnusedImagesGoOldestFirstAndUsedOnesNever(t *testing.T) {
	t.Parallel()
	s, err := readImages(filepath.Join(t.TempDir(), "images.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"old", "stopped", "new", "pulled"} {
		s.used(id, "ref/"+id, 100<<20)
	}
	s.copied("copy", "new")
	s.known["old"].UsedAt = time.Now().Add(-time.Hour)
	unpin := s.pin("pulled")
	if got := s.unused(map[string]bool{"stopped": true}, 0); !slices.Equal(got, []string{"old", "new"}) {
		t.Errorf("unused: %v", got)
	}
	if got := s.unused(map[string]bool{"copy": true}, 0); slices.Contains(got, "new") {
		t.Errorf("an image whose copy runs may go: %v", got)
	}
	if got := s.unused(nil, freshFor); !slices.Equal(got, []string{"old"}) {
		t.Errorf("with fresh ones protected: %v", got)
	}
	unpin()
	if got := s.unused(nil, 0); len(got) != 4 {
		t.Errorf("nothing is used: %v", got)
	}
	again, err := readImages(s.path)
	if err != nil || again.totalMiB() != 400 {
		t.Errorf("read again: %d MiB, %v", again.totalMiB(), err)
	}
}

func TestDockerImagesOverTheBudgetGoAndThoseInUseStay(t *testing.T) {
	host := os.Getenv("SUANLI_TEST_DOCKER")
	if host == "" || os.Geteuid() != 0 {
		t.Skip("SUANLI_TEST_DOCKER does not name a container engine, or this is not root")
	}
	store := images1()
	var fetched atomic.Int64
	at := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && len(r.URL.Path) > 70 && r.URL.Path[:10] == "/v2/suanli" {
			fetched.Add(1)
		}
		store.ServeHTTP(w, r)
	}))
	random := func(size int) []byte {
		b := make([]byte, size)
		_, _ = rand.Read(b)
		return archive(t, &tar.Header{Name: "f" + time.Now().String(), Mode: 0o644, Size: int64(size)}, bytes.NewReader(b))
	}
	base := random(1 << 20)
	layer := func(b []byte) v1.Layer {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	put := func(n string, volumes map[string]struct{}) string {
		img, err := mutate.AppendLayers(empty.Image, layer(base), layer(random(2<<20)))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := img.ConfigFile()
		if img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: goruntime.GOARCH, RootFS: c.RootFS, Config: v1.Config{Volumes: volumes, Cmd: []string{"/x"}}}); err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(at+"/suanli-test-"+n+":1", name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
		return ref.Name()
	}
	d, err := NewDocker(DockerConfig{Host: host, Dir: t.TempDir(), HostID: "ho-prune", Table: "suanli-test-prune", ImageMiB: 7, InnerRegistries: []InnerRegistry{{Host: at, HTTP: true}}})
	if err != nil {
		t.Fatal(err)
	}
	d.fresh = 0
	t.Cleanup(func() {
		d.cfg.ImageMiB = 1
		for _, id := range d.images.unused(nil, 0) {
			_ = d.removeImage(t.Context(), id)
		}
		_ = d.Close()
		_ = exec.Command("nft", "delete", "table", "inet", "suanli-test-prune").Run()
	})
	there := func(id string) bool {
		_, err := d.api.ImageInspect(t.Context(), id)
		if err != nil && !cerrdefs.IsNotFound(err) {
			t.Fatal(err)
		}
		return err == nil
	}
	pull := func(ref string) Image {
		t.Helper()
		img, err := d.Pull(t.Context(), PullRequest{Reference: ref, Stall: 20 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return img
	}
	one := pull(put("one", map[string]struct{}{"/data": {}}))
	original, _ := d.images.find(at + "/suanli-test-one:1")
	if one.ID == original || !there(original) {
		t.Fatalf("the image with volumes is started as %s, pulled as %s", one.ID, original)
	}
	before := fetched.Load()
	two := pull(put("two", nil))
	if n := fetched.Load() - before; n > 3 { // manifest, configuration, one layer
		t.Errorf("%d requests for an image that shares its first layer", n)
	}
	// A container holds the second; the first is the older one and unused.
	made, err := d.api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: two.ID, Cmd: []string{"/x"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_, _ = d.api.ContainerRemove(t.Context(), made.ID, client.ContainerRemoveOptions{Force: true})
	}()
	three := pull(put("three", nil))
	if there(one.ID) || there(original) {
		t.Error("an unused image over the budget is still there")
	}
	if !there(two.ID) || !there(three.ID) {
		t.Error("an image in use was removed")
	}
	// A stopped lease has no container, and its disk needs the image.
	v := d.volume("ls-stopped")
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := v.noteImage(three.ID); err != nil {
		t.Fatal(err)
	}
	pull(put("four", nil))
	if !there(three.ID) || !there(two.ID) {
		t.Error("the image of a stopped lease was removed")
	}
	if err := v.erase(); err != nil {
		t.Fatal(err)
	}
	d.makeRoom(t.Context(), 5)
	if there(three.ID) {
		t.Error("with its lease gone, the image stays")
	}
}
