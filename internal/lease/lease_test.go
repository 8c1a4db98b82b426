package lease

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/store"
	"suanli.dev/internal/store/storetest"
)

func TestALeaseRunsStopsStartsAndEnds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, t.Context(), db)
		h := w.join(2)
		l := w.rent(h, 2)
		if got := h.commands[0].Spec; !slices.Equal(got.GPUs, l.GPUs) || len(got.GPUs) != 2 || got.DiskMiB != 10<<10 {
			t.Errorf("the host was told %+v", got)
		}
		w.pass(time.Minute)
		if _, err := w.Stop(w.ctx, w.ada, l.ID); err != nil {
			t.Fatal(err)
		}
		w.until(l.ID, Stopped)
		if w.free() != 2 {
			t.Errorf("a stopped lease keeps GPUs: %d are free", w.free())
		}
		stopped := w.get(l.ID)
		if stopped.Code != "commanded" || stopped.Message != "stopped by the renter" {
			t.Errorf("why it stopped is %q %q", stopped.Code, stopped.Message)
		}
		// Asking for what is so already is no error.
		if again, err := w.Stop(w.ctx, w.ada, l.ID); err != nil || again.Generation != stopped.Generation {
			t.Errorf("stopping a stopped lease: generation %d, %v", again.Generation, err)
		}
		if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
			t.Fatal(err)
		}
		w.until(l.ID, Running)
		if _, err := w.Restart(w.ctx, w.ada, l.ID); err != nil {
			t.Fatal(err)
		}
		w.until(l.ID, Running)
		if last := h.commands[len(h.commands)-1]; last.Generation != w.get(l.ID).Generation || last.Want != protocol.WantRunning {
			t.Errorf("the restart was told as %+v", last)
		}
		if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
			t.Fatal(err)
		}
		w.until(l.ID, Ended)
		w.wantClosed(l.ID)
		if w.free() != 2 {
			t.Errorf("%d GPUs are free after the end, want 2", w.free())
		}
		history, err := w.History(w.ctx, w.ada, l.ID)
		if err != nil {
			t.Fatal(err)
		}
		var path []string
		for _, c := range history {
			path = append(path, string(c.To))
		}
		want := "accepted provisioning running stopping stopped starting running starting running ending ended"
		if got := strings.Join(path, " "); got != want {
			t.Errorf("its life was %s\nwant %s", got, want)
		}
	})
}

// C2: cancelling at any moment, whether the agent can be reached or not.
func TestEndingAtEveryStateGivesAllBackAndChargesNothingThatDidNotRun(t *testing.T) {
	t.Parallel()
	to := map[State]func(w *world, h *fakeHost) string{
		Accepted: func(w *world, h *fakeHost) string { return w.accept(w.ada, h, 2).ID },
		Provisioning: func(w *world, h *fakeHost) string {
			h.set(func() { h.slow = true })
			l := w.accept(w.ada, h, 2)
			w.until(l.ID, Provisioning)
			return l.ID
		},
		Running: func(w *world, h *fakeHost) string { return w.rent(h, 2).ID },
		Stopping: func(w *world, h *fakeHost) string {
			h.set(func() { h.deaf[protocol.WantStopped] = 1000 })
			l := w.rent(h, 2)
			w.Stop(w.ctx, w.ada, l.ID)
			w.tick()
			return l.ID
		},
		Stopped: func(w *world, h *fakeHost) string {
			l := w.rent(h, 2)
			w.Stop(w.ctx, w.ada, l.ID)
			w.until(l.ID, Stopped)
			return l.ID
		},
		Starting: func(w *world, h *fakeHost) string {
			l := w.rent(h, 2)
			w.Stop(w.ctx, w.ada, l.ID)
			w.until(l.ID, Stopped)
			h.set(func() { h.slow = true })
			w.Start(w.ctx, w.ada, l.ID)
			w.pass(3 * beat)
			return l.ID
		},
		Unreachable: func(w *world, h *fakeHost) string {
			l := w.rent(h, 2)
			h.set(func() { h.up = false })
			w.until(l.ID, Unreachable)
			return l.ID
		},
	}
	for _, state := range []State{Accepted, Provisioning, Running, Stopping, Stopped, Starting, Unreachable} {
		for _, agent := range []string{"up", "down", "crashed"} {
			t.Run(fmt.Sprintf("%s, agent %s", state, agent), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t)
				h := w.join(2)
				id := to[state](w, h)
				w.wantState(id, state)
				h.set(func() { h.up = agent == "up" })
				if agent == "crashed" {
					h.crash()
				}
				if _, err := w.End(w.ctx, w.ada, id); err != nil {
					t.Fatal(err)
				}
				if agent != "up" {
					w.pass(2 * time.Minute)
					h.set(func() { h.up = true })
				}
				w.pass(2 * time.Minute)
				w.wantClosed(id)
				if free := w.free(); free != 2 {
					t.Errorf("%d GPUs are free, want 2", free)
				}
				if b := w.bill(id); (state == Accepted || state == Provisioning) && b.Total != 0 {
					t.Errorf("it never ran and costs %s", b.Total)
				}
				if len(h.containers()) != 0 {
					t.Error("a container is left")
				}
			})
		}
	}
}

// C1, C16: one silent host.
func TestASilentHostsLeaseCostsNothingMeanwhileAndGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	w.join(1)
	l := w.rent(h, 1)
	w.pass(5 * time.Minute)
	before, _ := w.charged(l.ID)
	h.set(func() { h.up = false })
	w.until(l.ID, Unreachable)
	w.pass(time.Hour)
	if w.get(l.ID).State != Unreachable {
		t.Fatalf("after an hour in the dark it is %s", w.get(l.ID).State)
	}
	if used, _ := w.charged(l.ID); used > before+time.Second {
		t.Errorf("%s in the dark were charged", used-before)
	}
	h.set(func() { h.up = true })
	w.until(l.ID, Running)
	w.pass(time.Minute)
	if used, _ := w.charged(l.ID); used > before+70*time.Second {
		t.Errorf("%s are charged; it ran %s before and a minute after", used, before)
	}
	if len(h.containers()) != 1 {
		t.Errorf("%d containers run, want the one", len(h.containers()))
	}
	w.End(w.ctx, w.ada, l.ID)
	w.pass(time.Minute)
	w.wantClosed(l.ID)
}

