package instance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"testing"
	"time"

	"suanli.dev/internal/protocol"
)

func job(t *testing.T, perNode int, script string) protocol.RankJob {
	t.Helper()
	return protocol.RankJob{ID: "rn-1-0", Nodes: 2, NodeRank: 1, PerNode: perNode, MasterName: "node-0", MasterPort: 29500, Command: []string{"/bin/sh", "-c", script}, Folder: t.TempDir()}
}

func jobDone(t *testing.T, j protocol.RankJob) protocol.RankStatus {
	t.Helper()
	dir := filepath.Join(j.Folder, j.ID)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); <-tick.C {
		if st := rankStatus(dir); st.State == protocol.RanksDone {
			return st
		}
	}
	t.Fatalf("the job is still %+v", rankStatus(dir))
	return protocol.RankStatus{}
}

func begin(t *testing.T, j protocol.RankJob) string {
	t.Helper()
	dir := filepath.Join(j.Folder, j.ID)
	b, _ := json.Marshal(j)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, rankJobFile), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestRanksKnowTheirPlaceAndRunOnce(t *testing.T) {
	t.Parallel()
	j := job(t, 2, `echo "$RANK of $WORLD_SIZE on $NODE_RANK at $MASTER_ADDR:$MASTER_PORT local $LOCAL_RANK"`)
	dir := begin(t, j)
	for range 2 { // the second finds that it ran
		if err := supervise(dir); err != nil {
			t.Fatal(err)
		}
	}
	st := jobDone(t, j)
	if len(st.Ranks) != 2 || *st.Ranks[0].ExitCode != 0 || st.Ranks[1].Rank != 3 || st.Stopped {
		t.Errorf("the status is %+v", st)
	}
	var out bytes.Buffer
	if err := attendRanks(dir, true, &out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 of 4 on 1 at node-0:29500 local 0", "3 of 4 on 1 at node-0:29500 local 1", `"done":true`} {
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%q is there %d times in: %s", want, strings.Count(out.String(), want), out.String())
		}
	}
}

func TestOneRankThatFailsEndsTheOthersOfItsNode(t *testing.T) {
	t.Parallel()
	j := job(t, 2, `[ $LOCAL_RANK = 0 ] && exit 7; sleep 10000`)
	dir := begin(t, j)
	began := time.Now()
	if err := supervise(dir); err != nil {
		t.Fatal(err)
	}
	st := jobDone(t, j)
	if time.Since(began) > 10*time.Second || *st.Ranks[0].ExitCode != 7 || !st.Ranks[0].First || *st.Ranks[1].ExitCode == 0 || st.Ranks[1].First {
		t.Errorf("after %s the status is %+v %+v", time.Since(began), st.Ranks[0], st.Ranks[1])
	}
}

func TestRanksThatAreStoppedAreToldWhy(t *testing.T) {
	t.Parallel()
	j := job(t, 1, `trap 'cat "$SUANLI_FAILURE_FILE"; exit 3' TERM; echo ready; while true; do sleep 0.05; done`)
	dir := begin(t, j)
	// In a process of its own, since it takes signals.
	done := make(chan error, 1)
	s := &supervisor{dir: dir, job: j}
	var err error
	if s.events, err = os.OpenFile(filepath.Join(dir, rankEventsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { done <- s.run(ctx) }()
	events := func() string { b, _ := os.ReadFile(filepath.Join(dir, rankEventsFile)); return string(b) }
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Second); !strings.Contains(events(), "ready"); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not run")
		}
	}
	if err := writeWhole(filepath.Join(dir, rankFailureFile), []byte(`{"rank":0,"exit_code":9}`)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if st := rankStatus(dir); st.Printed == 0 || st.Printed != int64(len(events())) {
		t.Errorf("it is said to have printed %d of %d bytes", st.Printed, len(events()))
	}
	if st := s.status; !st.Stopped || *st.Ranks[0].ExitCode != 3 || !strings.Contains(events(), `\"exit_code\":9`) {
		t.Errorf("the status is %+v, and it printed %s", st, events())
	}
}

func TestAnAllReduceOverARingIsRightForAnyNumberOfNodes(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{2, 3, 5} {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			var ports []string
			for range nodes {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				ports = append(ports, l.Addr().String())
				l.Close()
			}
			var all sync.WaitGroup
			for rank := range nodes {
				all.Go(func() {
					r, err := newRing(rank, nodes, func(n int) string { return ports[n] }, ports[rank], 10*time.Second)
					if err != nil {
						t.Error(err)
						return
					}
					defer r.close()
					res, err := r.measure(10_007, 2)
					if err != nil || !res.Checksum || res.BusMbps <= 0 {
						t.Errorf("node %d measured %+v (%v)", rank, res, err)
					}
				})
			}
			all.Wait()
		})
	}
}
