package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/protocol"
)

const (
	// activityEvery is how often the program is asked; idle windows begin at a minute.
	activityEvery = 15 * time.Second
	// activityPatience is how long it may take to answer.
	activityPatience = 10 * time.Second
	maxActivityBytes = 4 << 20
)

// watchActivity asks the program that the settings name, now and then, whether it has work going
// on, until ctx ends. A cell that waits for a data set or sleeps until the morning
// uses no CPU, and its browser may be closed; only its server knows of it.
func (in *instance) watchActivity(ctx context.Context, a protocol.Activity, every time.Duration) {
	token := ""
	for _, kv := range in.env {
		if name, value, ok := strings.Cut(kv, "="); ok && name == a.TokenVariable {
			token = value
		}
	}
	client := &http.Client{
		Timeout: activityPatience,
		// No proxy of the renter's, and no connection that is kept: it would count as
		// a client that is there.
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	told := ""
	for {
		busy, err := kernelsBusy(ctx, client, a.Port, token)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && isTimeout(err):
			// It may be at work so hard that it does not answer: what was so is so.
		default:
			if in.status.busy() != busy {
				in.status.change(func(r *protocol.InstanceReport) { r.Busy = busy })
			}
		}
		if err != nil && err.Error() != told {
			told = err.Error()
			in.log.Debug("the program does not say whether it is busy", "kind", a.Kind, "port", a.Port, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// kernelsBusy asks a Jupyter server for its kernels, by its REST API:
// https://jupyter-server.readthedocs.io/en/latest/developers/rest-api.html. The
// server itself follows their state, also when no browser does.
func kernelsBusy(ctx context.Context, client *http.Client, port int, token string) (bool, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+"/api/kernels", nil)
	if err != nil {
		return false, err
	}
	if token != "" {
		r.Header.Set("Authorization", "token "+token)
	}
	res, err := client.Do(r)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, fmt.Errorf("asking for kernels was answered by %s", res.Status)
	}
	var kernels []struct {
		State string `json:"execution_state"`
	}
	if err := json.NewDecoder(io.LimitReader(res.Body, maxActivityBytes)).Decode(&kernels); err != nil {
		return false, fmt.Errorf("read the list of kernels: %w", err)
	}
	for _, k := range kernels {
		if k.State == "busy" {
			return true, nil
		}
	}
	return false, nil
}