func TestAHostsSilenceCostsNoSecondMinimum(t *testing.T) {
	t.Parallel()
	for _, granularity := range []string{"second", "hour"} {
		w := newWorld(t, func(o *options) { o.minimum, o.granularity = 600, granularity })
		h := w.join(1)
		w.join(1)
		l := w.rent(h, 1)
		for range 3 {
			w.pass(10 * time.Second)
			h.set(func() { h.up = false })
			w.until(l.ID, Unreachable)
			h.set(func() { h.up = true })
			w.until(l.ID, Running)
		}
		want := map[string]time.Duration{"second": 10 * time.Minute, "hour": time.Hour}[granularity]
		if _, counted := w.charged(l.ID); counted != want {
			t.Errorf("by the %s: %s are charged for one run of a minute that its host broke three times, want %s", granularity, counted, want)
		}
		// The renter's own stop and start is another run.
		w.Stop(w.ctx, w.ada, l.ID)
		w.until(l.ID, Stopped)
		w.Start(w.ctx, w.ada, l.ID)
		w.until(l.ID, Running)
		w.pass(15 * time.Second)
		if _, counted := w.charged(l.ID); counted != 2*want {
			t.Errorf("by the %s: %s are charged after another start, want %s", granularity, counted, 2*want)
		}
	}
}

// A host may fall silent after it was told to stop or to end.
func TestTheSameRequestAtTheSameTimeIsAnsweredAlike(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(time.Minute)
	for _, c := range []struct {
		what string
		ask  func(context.Context, account.Principal, string) (*Lease, error)
		to   State
	}{{"stop", w.Stop, Stopped}, {"start", w.Start, Running}, {"end", w.End, Ended}} {
		var asking sync.WaitGroup
		for range 8 {
			asking.Go(func() {
				if _, err := c.ask(w.ctx, w.ada, l.ID); err != nil {
					t.Errorf("one of eight to %s: %v", c.what, err)
				}
			})
		}
		asking.Wait()
		w.until(l.ID, c.to)
	}
}

func TestAHostThatIsSilentWhileItStopsIsNotPaidForTheDark(t *testing.T) {
	t.Parallel()
	for _, end := range []bool{false, true} {
		w := newWorld(t)
		h := w.join(1)
		w.join(1)
		l := w.rent(h, 1)
		w.pass(time.Minute)
		h.set(func() { h.up = false })
		var err error
		if end {
			_, err = w.End(w.ctx, w.ada, l.ID)
		} else {
			_, err = w.Stop(w.ctx, w.ada, l.ID)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		if code := w.get(l.ID).Code; code != "commanded" {
			t.Errorf("why it stops is now %q", code)
		}
		h.set(func() { h.up = true; h.deaf[protocol.WantStopped] = 1; h.deaf[protocol.WantAbsent] = 1 })
		w.pass(2 * time.Minute)
		if used, _ := w.charged(l.ID); used > 2*time.Minute {
			t.Errorf("end %v: %s are charged, and the host was dark for an hour of that", end, used)
		}
	}
}

// C3: an answer to an older question must not make a lease count as lost.
func TestOneReportWithoutALeaseIsNotItsLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	h.set(func() { h.blank = true })
	w.beat(h)
	h.set(func() { h.blank = false })
	w.pass(time.Minute)
	w.wantState(l.ID, Running)
	h.set(func() { h.blank = true })
	w.beat(h)
	w.beat(h)
	if s := w.get(l.ID).State; s != Ending {
		t.Errorf("two complete reports lack it and it is %s", s)
	}
}

// C8, C13: lost while the control plane was away.
func TestALeaseThatItsHostLostDuringARestartIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, stopped := range []bool{false, true} {
		w := newWorld(t)
		h := w.join(1)
		l := w.rent(h, 1)
		if stopped {
			w.Stop(w.ctx, w.ada, l.ID)
			w.until(l.ID, Stopped)
		}
		h.crash()
		h.set(func() { h.instances = map[string]*instance{} })
		w.restart()
		w.pass(3 * time.Minute)
		got := w.get(l.ID)
		if got.State != Ended || got.Code != "instance_lost" {
			t.Errorf("stopped %v: it is %s (%s), want ended (instance_lost)", stopped, got.State, got.Code)
		}
		w.wantClosed(l.ID)
		storage := w.bill(l.ID).Total
		w.pass(time.Hour)
		if w.bill(l.ID).Total != storage {
			t.Error("a disk that is gone is still charged")
		}
	}
}

// C4: the host says yes and does nothing.
func TestAnEndThatIsAcceptedAndNotDoneIsAskedForAgainAndHoldsTheGPUs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	h.set(func() { h.deaf[protocol.WantAbsent] = 3 })
	w.End(w.ctx, w.ada, l.ID)
	w.pass(10 * time.Second)
	w.wantState(l.ID, Ending)
	if w.free() != 0 {
		t.Error("its GPU is offered although its container runs")
	}
	w.pass(time.Minute)
	w.wantClosed(l.ID)
	if w.free() != 1 {
		t.Error("its GPU is not offered again")
	}
}

// C5: a failed start keeps what the renter had.
func TestAFailedStartLeavesTheLeaseStoppedWithItsDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.Stop(w.ctx, w.ada, l.ID)
	w.until(l.ID, Stopped)
	h.set(func() { h.fail[l.ID] = protocol.PhaseFailed })
	before, _ := w.charged(l.ID)
	if _, err := w.Start(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(30 * time.Second)
	got := w.get(l.ID)
	if got.State != Stopped || got.Code != "image_not_found" || w.free() != 1 {
		t.Fatalf("it is %s (%s), %d GPUs free; want stopped with the reason, and its GPU free", got.State, got.Code, w.free())
	}
	if used, _ := w.charged(l.ID); used != before {
		t.Errorf("the failed start cost %s of compute", used-before)
	}
	storage := w.bill(l.ID).Total
	w.pass(time.Hour)
	if w.bill(l.ID).Total <= storage {
		t.Error("the disk is kept and costs nothing")
	}
	// No capacity is the same, at once.
	other := w.accept(w.ada, h, 1)
	_, err := w.Start(w.ctx, w.ada, l.ID)
	wantCode(t, err, "no_capacity")
	w.wantState(l.ID, Stopped)
	w.End(w.ctx, w.ada, other.ID)
	w.pass(time.Minute)
	h.set(func() { delete(h.fail, l.ID) })
	w.Start(w.ctx, w.ada, l.ID)
	w.until(l.ID, Running)
}

