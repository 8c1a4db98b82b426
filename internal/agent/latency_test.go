package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// TestDockerRentToFirstLogLineIsNearTheEnginesOwn compares command → first line
// read through a stream with create, start and read by the engine's API alone.
func TestDockerRentToFirstLogLineIsNearTheEnginesOwn(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	api, err := client.New(client.WithHost(w.cfg.DockerHost))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	driver := w.a.driver
	var ours, engine, released []time.Duration
	for range 5 {
		id := ident.New(ident.Lease)
		begin := time.Now()
		w.run(id, 1, shell(image, "echo first; sleep 600"))
		w.until("the first line", func() bool {
			var b strings.Builder
			_ = driver.Logs(t.Context(), id, protocol.LogOptions{}, &b)
			return strings.Contains(b.String(), "first")
		})
		ours = append(ours, time.Since(begin))
		begin = time.Now()
		w.send(protocol.Command{LeaseID: id, Generation: 2, Want: protocol.WantAbsent})
		w.reach(id, 2, protocol.PhaseAbsent)
		released = append(released, time.Since(begin))

		begin = time.Now()
		r, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{Image: image, Cmd: []string{"/bin/echo", "first"}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := api.ContainerStart(t.Context(), r.ID, client.ContainerStartOptions{}); err != nil {
			t.Fatal(err)
		}
		w.until("the engine's first line", func() bool {
			l, err := api.ContainerLogs(t.Context(), r.ID, client.ContainerLogsOptions{ShowStdout: true})
			if err != nil {
				return false
			}
			defer l.Close()
			b := make([]byte, 64)
			n, _ := l.Read(b)
			return n > 8
		})
		engine = append(engine, time.Since(begin))
		if _, err := api.ContainerRemove(t.Context(), r.ID, client.ContainerRemoveOptions{Force: true}); err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range [][]time.Duration{ours, engine, released} {
		slices.Sort(l)
	}
	t.Logf("first line: ours %v, the engine alone %v (medians of 5); command to absent %v", ours[2], engine[2], released[2])
	if added := ours[2] - engine[2]; added > 3*time.Second {
		t.Errorf("%v were added", added) // a gross limit: this is no benchmark
	}
}
