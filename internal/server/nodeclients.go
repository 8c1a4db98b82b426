package server

import (
	"context"
	"io"
	"sync"
	"time"

	"suanli.dev/internal/gateway"
)

// nodeClientKept is how long a connection into a node is kept that nobody uses: its
// run is looked at every second.
const nodeClientKept = 5 * time.Second

// nodeClients are connections into nodes of clusters that are used again. Whoever takes
// one has checked that its target may be entered now.
type nodeClients[C io.Closer] struct {
	enter func(ctx context.Context, t gateway.Target) (C, error)

	mu sync.Mutex
	by map[gateway.Target]*nodeClient[C]
}

type nodeClient[C io.Closer] struct {
	client C
	users  int
	idle   *time.Timer // closes it; nil: it is in use
}

// take returns a connection, and whether it was there already. give is called once,
// with whether it works: one that does not is not used again.
func (n *nodeClients[C]) take(ctx context.Context, t gateway.Target) (client C, kept bool, give func(works bool), err error) {
	n.mu.Lock()
	k := n.by[t]
	if k != nil {
		n.use(k)
		n.mu.Unlock()
		return k.client, true, n.giver(t, k), nil
	}
	n.mu.Unlock()
	if client, err = n.enter(ctx, t); err != nil {
		return client, false, nil, err
	}
	k = &nodeClient[C]{client: client, users: 1}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.by == nil {
		n.by = map[gateway.Target]*nodeClient[C]{}
	}
	if n.by[t] == nil { // else another was faster, and this one ends with its use
		n.by[t] = k
	}
	return client, false, n.giver(t, k), nil
}

// use counts one more user. The caller holds mu.
func (n *nodeClients[C]) use(k *nodeClient[C]) {
	k.users++
	if k.idle != nil {
		k.idle.Stop()
		k.idle = nil
	}
}

func (n *nodeClients[C]) giver(t gateway.Target, k *nodeClient[C]) func(bool) {
	return func(works bool) {
		n.mu.Lock()
		defer n.mu.Unlock()
		k.users--
		if !works && n.by[t] == k {
			delete(n.by, t)
		}
		switch {
		case !works || n.by[t] != k && k.users == 0:
			_ = k.client.Close()
		case k.users == 0:
			var timer *time.Timer
			timer = time.AfterFunc(nodeClientKept, func() {
				n.mu.Lock()
				defer n.mu.Unlock()
				if n.by[t] == k && k.idle == timer {
					delete(n.by, t)
					_ = k.client.Close()
				}
			})
			k.idle = timer
		}
	}
}