// C6: the answer to the first command is lost after the host has started.
func TestACommandWhoseAnswerIsLostIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() { h.loseAnswers = 1000 })
	l := w.accept(w.ada, h, 1)
	w.until(l.ID, Running)
	w.End(w.ctx, w.ada, l.ID)
	w.pass(2 * time.Minute)
	w.wantClosed(l.ID)
	for _, c := range h.commands {
		if c.Generation > 2 {
			t.Errorf("a lease that was started and ended had generation %d", c.Generation)
		}
	}
}

func TestALeaseThatIsEndedWhileItsStartHangsCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	// The commands arrive; neither answers nor reports do, until it is too late.
	h.set(func() { h.loseAnswers = 1000 })
	l := w.accept(w.ada, h, 1)
	w.tick()
	h.work()
	if len(h.containers()) != 1 {
		t.Fatal("the host did not start it")
	}
	if _, err := w.End(w.ctx, w.ada, l.ID); err != nil {
		t.Fatal(err)
	}
	w.pass(time.Minute)
	w.wantClosed(l.ID)
	if b := w.bill(l.ID); b.Total != 0 {
		t.Errorf("it was never confirmed running and costs %s", b.Total)
	}
}

// C7, C26: a lease that cannot start fails with its reason, costs nothing, and
// holds its GPUs until the host is clean.
func TestALeaseThatCannotStartFailsWithinABeatAndIsFree(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	bad := w.accept(w.ada, h, 1)
	h.set(func() { h.fail[bad.ID] = protocol.PhaseFailed; h.deaf[protocol.WantAbsent] = 1 })
	good := w.accept(w.ada, h, 1)
	w.tick()
	w.pass(beat)
	got := w.get(bad.ID)
	if got.State != Failed || got.Code != "image_not_found" || got.Message == "" {
		t.Fatalf("it is %s (%s: %s)", got.State, got.Code, got.Message)
	}
	if w.holders()[bad.ID] != 1 {
		t.Error("its GPU was given away before the host was clean")
	}
	w.until(good.ID, Running)
	w.pass(time.Minute)
	w.wantClosed(bad.ID)
	if w.free() != 1 {
		t.Errorf("%d GPUs are free, want 1", w.free())
	}
}

func TestARefusedSpecFailsTheLeaseAndNeverStopsWhatRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	running := w.rent(h, 1)
	h.set(func() { h.refuse = &protocol.CommandResult{Code: "bad_spec", Message: "no such thing"} })
	l := w.accept(w.ada, h, 1)
	w.pass(30 * time.Second)
	if got := w.get(l.ID); got.State != Failed || got.Code != "bad_spec" {
		t.Errorf("it is %s (%s)", got.State, got.Code)
	}
	w.Restart(w.ctx, w.ada, running.ID)
	w.pass(30 * time.Second)
	if len(h.containers()) != 1 || w.holders()[running.ID] != 1 {
		t.Errorf("%d containers run on %d GPUs: a GPU with a container must be held", len(h.containers()), w.holders()[running.ID])
	}
	h.set(func() { h.refuse = nil })
	w.pass(time.Minute)
	w.wantState(running.ID, Stopped)
	w.wantClosed(l.ID)
}

// C9: settings and states that change at the same time.
func TestADeadlineThatIsSetWhileTheHostReportsIsNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	deadline := w.clock().Add(3 * time.Minute)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := w.Change(w.ctx, w.ada, l.ID, Update{Deadline: &deadline, Labels: map[string]string{"n": fmt.Sprint(i)}}); err != nil {
				t.Error(err)
			}
		})
		all.Go(func() {
			event := []Event{LoseHost, ConfirmRunning}[i%2]
			if _, err := w.move(w.ctx, l.ID, step{event: event}); err != nil && !gone(err) {
				t.Error(err)
			}
		})
	}
	all.Wait()
	w.Service.mu.Lock()
	tracked := *w.live[l.ID].lease
	w.Service.mu.Unlock()
	if stored := w.get(l.ID); !stored.Deadline.Equal(deadline) || tracked.version != stored.version || !tracked.Deadline.Equal(deadline) {
		t.Fatalf("stored %s (version %d), in memory %s (version %d), want %s", stored.Deadline, stored.version, tracked.Deadline, tracked.version, deadline)
	}
	w.pass(5 * time.Minute)
	if got := w.get(l.ID); got.State != Stopped || got.Code != "deadline" {
		t.Errorf("after its deadline it is %s (%s)", got.State, got.Code)
	}
}

// C15: commands and reports of older generations.
func TestWhatAnOlderGenerationDoesIsNoNews(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.Stop(w.ctx, w.ada, l.ID)
	w.until(l.ID, Stopped)
	w.Start(w.ctx, w.ada, l.ID)
	h.set(func() { h.ignore = func(protocol.Command) bool { return true } })
	w.pass(time.Minute)
	// The host says, truthfully, that generation 2 is stopped.
	w.wantState(l.ID, Starting)
	stale := protocol.Command{LeaseID: l.ID, Generation: 1, Want: protocol.WantAbsent}
	if res := h.take(stale); res.Accepted || res.Code != "stale_generation" {
		t.Errorf("the host took generation 1 after 2: %+v", res)
	}
	h.set(func() { h.ignore = nil })
	w.until(l.ID, Running)
	if g := w.get(l.ID).Generation; g != 3 {
		t.Errorf("it runs in generation %d, want 3", g)
	}
}

func TestAHostThatWasSetBackToAnOlderStateIsToldAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.Restart(w.ctx, w.ada, l.ID)
	w.pass(30 * time.Second)
	w.wantState(l.ID, Running)
	h.set(func() {
		i := h.instances[l.ID]
		i.Generation, i.spec = 1, nil
	})
	w.restart()
	w.pass(time.Minute)
	if i := h.instances[l.ID]; i.Generation != 2 || !i.running {
		t.Errorf("the host has generation %d, running %v; want 2, running", i.Generation, i.running)
	}
	w.wantState(l.ID, Running)
}

func TestAHostCannotSpeakForAnothersLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h, liar := w.join(1), w.join(1)
	l := w.rent(h, 1)
	for _, phase := range []protocol.Phase{protocol.PhaseStopped, protocol.PhaseAbsent, protocol.PhaseFailed, "dancing"} {
		liar.set(func() {
			liar.instances[l.ID] = &instance{InstanceStatus: protocol.InstanceStatus{LeaseID: l.ID, Generation: 99, Phase: phase}, stuck: true}
			liar.past = []protocol.PastRun{{ID: 1, LeaseID: l.ID, Generation: 1, Stopped: liar.instant(w.clock())}}
		})
		w.pass(30 * time.Second)
		w.wantState(l.ID, Running)
	}
	if len(h.containers()) != 1 {
		t.Error("its container is gone")
	}
}

// C17: one host throws, hangs or refuses; the others go on.
func TestABrokenHostKeepsNobodyElseWaiting(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken, fine := w.join(1), w.join(1)
	broken.set(func() { broken.panics = true })
	bad, good := w.accept(w.ada, broken, 1), w.accept(w.ada, fine, 1)
	w.until(good.ID, Running)
	broken.set(func() { broken.panics = false })
	w.until(bad.ID, Running)
}

// C20: a host whose reports have stopped takes no lease, whatever it last said.
func TestAQuoteForAHostThatFellSilentIsNotAccepted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	w.join(1)
	q, err := w.quote(w.ada, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	h.set(func() { h.up = false })
	w.pass(time.Minute)
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID})
	wantCode(t, err, "host_offline")
	if held := w.holders(); len(held) != 0 {
		t.Errorf("the refused lease holds %v", held)
	}
	if b, err := w.billing.Balance(w.ctx, w.ada.AccountID); err != nil || b.Held != 0 {
		t.Errorf("%s are held, %v", b.Held, err)
	}
}

// C18, C14: hosts that report nonsense, or nothing yet.
func TestAnAgentThatIsNotReadyLosesNoLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	for range 10 {
		r := protocol.Report{Session: h.session, Now: *h.instant(w.clock()), Ready: false, Problem: "looking"}
		h.set(func() { h.seq++; r.Seq = h.seq })
		reply, err := w.fleet.Report(w.ctx, h.id, r, w.clock())
		if err != nil {
			t.Fatal(err)
		}
		if len(reply.Desired) != 1 || !reply.Complete {
			t.Fatalf("an agent that has lost its view is told %+v", reply)
		}
	}
	w.wantState(l.ID, Running)
}

// C50: the deadline and the paid-for time live on the host.
func TestLimitsAreWithTheHostFromTheFirstCommandOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *options) { o.money = "3" })
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) {
		c.Deadline = w.clock().Add(2 * time.Hour)
		c.Idle = &IdleStop{After: 10 * time.Minute, GPUPercent: 5, CPUPercent: 7}
	})
	first := h.commands[0].Limits
	if first.StopIn <= 0 || first.StopIn > 2*time.Hour || first.IdleAfter != 10*time.Minute || first.IdleGPUPercent != 5 || first.IdleCPUPercent != 7 {
		t.Errorf("the first command has the limits %+v", first)
	}
	// 3 dollars at 0.39 an hour.
	if first.PaidFor < 7*time.Hour || first.PaidFor > 8*time.Hour {
		t.Errorf("paid for %s, want about 7.7 h", first.PaidFor)
	}
	none := time.Time{}
	if _, err := w.Change(w.ctx, w.ada, l.ID, Update{Deadline: &none}); err != nil {
		t.Fatal(err)
	}
	desired, complete, _, err := w.OnReport(w.ctx, h.id, h.report(), w.clock())
	if err != nil || !complete || len(desired) != 1 || desired[0].Limits.StopIn != 0 {
		t.Errorf("the next answer says %+v, %v, %v; want no deadline", desired, complete, err)
	}
}

// C49: what stops a lease by itself is said, and the lease can be started again.
func TestAHostsOwnStopIsTakenInWithItsReason(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"idle", "deadline", "unpaid", "oom_killed"} {
		w := newWorld(t)
		h := w.join(1)
		l := w.rent(h, 1)
		h.set(func() {
			i := h.instances[l.ID]
			h.halt(i, code)
			i.Phase, i.Code, i.Reason = protocol.PhaseStopped, code, "by itself"
		})
		w.pass(beat)
		if got := w.get(l.ID); got.State != Stopped || got.Code != code || w.free() != 1 {
			t.Errorf("%s: it is %s (%s), %d GPUs free", code, got.State, got.Code, w.free())
		}
		w.Start(w.ctx, w.ada, l.ID)
		w.until(l.ID, Running)
	}
}

// C51: a deadline that is over does not stop a later start at once.
func TestALeaseIsNotStartedPastItsDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1, func(c *Create) { c.Deadline = w.clock().Add(2 * time.Minute) })
	w.pass(5 * time.Minute)
	w.wantState(l.ID, Stopped)
	_, err := w.Start(w.ctx, w.ada, l.ID)
	wantCode(t, err, "deadline_past")
	none := time.Time{}
	w.Change(w.ctx, w.ada, l.ID, Update{Deadline: &none})
	w.Start(w.ctx, w.ada, l.ID)
	w.until(l.ID, Running)
	w.pass(5 * time.Minute)
	w.wantState(l.ID, Running)
}

