package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"suanli.dev/api"
)

// rentRuns is how many rentals are timed; the first of each kind is extra and
// not counted, since it fills caches.
const rentRuns = 20

// rentals are the times of both kinds, taken in turn.
type rentals struct {
	rent, run, free, remove []time.Duration
}

// benchRent is the time from accepting a quote by the API until the first line
// that the container printed has come back through API, gateway and tunnel. The
// peer is what `docker run` does, without the start of its own process: create,
// attach, start, first line. Image cached, medians of rentRuns each, in turn.
func benchRent(ctx context.Context, w *world) (result, error) {
	r, err := w.rent(ctx)
	if err != nil {
		return result{}, err
	}
	return added("rent", r.rent, r.run), nil
}

// benchStop is the time from asking a lease to stop until its GPU is on the
// market again, as a search sees it; the peer is the engine's stop and remove.
func benchStop(ctx context.Context, w *world) (result, error) {
	r, err := w.rent(ctx)
	if err != nil {
		return result{}, err
	}
	return added("stop", r.free, r.remove), nil
}

func added(what string, ours, peer []time.Duration) result {
	a, b := quantile(ours, .5), quantile(peer, .5)
	fmt.Printf("%s: ours min %s median %s max %s; engine min %s median %s max %s; added at the median %s\n", what,
		ms(ours[0]), ms(a), ms(ours[len(ours)-1]), ms(peer[0]), ms(b), ms(peer[len(peer)-1]), ms(a-b))
	return result{ms(a), ms(b), float64(a) / float64(b), a-b <= 300*time.Millisecond}
}

func (w *world) rent(ctx context.Context) (*rentals, error) {
	if w.rentals != nil {
		return w.rentals, nil
	}
	c, err := w.startUp(ctx)
	if err != nil {
		return nil, err
	}
	r := &rentals{}
	for i := range rentRuns + 1 {
		rent, free, err := c.timeRental(ctx)
		if err != nil {
			return nil, err
		}
		run, remove, err := w.timeEngine(ctx)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			r.rent, r.free, r.run, r.remove = append(r.rent, rent), append(r.free, free), append(r.run, run), append(r.remove, remove)
		}
	}
	w.rentals = r
	return r, nil
}

func (c *cloud) timeRental(ctx context.Context) (rent, free time.Duration, err error) {
	q, err := c.quote(ctx, 1)
	if err != nil {
		return 0, 0, err
	}
	begin := time.Now()
	l, err := c.api.CreateLease(ctx, api.LeaseCreate{QuoteID: q.ID})
	if err != nil {
		return 0, 0, err
	}
	// Until the host has the lease there is nothing to follow.
	err = poll(ctx, "the first line", time.Minute, 15*time.Millisecond, func() (bool, error) {
		logs, err := c.api.LeaseLogs(ctx, l.ID, true, 0)
		if err != nil {
			return false, nil
		}
		defer logs.Close()
		return firstLine(logs) == nil, nil
	})
	rent = time.Since(begin)
	if err == nil {
		err = c.awaitState(ctx, l.ID, "running")
	}
	if err == nil {
		begin = time.Now()
		if _, err = c.api.StopLease(ctx, l.ID); err == nil {
			err = poll(ctx, "the GPU to be free", time.Minute, 15*time.Millisecond, func() (bool, error) {
				p, err := c.api.Offers(ctx, api.OfferQuery{Where: "gpu_count = 8", Limit: 1})
				return err == nil && len(p.Items) == 1, err
			})
		}
		free = time.Since(begin)
	}
	return rent, free, errors.Join(err, c.end(ctx, l.ID))
}

func (w *world) timeEngine(ctx context.Context) (run, remove time.Duration, err error) {
	begin := time.Now()
	made, err := w.docker.ContainerCreate(ctx, client.ContainerCreateOptions{Config: &container.Config{Image: image, AttachStdout: true}})
	if err != nil {
		return 0, 0, err
	}
	defer func() {
		if remove == 0 {
			_, rerr := w.docker.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true})
			err = errors.Join(err, rerr)
		}
	}()
	out, err := w.docker.ContainerAttach(ctx, made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true})
	if err != nil {
		return 0, 0, err
	}
	defer out.Close()
	if _, err := w.docker.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return 0, 0, err
	}
	if err := firstLine(out.Reader); err != nil {
		return 0, 0, fmt.Errorf("the engine's first line: %w", err)
	}
	run = time.Since(begin)
	begin = time.Now()
	if _, err := w.docker.ContainerStop(ctx, made.ID, client.ContainerStopOptions{}); err != nil {
		return 0, 0, err
	}
	if _, err := w.docker.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{}); err != nil {
		return 0, 0, err
	}
	_, _ = io.Copy(io.Discard, out.Reader)
	return run, time.Since(begin), nil
}
