package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"suanli.dev/internal/gateway"
)

type countedClient struct{ closed int }

func (c *countedClient) Close() error { c.closed++; return nil }

func TestANodeIsEnteredOnceForManyLooksAndLeftWhenNobodyLooks(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var made []*countedClient
		n := &nodeClients[*countedClient]{enter: func(context.Context, gateway.Target) (*countedClient, error) {
			made = append(made, &countedClient{})
			return made[len(made)-1], nil
		}}
		at := gateway.Target{LeaseID: "ls-1", HostID: "ho-1"}
		take := func(to gateway.Target) (*countedClient, func(bool)) {
			c, _, give, err := n.take(t.Context(), to)
			if err != nil {
				t.Fatal(err)
			}
			return c, give
		}
		pass := func(d time.Duration) { <-time.After(d); synctest.Wait() }
		for range 60 {
			_, give := take(at)
			give(true)
			pass(time.Second)
		}
		if len(made) != 1 || made[0].closed != 0 {
			t.Errorf("a minute of looks made %d connections", len(made))
		}
		// On another host it is another instance.
		_, give := take(gateway.Target{LeaseID: "ls-1", HostID: "ho-2"})
		give(true)
		// One that does not work is not used again, not by those who hold it neither.
		_, one := take(at)
		_, two := take(at)
		one(false)
		c, three := take(at)
		if c == made[0] || made[0].closed == 0 {
			t.Error("a connection that is broken is used again")
		}
		two(true)
		three(true)
		pass(nodeClientKept + time.Second)
		for i, c := range made {
			if c.closed == 0 {
				t.Errorf("connection %d of %d stays open, and nobody looks", i, len(made))
			}
		}
		if len(n.by) != 0 {
			t.Errorf("%d are remembered", len(n.by))
		}
	})
}