// C54: clocks that are wrong or jump.
func TestClocksOfHostsDoNotChangeWhatIsCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	future := protocol.Instant{BootID: "elsewhere", Nanos: 1 << 60}
	for name, mangle := range map[string]func(*protocol.InstanceStatus){
		"another boot": func(st *protocol.InstanceStatus) { st.Started, st.Stopped = &future, &future },
		"the future": func(st *protocol.InstanceStatus) {
			st.Started = &protocol.Instant{BootID: h.instant(w.clock()).BootID, Nanos: 1 << 62}
		},
		"long ago": func(st *protocol.InstanceStatus) {
			st.Started = &protocol.Instant{BootID: h.instant(w.clock()).BootID, Nanos: -1 << 62}
		},
		"no date at all": func(st *protocol.InstanceStatus) { st.Started, st.Stopped = nil, nil },
	} {
		h.set(func() { h.mangle = mangle })
		l := w.rent(h, 1)
		w.pass(time.Minute)
		w.End(w.ctx, w.ada, l.ID)
		w.pass(time.Minute)
		used, _ := w.charged(l.ID)
		// A beat at each end is what a report can be late by. Who says that a run
		// took no time at all harms only itself.
		if ran := h.runtime(l.ID); used > ran+2*beat || (used < ran-2*beat && name != "another boot") {
			t.Errorf("%s: %s are charged, it ran %s", name, used, ran)
		}
		if got := w.get(l.ID).State; got != Ended {
			t.Errorf("%s: it is %s", name, got)
		}
	}
}

func TestAServerClockThatIsSetBackChargesNothingNegative(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(10 * time.Minute)
	w.mu.Lock()
	w.now = w.now.Add(-time.Hour)
	w.mu.Unlock()
	w.pass(2 * time.Minute)
	w.wantState(l.ID, Running)
	w.End(w.ctx, w.ada, l.ID)
	w.pass(2 * time.Minute)
	if used, _ := w.charged(l.ID); used < 0 || used > 13*time.Minute {
		t.Errorf("%s are charged", used)
	}
	if s := w.get(l.ID).State; s != Ended {
		t.Errorf("it is %s", s)
	}
	w.booksAreRight()
}

// C55: the control plane stands still, or loses its own network.
func TestMostHostsSilentAtOnceCostsNobodyTheirLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var leases []*Lease
	for range 5 {
		leases = append(leases, w.rent(w.join(1), 1))
	}
	for _, h := range w.hosts {
		h.set(func() { h.up = false })
	}
	w.pass(2 * time.Minute)
	for _, l := range leases {
		w.wantState(l.ID, Running)
	}
	for _, h := range w.hosts {
		h.set(func() { h.up = true })
	}
	w.pass(2 * beat)
	w.jump(time.Minute) // the process stands still
	w.pass(2 * beat)
	for _, l := range leases {
		w.wantState(l.ID, Running)
		if h := w.host(l.HostID); len(h.containers()) != 1 {
			t.Errorf("%d containers run on %s", len(h.containers()), h.id)
		}
	}
}

// C8, C61: the control plane is killed between any two steps.
func TestARestartAtEveryStepChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	w.join(1)
	story := []func(id string){
		func(string) {},
		func(id string) { w.Stop(w.ctx, w.ada, id) },
		func(id string) { w.Start(w.ctx, w.ada, id) },
		func(id string) { w.Restart(w.ctx, w.ada, id) },
		func(id string) { w.End(w.ctx, w.ada, id) },
	}
	for at := range 4 * len(story) {
		l := w.accept(w.ada, h, 2)
		for i, chapter := range story {
			chapter(l.ID)
			for phase := range 4 {
				if 4*i+phase == at {
					w.restart()
				}
				switch phase {
				case 0:
					w.tick()
				case 1:
					h.work()
				case 2:
					w.pass(beat)
				}
			}
			w.pass(6 * beat) // hosts are awaited after a restart
		}
		w.pass(time.Minute)
		w.wantClosed(l.ID)
		if n := w.free(); n != 2 {
			t.Fatalf("restart at step %d: %d GPUs are free, want 2", at, n)
		}
		used, _ := w.charged(l.ID)
		if ran := h.runtime(l.ID); ran == 0 || used < ran-40*time.Second {
			t.Errorf("restart at step %d: it ran %s and %s are charged", at, ran, used)
		}
	}
}

// Invariant 1: two replicas on one database.
func TestTwoReplicasNeverRentOneGPUTwice(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		w := newWorldOn(t, t.Context(), db)
		h := w.join(2)
		other := w.replica()
		if err := other.Load(w.ctx); err != nil {
			t.Fatal(err)
		}
		var quotes []*Quote
		for range 12 {
			q, err := w.quote(w.ada, h, 1)
			if err != nil {
				t.Fatal(err)
			}
			quotes = append(quotes, q)
		}
		var mu sync.Mutex
		var got []*Lease
		var all sync.WaitGroup
		for i, q := range quotes {
			for _, s := range []*Service{w.Service, other} {
				all.Go(func() {
					l, err := s.Accept(w.ctx, w.ada, Create{QuoteID: q.ID, Name: fmt.Sprint("n", i)})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						got = append(got, l)
					}
				})
			}
		}
		all.Wait()
		if len(got) != 2 || got[0].GPUs[0] == got[1].GPUs[0] {
			t.Fatalf("%d leases were accepted on 2 GPUs", len(got))
		}
		// The replica that did not accept it hears the host and must not disown it.
		for range 6 {
			w.jump(beat)
			h.work()
			r := h.report()
			desired, complete, _, err := other.OnReport(w.ctx, h.id, r, w.clock())
			if err != nil {
				t.Fatal(err)
			}
			h.answered(r, protocol.ReportReply{Accepted: true, Desired: desired, Complete: complete})
			w.tick()
			other.reconcile(w.ctx, true)
			other.commanding.Wait()
		}
		if n := len(h.containers()); n != 2 {
			t.Fatalf("%d containers run, want 2", n)
		}
		for _, l := range got {
			w.wantState(l.ID, Running)
			if _, err := other.End(w.ctx, w.ada, l.ID); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(10 * time.Minute)
		other.reconcile(w.ctx, true)
		other.commanding.Wait()
		other.catchUp(w.ctx)
		for _, l := range got {
			w.wantState(l.ID, Ended)
			w.wantClosed(l.ID)
		}
		if len(other.live) != 0 || len(w.live) != 0 {
			t.Errorf("%d and %d leases that are over are still looked after", len(other.live), len(w.live))
		}
	})
}

// A host that was booted while the control plane was away still says how long
// it ran.
func TestARunThatABootEndedIsChargedForAsLongAsItRan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(time.Minute)
	w.jump(time.Hour) // without a control plane
	h.crash()
	ran := h.runtime(l.ID)
	w.jump(time.Hour)
	w.restart()
	w.pass(30 * time.Second)
	if got := w.get(l.ID); got.State != Stopped || got.Code != "engine" {
		t.Errorf("it is %s (%s)", got.State, got.Code)
	}
	if used, _ := w.charged(l.ID); used > ran || used < ran-2*beat {
		t.Errorf("it ran %s and %s are charged", ran, used)
	}
}

