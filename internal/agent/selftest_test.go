package agent

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/agent/runtime"
)

// unable is an engine whose images cannot be made: its self-test fails.
type unable struct {
	*runtime.Sim
	mu    sync.Mutex
	tried []time.Time
}

func (u *unable) BaseImage(context.Context) (runtime.Image, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.tried = append(u.tried, time.Now())
	return runtime.Image{}, errors.New("no space left on device")
}

func (*unable) Gateway(context.Context, string) (string, error) { return "", nil }
func (*unable) Address(string) string                           { return "" }
func (*unable) Drops() uint64                                   { return 0 }
func (*unable) OnDisk(string, string) bool                      { return false }

func TestASelfTestThatFailedIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := &unable{Sim: runtime.NewSim(1 << 20)}
		w := &world{t: t, c: newControl(), cfg: Config{Dir: t.TempDir(), HostID: "ho-test", Driver: engine, Log: testLog(t)}}
		w.start()
		defer w.kill()
		<-time.After(10 * time.Minute)
		engine.mu.Lock()
		tried := slices.Clone(engine.tried)
		engine.mu.Unlock()
		if len(tried) < 4 {
			t.Fatalf("in ten minutes it was tried %d times", len(tried))
		}
		for i := 2; i < len(tried); i++ {
			if last, before := tried[i].Sub(tried[i-1]), tried[i-1].Sub(tried[i-2]); last < before+before/2 {
				t.Errorf("try %d came %s after the one before, and that one after %s: want about twice as long", i, last, before)
			}
		}
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		if test := w.c.inv.SelfTest; test.Passed || test.RanAt.Nanos == 0 {
			t.Errorf("the control plane was told %+v", test)
		}
	})
}

func TestASelfTestThatIsTriedAgainHasOtherNames(t *testing.T) {
	t.Parallel()
	first := selfTestPairs("ho-1")
	seen := map[string]bool{}
	for _, pair := range first {
		for _, id := range pair {
			if seen[id] || !strings.HasPrefix(id, selfTestPrefix) {
				t.Errorf("%s is a name twice, or looks like a lease's", id)
			}
			seen[id] = true
		}
	}
	if selfTestPairs("ho-1") != first || selfTestPairs("ho-2") == first {
		t.Error("what is left of an earlier test is not found by its name, or is another host's")
	}
}
