package runtime

import (
	"io"
	"log"
	"log/slog"
	"net/http/httptest"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

func TestAnImageThatIsLookedUpIsNamedByItsDigest(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	img, err := random.Image(4096, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c.OS, c.Architecture = "linux", goruntime.GOARCH
	c.Config = v1.Config{Entrypoint: []string{"/app"}, Env: []string{"A=b"}, User: "7", WorkingDir: "/w"}
	if img, err = mutate.ConfigFile(img, c); err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(host+"/team/app:1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	inner := []InnerRegistry{{Host: host, HTTP: true}}
	found, err := LookUp(t.Context(), PullRequest{Reference: host + "/team/app:1", MaxBytes: 1 << 20}, inner, quiet)
	if err != nil || found.ID != host+"/team/app@"+digest.String() || len(found.Entrypoint) != 1 || found.User != "7" || found.WorkingDir != "/w" || len(found.Env) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	for what, c := range map[string]struct {
		r     PullRequest
		inner []InnerRegistry
		code  string
	}{
		"one that is not there":       {PullRequest{Reference: host + "/team/app:2"}, inner, "image_not_found"},
		"one that is too big":         {PullRequest{Reference: host + "/team/app:1", MaxBytes: 1000}, inner, "image_too_big"},
		"one inside of a network":     {PullRequest{Reference: host + "/team/app:1"}, nil, "registry_refused"},
		"one of the cloud's own":      {PullRequest{Reference: "cloud://app:1"}, inner, "image_not_found"},
		"what is no reference at all": {PullRequest{Reference: "app:1:2"}, inner, "image_not_found"},
	} {
		if _, err := LookUp(t.Context(), c.r, c.inner, quiet); CodeOf(err) != c.code {
			t.Errorf("%s: %v (%q), want %s", what, err, CodeOf(err), c.code)
		}
	}
}