// C65: ports are taken with the GPUs and stay for the lease's life.
func TestDirectPortsAreTakenWithTheGPUsAndStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(3)
	l := w.rent(h, 1, func(c *Create) { c.Ports = []int{8888, 80} })
	ports := l.Bundle.DirectPorts
	if len(ports) != 2 || ports[80] == ports[8888] {
		t.Fatalf("it has the ports %v", ports)
	}
	w.Stop(w.ctx, w.ada, l.ID)
	w.until(l.ID, Stopped)
	other := w.rent(h, 1, func(c *Create) { c.Ports = []int{80} })
	for _, p := range other.Bundle.DirectPorts {
		if p == ports[80] || p == ports[8888] {
			t.Errorf("port %d of a stopped lease was given away", p)
		}
	}
	w.Start(w.ctx, w.ada, l.ID)
	w.until(l.ID, Running)
	if got := h.commands[len(h.commands)-1].Spec.DirectPorts; fmt.Sprint(got) != fmt.Sprint(ports) {
		t.Errorf("after a restart the ports are %v, they were %v", got, ports)
	}
	// There are ten; what does not fit is refused whole.
	q, err := w.quote(w.ada, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID, Ports: []int{1, 2, 3, 4, 5, 6, 7, 8, 9}})
	wantCode(t, err, "no_direct_ports")
	if w.free() != 1 {
		t.Errorf("%d GPUs are free after a refusal, want 1", w.free())
	}
}

// C67: a pull that goes on is not given up and not charged.
func TestALongPullIsNotGivenUpAndNotCharged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() { h.slow = true })
	l := w.accept(w.ada, h, 1)
	w.pass(20 * time.Minute)
	w.restart()
	w.tick() // before the first report
	w.pass(20 * time.Minute)
	w.wantState(l.ID, Provisioning)
	if b := w.bill(l.ID); b.Total != 0 {
		t.Errorf("pulling costs %s", b.Total)
	}
	if st := w.get(l.ID).Status; st == nil || st.Phase != protocol.PhasePulling || st.Progress.Bytes == 0 {
		t.Errorf("its progress is %+v", st)
	}
	h.set(func() { h.slow = false })
	w.until(l.ID, Running)
}

func TestALeaseWhoseHostNeverAnswersIsGivenUpForNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() { h.ignore = func(protocol.Command) bool { return true } })
	l := w.accept(w.ada, h, 1)
	w.pass(17 * time.Minute)
	if got := w.get(l.ID); got.State != Failed || got.Code != "host_unreachable" {
		t.Fatalf("it is %s (%s)", got.State, got.Code)
	}
	h.set(func() { h.ignore = nil })
	w.pass(time.Minute)
	w.wantClosed(l.ID)
}

func TestACommandThatExitsAtOnceIsChargedForItsRunAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *options) { o.minimum = 60 })
	h := w.join(1)
	h.set(func() { h.fail["*"] = protocol.PhaseStopped })
	l := w.accept(w.ada, h, 1)
	w.until(l.ID, Stopped)
	got := w.get(l.ID)
	if got.Code != "exited" || got.ExitCode == nil || *got.ExitCode != 3 || w.free() != 1 {
		t.Errorf("it is stopped by %q with exit code %v, %d GPUs free", got.Code, got.ExitCode, w.free())
	}
	if used, counted := w.charged(l.ID); used > 5*time.Second || counted > time.Minute {
		t.Errorf("%s used, %s charged", used, counted)
	}
}

func TestAHostThatCountsImpossibleEgressDoesNotKeepALeaseFromEnding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	h.set(func() { h.mangle = func(st *protocol.InstanceStatus) { st.EgressBytes = 1 << 62 } })
	w.End(w.ctx, w.ada, l.ID)
	w.pass(time.Minute)
	w.wantClosed(l.ID)
}

func TestEgressIsChargedAsTheHostCountsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(time.Minute)
	h.set(func() { h.mangle = func(st *protocol.InstanceStatus) { st.EgressBytes = 5_000_000_000 } })
	w.Stop(w.ctx, w.ada, l.ID)
	w.until(l.ID, Stopped)
	var sent int64
	for _, line := range w.bill(l.ID).Lines {
		if line.Meter == "egress" {
			sent = line.Used
		}
	}
	if sent != 5_000_000_000 {
		t.Errorf("%d bytes are charged", sent)
	}
}

func TestEgressOfARunningLeaseIsOnItsBillBeforeItStops(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	w.join(1)
	l := w.rent(h, 1)
	w.pass(time.Minute)
	sent := func() (n int64) {
		for _, line := range w.bill(l.ID).Lines {
			if line.Meter == "egress" {
				n = line.Used
			}
		}
		return n
	}
	bytes := int64(20_000_000_000)
	h.set(func() { h.mangle = func(st *protocol.InstanceStatus) { st.EgressBytes = bytes } })
	w.pass(beat)
	if sent() != bytes {
		t.Errorf("%d bytes are on the bill, want much at once", sent())
	}
	h.set(func() { bytes++ })
	w.pass(beat)
	if sent() == bytes {
		t.Error("one byte more was written at once")
	}
	w.pass(11 * time.Minute)
	if sent() != bytes {
		t.Errorf("%d bytes are on the bill, want little after a while", sent())
	}
	h.set(func() { bytes++ })
	w.beat(h)
	h.set(func() { h.up = false })
	w.until(l.ID, Unreachable)
	if sent() != bytes {
		t.Errorf("%d bytes are on the bill of a lease whose host fell silent, want %d", sent(), bytes)
	}
}

// After the database came from a backup, hosts know later generations.
func TestALeaseGoesBeyondAGenerationThatItsHostKnowsAlready(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	l := w.accept(w.ada, h, 1)
	h.set(func() { h.fences[l.ID] = 7 })
	w.until(l.ID, Running)
	if g := w.get(l.ID).Generation; g != 8 {
		t.Errorf("it runs in generation %d, want 8", g)
	}
	liar := w.accept(w.ada, h, 1)
	h.set(func() { h.fences[liar.ID] = 1 << 62 })
	w.pass(time.Minute)
	if got := w.get(liar.ID); got.Generation != 1 || got.State != Provisioning {
		t.Errorf("a host that claims 2⁶² brings the lease to generation %d, %s", got.Generation, got.State)
	}
}

