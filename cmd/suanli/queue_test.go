package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"suanli.dev/api"
)

// queueing is an API with one request, which waits for so many looks and then has become
// a lease that runs.
type queueing struct {
	url string

	mu    sync.Mutex
	asked api.WaitingRequestCreate
	looks int // that still find it waiting; below 0: for ever
	state string
}

func newQueueing(t *testing.T, looks int) *queueing {
	t.Helper()
	q := &queueing{looks: looks, state: "waiting"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q.mu.Lock()
		defer q.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		code, extra := "no_room", ""
		switch {
		case r.Method == http.MethodPost && r.URL.Path == "/v1/waiting-requests":
			body, _ := io.ReadAll(r.Body)
			if err := json.Unmarshal(body, &q.asked); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
			code = ""
		case r.Method == http.MethodDelete:
			q.state, code = "cancelled", "commanded"
		case strings.HasPrefix(r.URL.Path, "/v1/leases/"):
			_, _ = io.WriteString(w, `{"id":"ls-1","name":"train","state":"running","per_hour":"1.000000","currency":"USD"}`)
			return
		default:
			if q.looks == 0 && q.state == "waiting" {
				q.state = "started"
			}
			q.looks--
		}
		switch q.state {
		case "started":
			code, extra = "", `,"lease_id":"ls-1"`
		case "waiting":
			extra = `,"position":2,"explanation":{"fits":false,"hosts":3,"suitable":0,"refused":[{"reason":"gpu","hosts":3,"wanted":8,"most":2}],"changes":[]}`
		}
		one := fmt.Sprintf(`{"id":"wr-1","name":"train","state":%q,"code":%q,"gpu_model":"H100","gpus":8,"image":"debian:12","disk_gib":10,"max_per_hour":"20.000000","currency":"USD","estimate_seconds":7200,
			"priority":2,"failures":0,"created_at":"2026-03-02T12:00:00Z","expires_at":"2026-03-02T18:00:00Z"%s}`, q.state, code, extra)
		if r.Method == http.MethodGet && r.URL.Path == "/v1/waiting-requests" {
			one = `{"items":[` + one + `]}`
		}
		_, _ = io.WriteString(w, one)
	}))
	t.Cleanup(s.Close)
	q.url = s.URL
	return q
}

func (q *queueing) run(t *testing.T, line string) string {
	t.Helper()
	out, errs, err := run(t.Context(), append(strings.Fields(line), "--server", q.url, "--token", "x")...)
	if err != nil {
		t.Fatalf("%s: %v: %s%s", line, err, out, errs)
	}
	return out + errs
}

const rentTrain = "rent --queue 6h --max-per-hour 20 --gpu-model H100 --gpus 8 --stop-in 2h --priority 2 --image debian:12 --name train -e A=b"

func TestRentLeavesARequestInTheQueueWhenNothingIsFree(t *testing.T) {
	q := newQueueing(t, -1)
	out := q.run(t, rentTrain)
	for _, want := range []string{"Request train (wr-1): 8 × H100 for at most 20.00", "waiting", "costs nothing meanwhile", "suanli queue show train"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	a := q.asked
	if a.GPUModel != "H100" || a.GPUs != 8 || a.WaitSeconds != 6*3600 || a.EstimateSeconds != 7200 || a.Priority != 2 || a.MaxPerHour != 20_000_000 || a.Name != "train" || a.Environment["A"] != "b" || a.Image != "debian:12" {
		t.Errorf("it asked for %+v", a)
	}
}

func TestRentFollowsARequestUntilItsLeaseRunsWhenAskedToWait(t *testing.T) {
	q := newQueueing(t, 2)
	if out := q.run(t, rentTrain+" --wait"); !strings.Contains(out, "Lease train (ls-1) is accepted") || !strings.Contains(out, "suanli ssh train") {
		t.Errorf("it says:\n%s", out)
	}
	// What starts at once is as if it had been rented, without.
	if out := newQueueing(t, 0).run(t, rentTrain); !strings.Contains(out, "suanli ssh train") {
		t.Errorf("it says:\n%s", out)
	}
}

func TestTheQueueIsListedShownAndLeft(t *testing.T) {
	q := newQueueing(t, -1)
	if out := q.run(t, "queue ls"); !strings.Contains(out, "train") || !strings.Contains(out, "8 × H100") || !strings.Contains(out, "20.00") {
		t.Errorf("the list is\n%s", out)
	}
	out := q.run(t, "queue show train")
	for _, want := range []string{"TURN", "2", "It does not fit now: 0 of 3 hosts", "GPUs free"} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not show %q:\n%s", want, out)
		}
	}
	if out := q.run(t, "queue cancel train"); !strings.Contains(out, "Request train is withdrawn") {
		t.Errorf("withdrawn:\n%s", out)
	}
	inChinese(t)
	if out := q.run(t, "queue show train"); !strings.Contains(out, "已撤回") || !strings.Contains(out, "每小时上限") {
		t.Errorf("in Chinese:\n%s", out)
	}
}

func TestWhatCannotWaitInTheQueueIsSaidBeforeAnythingIsAsked(t *testing.T) {
	for args, want := range map[string]string{
		"rent --queue 1h --gpu-model x --image a":                                    "--max-per-hour",
		"rent of-1 --queue 1h --max-per-hour 1 --gpu-model x --image a":              "neither an offer",
		"rent --spot --queue 1h --max-per-hour 1 --gpu-model x --bid 1 --image a":    "a bid waits by itself",
		"rent --queue 1h --max-per-hour 1 --gpu-model x --image a --plan monthly":    "on demand",
		"rent --queue 1h --max-per-hour 1 --gpu-model x --image a --volume v:/data":  "volume is on one host",
		"rent --queue 1h --max-per-hour 1 --gpu-model x --image a --stop-at never":   "--stop-in",
		"rent --queue 1h --max-per-hour lots --gpu-model x --image a --stop-in 2h":   "lots",
		"rent --queue soon --max-per-hour 1 --gpu-model x --image a --stop-in 2h":    "soon",
		"rent --queue 1h --max-per-hour 1 --gpu-model x --image a --priority urgent": "urgent",
	} {
		_, _, err := run(t.Context(), append(strings.Fields(args), "--server", "http://127.0.0.1:1", "--token", "x")...)
		if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
