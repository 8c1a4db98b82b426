package agent

import (
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/protocol"
)

func TestAnInstanceIsToldOfItsInterruptionAndThatItIsOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, sim := simWorld(t)
		var mu sync.Mutex
		var told []string
		failing := true
		sim.Inside = func(_ string, args []string) ([]byte, error) {
			if args[1] != "interruption" {
				return []byte("{}\n"), nil
			}
			mu.Lock()
			defer mu.Unlock()
			if failing {
				failing = false
				return nil, errors.New("no more processes can be started")
			}
			told = append(told, args[2])
			return nil, nil
		}
		said := func() []string { mu.Lock(); defer mu.Unlock(); return told }
		w.send(protocol.Command{LeaseID: "ls-a", Generation: 1, Want: protocol.WantRunning, Spec: spec()})
		w.reach("ls-a", 1, protocol.PhaseRunning)
		reason := "outbid"
		limit := func(d time.Duration) {
			w.c.mu.Lock()
			w.c.desired["ls-a"] = protocol.Desired{LeaseID: "ls-a", Generation: 1, Limits: protocol.RunLimits{InterruptIn: d, InterruptReason: reason}}
			w.c.mu.Unlock()
		}
		settle := func() { <-time.After(time.Minute) }
		settle()
		if len(said()) != 0 {
			t.Fatalf("without a notice the instance is told %v", said())
		}
		limit(2 * time.Hour)
		settle() // the first attempt fails
		limit(2*time.Hour - time.Minute)
		settle()
		if len(said()) == 0 {
			t.Fatal("after two minutes the instance knows nothing of its interruption")
		}
		var first protocol.Interruption
		if err := json.Unmarshal([]byte(said()[0]), &first); err != nil || first.InterruptAt.Sub(first.ToldAt) < time.Hour {
			t.Errorf("the notice says %s (%v), want two hours", said()[0], err)
		}
		// The control plane says after each minute that it is one less, so that the
		// end stays; only why has changed.
		reason = "on_demand"
		limit(time.Until(first.InterruptAt))
		<-time.After(3 * time.Second)
		var second protocol.Interruption
		if err := json.Unmarshal([]byte(said()[len(said())-1]), &second); err != nil || first.Reason != "outbid" || second.Reason != "on_demand" {
			t.Errorf("the notice says %q first and then %q (%v), want outbid and on_demand", first.Reason, second.Reason, err)
		}
		limit(0)
		settle()
		if last := said()[len(said())-1]; last != "" {
			t.Errorf("a notice that was taken back still says %s", last)
		}
		before := len(said())
		settle()
		if len(said()) != before {
			t.Errorf("what is known already is told again: %v", said())
		}
	})
}