func TestALeaseStopsWhenItsMoneyIsUsedUpAndIsNotStartedWithoutMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *options) { o.money = "0.45" })
	h := w.join(1)
	l := w.rent(h, 1)
	w.pass(90 * time.Minute)
	got := w.get(l.ID)
	if got.State != Stopped || got.Code != "balance" {
		t.Fatalf("it is %s (%s: %s)", got.State, got.Code, got.Message)
	}
	_, err := w.Start(w.ctx, w.ada, l.ID)
	wantCode(t, err, "insufficient_balance")
	w.wantState(l.ID, Stopped)
	w.pass(8 * 24 * time.Hour / 100) // the bulk of the grace is skipped
	w.jump(8 * 24 * time.Hour)
	w.pass(2 * time.Minute)
	if got := w.get(l.ID); got.State != Ended || got.Code != "storage_grace" {
		t.Errorf("after the grace it is %s (%s)", got.State, got.Code)
	}
	w.wantClosed(l.ID)
}

func TestASpendingCapStopsALease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	price, err := money.ParseAmount("0.1")
	if err != nil {
		t.Fatal(err)
	}
	l := w.rent(h, 1, func(c *Create) { c.SpendingCap = &price })
	w.pass(20 * time.Minute)
	if got := w.get(l.ID); got.State != Stopped || got.Code != "spending_cap" {
		t.Errorf("it is %s (%s)", got.State, got.Code)
	}
}

// Invariant 5, at the service.
func TestAnotherTenantSeesAndMovesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eve := w.tenant("eve")
	h := w.join(2)
	l := w.rent(h, 1, func(c *Create) { c.Name = "mine" })
	q, err := w.quote(w.ada, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{l.ID, "mine"} {
		for what, do := range map[string]func() error{
			"get":     func() error { _, err := w.Resolve(w.ctx, eve, name); return err },
			"stop":    func() error { _, err := w.Stop(w.ctx, eve, name); return err },
			"start":   func() error { _, err := w.Start(w.ctx, eve, name); return err },
			"restart": func() error { _, err := w.Restart(w.ctx, eve, name); return err },
			"end":     func() error { _, err := w.End(w.ctx, eve, name); return err },
			"change":  func() error { n := "x"; _, err := w.Change(w.ctx, eve, name, Update{Name: &n}); return err },
			"history": func() error { _, err := w.History(w.ctx, eve, name); return err },
		} {
			if err := do(); err == nil {
				t.Errorf("%s by another tenant works", what)
			} else {
				wantCode(t, err, "lease_not_found")
			}
		}
	}
	_, err = w.Accept(w.ctx, eve, Create{QuoteID: q.ID})
	wantCode(t, err, "quote_not_found")
	if list, _, err := w.List(w.ctx, eve, Filter{}, "", 10); err != nil || len(list) != 0 {
		t.Errorf("another tenant lists %d leases, %v", len(list), err)
	}
	w.wantState(l.ID, Running)
}

func TestAQuoteIsUsedOnceInTimeAndWithinTheQuota(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *options) { o.quota = account.Quota{MaxLeases: 2, MaxGPUs: 3} })
	h := w.join(6)
	q, err := w.quote(w.ada, h, 2)
	if err != nil {
		t.Fatal(err)
	}
	l, err := w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q.ID})
	wantCode(t, err, "quote_used")
	q2, _ := w.quote(w.ada, h, 2)
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q2.ID})
	wantCode(t, err, "quota_gpus")
	q1, _ := w.quote(w.ada, h, 1)
	w.jump(16 * time.Minute)
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q1.ID})
	wantCode(t, err, "quote_expired")
	w.pass(beat)
	w.accept(w.ada, h, 1)
	q1, err = w.quote(w.ada, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q1.ID})
	wantCode(t, err, "quota_leases")
	if held := w.holders(); len(held) != 2 || held[l.ID] != 2 {
		t.Errorf("held are %v", held)
	}
	w.jump(25 * time.Hour)
	w.sweepQuotes(w.ctx)
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: q2.ID})
	wantCode(t, err, "quote_not_found")
}

func TestListsPageThroughEveryFilter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(o *options) { o.quota = account.Quota{MaxLeases: 100, MaxGPUs: 100} })
	h, other := w.join(10), w.join(2)
	for i := range 12 {
		host := h
		if i >= 10 {
			host = other
		}
		w.accept(w.ada, host, 1, func(c *Create) { c.Labels = map[string]string{"parity": fmt.Sprint(i % 2), "all": "yes"} })
	}
	w.pass(30 * time.Second)
	for name, c := range map[string]struct {
		f    Filter
		want int
	}{
		"all":            {Filter{}, 12},
		"state":          {Filter{State: Running}, 12},
		"no such":        {Filter{State: Failed}, 0},
		"host":           {Filter{HostID: h.id}, 10},
		"label":          {Filter{Label: map[string]string{"parity": "1"}}, 6},
		"everything":     {Filter{State: Running, Live: true, HostID: h.id, Label: map[string]string{"parity": "0", "all": "yes"}}, 5},
		"no label there": {Filter{Live: true, Label: map[string]string{"parity": ""}}, 0},
	} {
		for _, limit := range []int{1, 2, 3, 5, 12, 50} {
			seen, cursor, last := map[string]bool{}, "", "zzzz"
			for range 20 {
				list, next, err := w.List(w.ctx, w.ada, c.f, cursor, limit)
				if err != nil {
					t.Fatal(err)
				}
				if len(list) > limit {
					t.Errorf("%s: a page of %d has %d", name, limit, len(list))
				}
				for _, l := range list {
					if seen[l.ID] || l.ID >= last {
						t.Errorf("%s by %d: %s comes twice or out of order", name, limit, l.ID)
					}
					seen[l.ID], last = true, l.ID
				}
				if cursor = next; cursor == "" {
					break
				}
			}
			if len(seen) != c.want {
				t.Errorf("%s by %d: %d leases, want %d", name, limit, len(seen), c.want)
			}
		}
	}
	_, _, err := w.List(w.ctx, w.ada, Filter{State: "asleep"}, "", 10)
	wantCode(t, err, "invalid_state")
	if list, _, err := w.List(w.ctx, w.ada, Filter{}, "", 0); err != nil || len(list) != 12 {
		t.Errorf("with no limit it lists %d, %v", len(list), err)
	}
}

