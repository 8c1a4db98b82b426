package ledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

// Bounds of what shares a commit, and so of how long one waits for the others.
const (
	maxGroup  = 256
	groupTime = 50 * time.Millisecond // after it no further function is begun
	maxPasses = 3                     // of a group; then each is done alone
)

// job is a caller of Update.
type job struct {
	ctx    context.Context
	order  string
	fn     func(context.Context, *store.Tx) error
	passed int // groups that ended before its turn

	state jobState      // guarded by line.mu
	turn  chan struct{} // closed when the caller has something to do: see state
	err   error

	posts [][]Transfer // of this pass: what each Post was given
	used  bool         // it executed statements of its own
	out   bool         // it must be done alone
}

type jobState int

const (
	waiting jobState = iota
	taken            // its group is being executed
	leads            // it is to execute the next group
	done             // err says how it ended
	outcast          // to be executed in a transaction of its own
)

// line is who waits. One of them executes the group at its head, and then names
// who executes the next: so no goroutine is kept.
type line struct {
	mu      sync.Mutex
	jobs    []*job
	running int
}

// groups is how many of them are executed at the same time: while one waits for
// the disk, the other computes.
const groups = 2

// Update is store.DB.Update for functions that post. On PostgreSQL those that wait
// at the same time share a transaction, as all writers do on SQLite: locking their
// accounts, looking up their keys, writing their transfers and the commit are one
// statement each for all of them. Each is told only when what it did is durable, and
// one's failure undoes only itself. order is what fn locks first, such as an
// account's identifier: groups of several replicas lock in its order.
//
// A ctx that ends before fn's turn gives its error; from then on fn is carried
// through, and its context does not end. What Post reports in fn is exact, but may
// be of a second call: fn is called again, in a transaction of its own, if the
// group finds a key that was posted before, or too little money. Functions that
// list transfers are always executed so.
func (l *Ledger) Update(ctx context.Context, order string, fn func(ctx context.Context, tx *store.Tx) error) error {
	if !l.db.Postgres() {
		return l.db.Update(ctx, fn)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{ctx: ctx, order: order, fn: fn, turn: make(chan struct{})}
	l.line.mu.Lock()
	l.line.jobs = append(l.line.jobs, j)
	l.line.next()
	l.line.mu.Unlock()
	for {
		select {
		case <-j.turn:
		case <-ctx.Done():
			l.line.mu.Lock()
			left := j.state == waiting
			if left {
				l.line.jobs = slices.DeleteFunc(l.line.jobs, func(o *job) bool { return o == j })
			}
			l.line.mu.Unlock()
			if left {
				return ctx.Err()
			}
			<-j.turn
		}
		switch j.state {
		case leads:
			l.lead(j)
		case outcast:
			return l.db.Update(ctx, fn)
		default:
			return j.err
		}
	}
}

// next names who executes the next group, if there is one and room for it. mu is held.
func (n *line) next() {
	if n.running >= groups || len(n.jobs) == 0 {
		return
	}
	n.running++
	n.jobs[0].state = leads
	close(n.jobs[0].turn)
	n.jobs = n.jobs[1:]
}

// lead executes a group with j in it, tells its callers, and goes.
func (l *Ledger) lead(j *job) {
	l.line.mu.Lock()
	n := min(maxGroup-1, len(l.line.jobs))
	g := append([]*job{j}, l.line.jobs[:n]...)
	l.line.jobs = slices.Clone(l.line.jobs[n:])
	for _, o := range g[1:] {
		o.state = taken
	}
	l.line.mu.Unlock()

	slices.SortStableFunc(g, func(a, b *job) int { return cmp.Or(b.passed-a.passed, cmp.Compare(a.order, b.order)) })
	left := l.execute(context.WithoutCancel(j.ctx), g)

	l.line.mu.Lock()
	defer l.line.mu.Unlock()
	for _, o := range left {
		o.passed++
		o.state = waiting
	}
	j.turn = make(chan struct{}) // it was woken once already
	for _, o := range g {
		switch {
		case o.state == waiting:
			continue
		case o.out:
			o.state = outcast
		default:
			o.state = done
		}
		close(o.turn)
	}
	l.line.jobs = append(left, l.line.jobs...)
	l.line.running--
	l.line.next()
}

var (
	errAlone = errors.New("this is done in a transaction of its own")
	errAgain = errors.New("the group is executed again without some")
)

// execute executes jobs and returns those whose turn did not come. The others have
// ended, or are marked to be done alone.
func (l *Ledger) execute(ctx context.Context, jobs []*job) (left []*job) {
	todo := jobs
	for pass := 1; ; pass++ {
		written := false
		err := l.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
			written = false
			g := &group{l: l, tx: tx, now: l.clock(), keys: map[string]*job{}, pending: map[account]*pending{}}
			tx.Keep(g)
			var err error
			if left, err = g.run(ctx, todo); err == nil {
				err = g.write(ctx, todo[:len(todo)-len(left)])
			}
			if store.IsSerialization(err) {
				// Not with %w: done again as a whole it would meet the same replica again.
				return fmt.Errorf("%s", err)
			}
			written = err == nil
			return err
		})
		if err == nil {
			return left
		}
		if errors.Is(err, errAgain) && pass < maxPasses {
			if todo = slices.DeleteFunc(slices.Clone(todo), func(j *job) bool { return j.out }); len(todo) == 0 {
				return nil
			}
			continue
		}
		for _, j := range todo[:len(todo)-len(left)] {
			switch {
			case j.ctx.Err() != nil && errors.Is(j.err, j.ctx.Err()):
			case written && j.err == nil && !j.out:
				j.err = err // the commit failed: nobody knows whether it is durable
			default:
				j.out, j.err = true, nil // nothing of it was kept
			}
		}
		return left
	}
}

