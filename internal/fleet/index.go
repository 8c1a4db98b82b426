package fleet

import "sync"

// index holds the offers of all hosts, for searching.
type index struct {
	mu      sync.RWMutex
	entries map[string]*entry
}

func newIndex() *index { return &index{entries: map[string]*entry{}} }

func (x *index) put(hostID string, e *entry) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if e == nil {
		delete(x.entries, hostID)
		return
	}
	x.entries[hostID] = e
}

func (x *index) entry(hostID string) *entry {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.entries[hostID]
}

func (x *index) compact()        {}
func (x *index) compactIfLarge() {}