func TestAnOperatorGivesUpAHostThatNeverComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(3)
	w.join(1)
	running, failed := w.rent(h, 1), w.accept(w.ada, h, 1)
	h.set(func() { h.fail[failed.ID] = protocol.PhaseFailed; h.deaf[protocol.WantAbsent] = 99 })
	w.until(failed.ID, Failed)
	accepted := w.accept(w.ada, h, 1)
	h.set(func() { h.up = false })
	w.until(running.ID, Unreachable)
	seen, _ := w.fleet.LastSeen(h.id)
	if err := w.Abandon(w.ctx, w.operator, h.id, seen); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{running.ID, failed.ID, accepted.ID} {
		l := w.get(id)
		if !l.State.Over() || !l.Cleaned {
			t.Errorf("%s is %s, cleaned %v", id, l.State, l.Cleaned)
		}
	}
	if held := w.holders(); len(held) != 0 {
		t.Errorf("held are %v", held)
	}
	w.booksAreRight()
}

func TestNamesThatTwoLeasesHaveAreAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	a := w.accept(w.ada, h, 1, func(c *Create) { c.Name = "twin" })
	if l, err := w.Resolve(w.ctx, w.ada, "twin"); err != nil || l.ID != a.ID {
		t.Errorf("one name of one lease: %v, %v", l, err)
	}
	w.accept(w.ada, h, 1, func(c *Create) { c.Name = "twin" })
	_, err := w.Resolve(w.ctx, w.ada, "twin")
	wantCode(t, err, "lease_ambiguous")
	w.End(w.ctx, w.ada, a.ID)
	w.pass(time.Minute)
	if _, err := w.Resolve(w.ctx, w.ada, "twin"); err != nil {
		t.Errorf("of two only one lives: %v", err)
	}
}

func TestWatchersSeeTheirOwnChangesAndASlowOneIsCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	eve := w.tenant("eve")
	ctx, cancel := context.WithCancel(w.ctx)
	mine, hers := w.Watch(ctx, w.ada.AccountID), w.Watch(ctx, eve.AccountID)
	l := w.accept(w.ada, w.join(1), 1)
	if c := <-mine; c.LeaseID != l.ID || c.To != Accepted {
		t.Errorf("the first change is %+v", c)
	}
	if len(hers) != 0 {
		t.Error("another tenant saw it")
	}
	for range 300 {
		w.announce(Change{AccountID: w.ada.AccountID})
	}
	n := 0
	for range mine {
		n++
	}
	if n != 256 {
		t.Errorf("a reader that does not read got %d changes before it was cut off", n)
	}
	cancel()
	if _, open := <-hers; open {
		t.Error("a watch goes on after its context")
	}
}

// The loop itself, in time that passes by itself.
func TestRunTellsHostsWithinASecondAndEndsWithAllThatItStarted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(t.Context(), storetest.Address(t))
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := newWorldOn(t, t.Context(), db)
		h := w.join(2)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Run(ctx) }()
		first := w.accept(w.ada, h, 1)
		synctest.Wait()
		if len(h.commands) != 1 {
			t.Errorf("%d commands at once after the acceptance, want 1", len(h.commands))
		}
		w.beat(h)
		w.wantState(first.ID, Running)
		h.set(func() { h.ignore = func(protocol.Command) bool { return true } })
		second := w.accept(w.ada, h, 1)
		for range 10 {
			w.jump(time.Second)
			<-time.After(time.Second)
		}
		h.set(func() { h.ignore = nil })
		for range 20 {
			w.jump(time.Second)
			<-time.After(time.Second)
		}
		synctest.Wait()
		w.beat(h)
		w.wantState(second.ID, Running)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCountsShowWhatIsWaited(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(2)
	w.rent(h, 1)
	h.set(func() { h.ignore = func(protocol.Command) bool { return true } })
	w.accept(w.ada, h, 1)
	w.tick()
	w.jump(30 * time.Second)
	counts, lag := w.Counts()
	if counts[CountKey{Running, false}] != 1 || counts[CountKey{Provisioning, false}] != 1 || lag != 30*time.Second {
		t.Errorf("counted %v, waiting for %s", counts, lag)
	}
}

func TestTheEnvironmentIsSealedInTheDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.accept(w.ada, w.join(1), 1, func(c *Create) { c.Environment = map[string]string{"TOKEN": "hunter2hunter2"} })
	if strings.Contains(l.spec, "hunter2") || strings.Contains(l.accessToken, "hunter2") {
		t.Error("the secret is in the row")
	}
	spec, err := w.Settings(l)
	if err != nil || spec.Environment["TOKEN"] != "hunter2hunter2" {
		t.Errorf("its settings are %v, %v", spec, err)
	}
	if k, err := w.linkKey(l); err != nil || len(k.Secret) < 20 || strings.Contains(l.accessToken, k.Secret) {
		t.Errorf("the key of its links is %q, %v", k.Secret, err)
	}
}

var _ Capacity = (*fleet.Service)(nil)

// The agent removed a lease, and died before it could report that: whoever comes
// after it knows of no such lease, and the last report said "stopping".
func TestALeaseThatLeftItsHostUnseenEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	l := w.rent(h, 1)
	w.End(w.ctx, w.ada, l.ID)
	w.tick()
	h.set(func() {
		h.mangle = func(st *protocol.InstanceStatus) { st.Phase = protocol.PhaseStopping }
		h.instances[l.ID].stuck = true
	})
	w.beat(h)
	h.set(func() {
		i := h.instances[l.ID]
		h.halt(i, "commanded")
		h.fences[l.ID] = i.Generation
		delete(h.instances, l.ID)
		h.mangle = nil
	})
	w.until(l.ID, Ended)
	w.wantClosed(l.ID)
}