// group is a transaction that several share, and what they have posted in it that
// is not written yet.
type group struct {
	l   *Ledger
	tx  *store.Tx
	now time.Time
	job *job // whose turn it is

	keys    map[string]*job
	pending map[account]*pending
	crossed bool // one was told a balance that another has a part in
}

// pending is what a group will add to an account.
type pending struct {
	debits, credits money.Amount
	by              *job // who posted to it; nil: several
}

// groupOf returns the group that tx is of, or nil.
func groupOf(tx *store.Tx) *group {
	g, _ := tx.Kept().(*group)
	return g
}

// alone ends a job's part in a group, as it wants to see rows that are not written.
func alone(tx *store.Tx) error {
	if g := groupOf(tx); g != nil {
		return g.alone()
	}
	return nil
}

func (g *group) alone() error {
	g.job.out = true
	return errAlone
}

// run calls the functions of jobs, one after the other, until the time is over.
func (g *group) run(ctx context.Context, jobs []*job) (left []*job, err error) {
	begin := time.Now()
	for i, j := range jobs {
		if i > 0 && time.Since(begin) > groupTime {
			return jobs[i:], nil
		}
		j.err, j.posts, j.used, j.out = j.ctx.Err(), nil, false, false
		if j.err != nil {
			continue
		}
		g.job = j
		jctx := context.WithoutCancel(j.ctx) // else its end would take the connection from the others
		j.used, j.err = g.tx.Part(jctx, func() error {
			if err := j.fn(jctx, g.tx); err != nil {
				return err
			}
			if j.out {
				return errAlone
			}
			return nil
		})
		g.job = nil
		var lost *store.LostError
		if errors.As(j.err, &lost) {
			for _, o := range jobs[:i+1] {
				o.err = nil
			}
			return jobs[i+1:], lost
		}
		if store.IsSerialization(j.err) {
			j.out = true
		}
		if j.out {
			j.err = nil
		}
		if j.err != nil || j.out {
			g.drop(j)
		}
	}
	return nil, nil
}

// drop takes back what a job has posted.
func (g *group) drop(j *job) {
	for _, t := range slices.Concat(j.posts...) {
		delete(g.keys, t.Key)
		g.pending[account{t.Debit, t.Currency}].debits -= t.Amount
		g.pending[account{t.Credit, t.Currency}].credits -= t.Amount
	}
	j.posts = nil
}

