package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/moby/moby/client"

	"suanli.dev/api"
)

// idleTime is how long nothing is asked before memory is read. It is longer than
// the two minutes after which Go collects garbage by itself, since an idle
// process allocates too little to be made to.
const idleTime = 150 * time.Second

// benchSize compares the one static binary with the files of the engine that it
// drives: dockerd, containerd, its shim, runc and docker.
func benchSize(context.Context, *world) (result, error) {
	self, err := os.Stat(filepath.Join(os.Getenv(scratch), "suanli"))
	if err != nil {
		return result{}, err
	}
	var peer int64
	for _, name := range []string{"dockerd", "containerd", "containerd-shim-runc-v2", "runc", "docker"} {
		path, err := exec.LookPath(name)
		if err != nil {
			return result{}, err
		}
		st, err := os.Stat(path)
		if err != nil {
			return result{}, err
		}
		peer += st.Size()
	}
	return result{mb(self.Size()), mb(peer), float64(self.Size()) / float64(peer), self.Size() < peer}, nil
}

// benchStart is the time from starting `suanli up` on an empty folder until
// /readyz answers 200, and from starting dockerd on an empty folder until it
// answers a ping: five each, in turn, medians. The slowest of ours must meet
// the goal.
func benchStart(ctx context.Context, w *world) (result, error) {
	w.stopCloud()
	if err := w.stopEngine(); err != nil {
		return result{}, err
	}
	var ours, peer []time.Duration
	for i := range 5 {
		c, took, err := w.startCloud(ctx, fmt.Sprintf("start%d", i), "up", "--docker", w.engineAddress(), "--simulate", "8x4090")
		if err != nil {
			return result{}, err
		}
		ours = append(ours, took)
		c.stop()
		if took, err = w.startPeer(ctx); err != nil {
			return result{}, err
		}
		peer = append(peer, took)
	}
	slowest := quantile(ours, 1)
	fmt.Printf("suanli up: median %s, slowest %s; dockerd: median %s\n", ms(quantile(ours, .5)), ms(slowest), ms(quantile(peer, .5)))
	a, b := quantile(ours, .5), quantile(peer, .5)
	return result{ms(a), ms(b), float64(a) / float64(b), slowest < 2*time.Second}, nil
}

func (w *world) startPeer(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	p, err := w.dockerd()
	if err != nil {
		return 0, err
	}
	defer func() {
		p.stop()
		_ = os.RemoveAll(filepath.Join(w.dir, "engine"))
	}()
	api, err := client.New(client.WithHost(w.engineAddress()))
	if err != nil {
		return 0, err
	}
	defer api.Close()
	err = poll(ctx, "dockerd", time.Minute, 2*time.Millisecond, func() (bool, error) {
		_, err := api.Ping(ctx, client.PingOptions{})
		return err == nil, err
	})
	return time.Since(begin), err
}

// stopEngine ends the shared engine, and with it what it keeps.
func (w *world) stopEngine() error {
	if w.engine == nil {
		return nil
	}
	w.engine.stop()
	w.engine = nil
	return errors.Join(w.docker.Close(), os.RemoveAll(filepath.Join(w.dir, "engine")))
}

// benchIdle is the resident memory of `suanli up` (control plane, gateway and
// agent in one process) with a listed host of eight GPUs, after its self-test, the
// push of an image of the size of this binary into its registry, a rental and then
// idleTime in which nothing is asked. The peer is dockerd with
// its containerd, at the same moment.
func benchIdle(ctx context.Context, w *world) (result, error) {
	w.stopCloud()
	c, err := w.startUp(ctx)
	if err != nil {
		return result{}, err
	}
	if err := c.push(ctx, w.self); err != nil {
		return result{}, err
	}
	if err := c.rentOnce(ctx); err != nil {
		return result{}, err
	}
	busy, err := rss(c.pid())
	if err != nil {
		return result{}, err
	}
	if err := pause(ctx, idleTime); err != nil {
		return result{}, err
	}
	ours, err1 := rss(c.pid())
	anon, err2 := memory(c.pid(), "RssAnon")
	peer, err3 := w.engineRSS()
	fmt.Printf("suanli up: %s after the rental, %s idle, of which %s is not the binary's file\n", mb(busy), mb(ours), mb(anon))
	return result{mb(ours), mb(peer), float64(ours) / float64(peer), ours < 150e6}, errors.Join(err1, err2, err3)
}

// push uploads a file as a layer of an image, as `docker push` does.
func (c *cloud) push(ctx context.Context, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	at := "/v2/bench/blobs/uploads/"
	for _, step := range []struct {
		method, query string
		body          io.Reader
		want          int
	}{
		{http.MethodPost, "", nil, http.StatusAccepted},
		{http.MethodPatch, "", f, http.StatusAccepted},
		{http.MethodPut, "?digest=sha256:" + hex.EncodeToString(sum.Sum(nil)), nil, http.StatusCreated},
	} {
		r, err := http.NewRequestWithContext(ctx, step.method, apiURL+at+step.query, step.body)
		if err != nil {
			return err
		}
		r.SetBasicAuth("operator", c.token)
		res, err := http.DefaultClient.Do(r)
		if err != nil {
			return err
		}
		res.Body.Close()
		if res.StatusCode != step.want {
			return fmt.Errorf("push an image: %s answered %s", step.method, res.Status)
		}
		at = res.Header.Get("Location")
	}
	return nil
}

// rentOnce rents, waits until it runs, and ends.
func (c *cloud) rentOnce(ctx context.Context) error {
	q, err := c.quote(ctx, 1)
	if err != nil {
		return err
	}
	l, err := c.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID})
	if err != nil {
		return err
	}
	err = c.awaitState(ctx, l.ID, "running")
	return errors.Join(err, c.end(ctx, l.ID))
}

// benchIdleAgent is the resident memory of `suanli agent` as a process of its
// own, joined to `suanli server`, under the same conditions as idle.
func benchIdleAgent(ctx context.Context, w *world) (result, error) {
	w.stopCloud()
	if err := w.startEngine(ctx); err != nil {
		return result{}, err
	}
	c, _, err := w.startCloud(ctx, "server", "server", "--agent-address", "127.0.0.1:7081")
	if err != nil {
		return result{}, err
	}
	defer c.stop()
	if err := c.signIn(ctx, filepath.Join(w.dir, "server")); err != nil {
		return result{}, err
	}
	token, err := c.api.CreateJoinToken(ctx, api.CreateJoinToken{Name: "bench"})
	if err != nil {
		return result{}, err
	}
	agent, err := w.spawn("agent", nil, w.suanli, "agent", "join", "127.0.0.1:7081", "--token", token.Token, "--data-dir", filepath.Join(w.dir, "agent"),
		"--docker", w.engineAddress(), "--simulate", "8x4090", "--allow-simulated=true", "--log-level=warn")
	if err != nil {
		return result{}, err
	}
	defer agent.stop()
	if err := c.awaitMarket(ctx); err != nil {
		return result{}, err
	}
	if err := c.rentOnce(ctx); err != nil {
		return result{}, err
	}
	busy, err := rss(agent.pid())
	if err != nil {
		return result{}, err
	}
	if err := pause(ctx, idleTime); err != nil {
		return result{}, err
	}
	ours, err1 := rss(agent.pid())
	anon, err2 := memory(agent.pid(), "RssAnon")
	server, err3 := rss(c.pid())
	peer, err4 := w.engineRSS()
	fmt.Printf("agent: %s after the rental, %s idle, of which %s is not the binary's file; suanli server beside it: %s\n", mb(busy), mb(ours), mb(anon), mb(server))
	return result{mb(ours), mb(peer), float64(ours) / float64(peer), ours < 60e6}, errors.Join(err1, err2, err3, err4)
}

// engineRSS is the memory of dockerd and of the containerd that it started.
func (w *world) engineRSS() (int64, error) {
	sum, err := rss(w.engine.pid())
	if err != nil {
		return 0, err
	}
	b, err := os.ReadFile(filepath.Join(w.dir, "engine/exec/containerd/containerd.pid"))
	if err != nil {
		return 0, err
	}
	var pid int
	if _, err := fmt.Sscan(string(b), &pid); err != nil {
		return 0, err
	}
	more, err := rss(pid)
	return sum + more, err
}