// post takes a checked batch of the job whose turn it is.
func (g *group) post(batch []Transfer) error {
	j := g.job
	for _, t := range batch {
		if by := g.keys[t.Key]; by != nil {
			// A replay, or a conflict, is judged by what is in the database.
			return g.alone()
		}
	}
	for i := range batch {
		t := &batch[i]
		if t.PostedAt = store.Time(store.Micros(g.now)); t.EffectiveAt.IsZero() {
			t.EffectiveAt = t.PostedAt
		}
		if t.ID == "" {
			t.ID = ident.New(ident.Transfer)
		}
		d, c := g.side(t.Debit, t.Currency), g.side(t.Credit, t.Currency)
		debits, err1 := d.debits.Add(t.Amount)
		credits, err2 := c.credits.Add(t.Amount)
		if err1 != nil || err2 != nil {
			j.posts = append(j.posts, batch[:i])
			return g.alone()
		}
		d.debits, c.credits = debits, credits
		g.keys[t.Key] = j
	}
	j.posts = append(j.posts, batch)
	return nil
}

func (g *group) side(path string, c money.Currency) *pending {
	a := account{path, c}
	p := g.pending[a]
	switch {
	case p == nil:
		p = &pending{by: g.job}
		g.pending[a] = p
	case p.by != g.job:
		p.by = nil
	}
	return p
}

// balance adds what is not written yet to an account's sums.
func (g *group) balance(a account, debits, credits money.Amount) (money.Amount, error) {
	p := g.pending[a]
	if p == nil {
		return credits - debits, nil
	}
	if p.by != g.job {
		g.crossed = true
	}
	debits, err1 := debits.Add(p.debits)
	credits, err2 := credits.Add(p.credits)
	if err1 != nil || err2 != nil {
		return 0, g.alone()
	}
	return credits - debits, nil
}

// find returns what the job whose turn it is has posted with a key.
func (g *group) find(key string) (Transfer, bool, error) {
	by := g.keys[key]
	if by != nil && by != g.job {
		return Transfer{}, false, g.alone()
	}
	if by != nil {
		for _, t := range slices.Concat(by.posts...) {
			if t.Key == key {
				return t, true, nil
			}
		}
	}
	return Transfer{}, false, nil
}

// write judges what jobs have posted, in their order, with all accounts locked,
// and writes it. Those for whom it turns out otherwise than they were told are
// left out, to be done alone; if others may depend on them, the error is errAgain.
func (g *group) write(ctx context.Context, jobs []*job) error {
	var all []Transfer
	for _, j := range jobs {
		all = append(all, slices.Concat(j.posts...)...)
	}
	if len(all) == 0 {
		return nil
	}
	accounts, err := g.l.lock(ctx, g.tx, all)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	// Only now, with the accounts locked, can no other replica be posting the same keys.
	known, err := g.l.posted(ctx, g.tx, all)
	if err != nil {
		return err
	}
	touched, good := map[account]bool{}, all[:0]
	again := false
	for _, j := range jobs {
		// A job's accounts as they were, in case it is left out.
		posts, before := slices.Concat(j.posts...), map[account]counters{}
		for _, t := range posts {
			for _, a := range [...]account{{t.Debit, t.Currency}, {t.Credit, t.Currency}} {
				before[a] = *accounts[a]
			}
		}
		// A replay moves nothing, though the job was told otherwise.
		out := slices.ContainsFunc(posts, func(t Transfer) bool { _, ok := known[t.Key]; return ok })
		for _, batch := range j.posts {
			if !out {
				_, err := apply(accounts, batch)
				out = err != nil
			}
		}
		if out {
			for a, n := range before {
				*accounts[a] = n
			}
			j.out = true
			again = again || j.used || g.crossed
			continue
		}
		for a := range before {
			touched[a] = true
		}
		good = append(good, posts...)
	}
	if again {
		return errAgain
	}
	if len(good) == 0 {
		return nil
	}
	if err := g.l.update(ctx, g.tx, accounts, touched); err != nil {
		return err
	}
	return g.l.insert(ctx, g.tx, good, g.now)
}
