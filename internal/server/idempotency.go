package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/store"
)

const (
	idempotencyHeader = "Idempotency-Key"
	replayedHeader    = "Idempotency-Replayed"
	maxKey            = 128
	// rememberFor is how long an answer is kept for repeats.
	rememberFor = 24 * time.Hour
	// claimFor is how long a request is believed to be in progress. Its handler
	// is cut off before that, so a claim that is older belongs to a process that
	// died, and may be taken over. If the dead one did the work already, a repeat
	// finds it by requestKey, or is refused by the mark that was kept with the work.
	claimFor   = 2 * time.Minute
	handlerFor = 90 * time.Second
)

// Statuses of a claim that has no answer.
const (
	claimBegun = 0
	claimDone  = -1 // something was written for it: see [operation.once]
)

// answer is what is kept of a response.
type answer struct {
	Status int         `json:"status"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
}

// requestKeyKey carries the claim of an idempotent request.
type requestKeyKey struct{}

// requestKey returns a text that is the same for every repeat of this request
// and for no other request, or "" if it came without an Idempotency-Key. A
// service that keeps it in a unique column does the work once, whatever dies, and
// so may be asked again.
func requestKey(ctx context.Context) string {
	c, ok := ctx.Value(requestKeyKey{}).(*claim)
	if !ok {
		return ""
	}
	c.named.Store(true)
	return c.scope + "/" + c.operation + "/" + c.key
}

// idempotent runs next to its success at most once for each key of a caller,
// and answers repeats with that answer. Refusals are not kept: a request that
// was refused did nothing, so that trying again is safe and may succeed, as
// after a deposit.
func (a *API) idempotent(w http.ResponseWriter, r *http.Request, p account.Principal, op operation, content []byte, next http.HandlerFunc) {
	ctx := r.Context()
	fail := func(err error) { writeProblem(w, problem(ctx, a.log, err)) }
	key := r.Header.Get(idempotencyHeader)
	if err := checkKey(key); err != nil {
		fail(err)
		return
	}
	c := &claim{
		scope: p.AccountID + "/" + p.UserID, operation: op.ID, key: key, hash: hashRequest(r, content),
		owner: ident.New(ident.Request), db: a.db, clock: a.clock, vault: a.Accounts.Vault(),
	}
	kept, err := c.take(ctx)
	if err != nil {
		fail(err)
		return
	}
	if kept != nil {
		kept.write(w, true)
		return
	}
	rec := &buffer{header: http.Header{}}
	// A panic must not leave the key in progress for minutes.
	settled, refused := false, false
	defer func() {
		if !settled {
			c.drop(context.WithoutCancel(ctx), refused)
		}
	}()
	work, cancel := context.WithTimeout(context.WithValue(ctx, requestKeyKey{}, c), handlerFor)
	defer cancel()
	if op.once() {
		work = store.Beside(work, c.mark)
	}
	r = r.WithContext(work)
	r.Body = io.NopCloser(bytes.NewReader(content))
	next(rec, r)
	got := rec.answer()
	// The work is done, so its answer is kept even for a caller who went away:
	// that is who will repeat the request.
	if got.Status < 400 {
		if err := c.keep(context.WithoutCancel(ctx), got); err != nil {
			a.log.ErrorContext(ctx, "keep the answer of an idempotent request", "error", err, "operation", op.ID)
		}
		settled = true
	}
	refused = got.Status < 500
	got.write(w, false)
}

func checkKey(key string) error {
	bad := len(key) > maxKey
	for i := range len(key) {
		bad = bad || key[i] < '!' || key[i] > '~'
	}
	if bad {
		return fault.New(fault.Invalid, "idempotency_key_invalid",
			"the Idempotency-Key has %d bytes or characters other than printable ASCII without spaces; use 1 to %d, such as a UUID", len(key), maxKey).At("header." + idempotencyHeader)
	}
	return nil
}

// hashRequest covers the target too: one key for two leases is a mistake of the
// caller's, not a repeat.
func hashRequest(r *http.Request, content []byte) string {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.EscapedPath(), r.URL.RawQuery} {
		fmt.Fprintf(h, "%d:%s", len(part), part)
	}
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}

// claim is one request's hold on a key.
type claim struct {
	scope, operation, key, hash, owner string

	db    *store.DB
	clock func() time.Time
	vault *account.Vault

	named atomic.Bool // the service knows a repeat by itself
}

// mark notes, in the transaction that does the work, that it is done.
func (c *claim) mark(ctx context.Context, tx *store.Tx) error {
	if c.named.Load() {
		return nil
	}
	_, err := tx.Exec(ctx, `UPDATE idempotency SET status = ? WHERE scope = ? AND operation = ? AND key = ? AND claim = ?`, claimDone, c.scope, c.operation, c.key, c.owner)
	return err
}

// take makes the key this request's, or returns the answer that is kept for it.
func (c *claim) take(ctx context.Context) (*answer, error) {
	var sealed string
	err := c.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		sealed = ""
		now := store.Micros(c.clock())
		// What has aged out is free again, whether Run was there or not.
		if _, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE scope = ? AND operation = ? AND key = ?
			AND ((status <> 0 AND claimed_at < ?) OR (status = 0 AND claimed_at < ?))`, // a mark stays as long as an answer
			c.scope, c.operation, c.key, now-rememberFor.Microseconds(), now-claimFor.Microseconds()); err != nil {
			return err
		}
		n, err := tx.Exec(ctx, `INSERT INTO idempotency (scope, operation, key, request_hash, claim, claimed_at, status, response)
			VALUES (?, ?, ?, ?, ?, ?, 0, '') ON CONFLICT (scope, operation, key) DO NOTHING`, c.scope, c.operation, c.key, c.hash, c.owner, now)
		if err != nil || n == 1 {
			return err
		}
		var hash string
		var status, since int64
		if err := tx.QueryRow(ctx, `SELECT request_hash, status, claimed_at, response FROM idempotency WHERE scope = ? AND operation = ? AND key = ?`,
			c.scope, c.operation, c.key).Scan(&hash, &status, &since, &sealed); errors.Is(err, store.ErrNoRows) {
			hash = c.hash // it was given back between the two statements: as good as in progress
		} else if err != nil {
			return err
		}
		if hash != c.hash {
			return fault.New(fault.Conflict, "idempotency_conflict",
				"the Idempotency-Key %q was used for another request; repeat that one exactly, or use a new key", c.key)
		}
		left := store.Time(since).Add(claimFor).Sub(store.Time(now))
		switch {
		case status > 0:
		case left > 0 || status == claimBegun:
			return fault.New(fault.Conflict, "idempotency_in_progress",
				"a request with the Idempotency-Key %q is in progress, or was when the control plane failed; ask again in a moment, in %d seconds at the latest", c.key, max(1, int64(left/time.Second)))
		default:
			return fault.New(fault.Conflict, "idempotency_answer_lost",
				"the request with the Idempotency-Key %q was carried out, and the control plane failed before it could answer; look at what there is now, and use a new key only if you want it a second time", c.key)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("claim idempotency key: %w", err)
	}
	if sealed == "" {
		return nil, nil
	}
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err != nil {
		return nil, fmt.Errorf("read the kept answer: %w", err)
	}
	plain, err := c.vault.Open(raw)
	if err != nil {
		return nil, fmt.Errorf("read the kept answer: %w", err)
	}
	kept := &answer{}
	if err := json.Unmarshal(plain, kept); err != nil {
		return nil, fmt.Errorf("read the kept answer: %w", err)
	}
	return kept, nil
}

// keep stores the answer. It is sealed, as an answer may show a new API key.
func (c *claim) keep(ctx context.Context, got *answer) error {
	plain, err := json.Marshal(got)
	if err != nil {
		return err
	}
	sealed, err := c.vault.Seal(plain)
	if err != nil {
		return err
	}
	return c.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE idempotency SET status = ?, response = ? WHERE scope = ? AND operation = ? AND key = ? AND claim = ?`,
			got.Status, base64.StdEncoding.EncodeToString(sealed), c.scope, c.operation, c.key, c.owner)
		return err
	})
}

// drop gives the key back. If that fails it is free when the claim has aged. What was
// refused did nothing, whatever was written on the way; after a failure what is marked
// as done stays so.
func (c *claim) drop(ctx context.Context, refused bool) {
	least := claimBegun
	if refused {
		least = claimDone
	}
	_ = c.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE scope = ? AND operation = ? AND key = ? AND claim = ? AND status BETWEEN ? AND 0`,
			c.scope, c.operation, c.key, c.owner, least)
		return err
	})
}

// forgetRequests deletes answers that have aged out.
func (a *API) forgetRequests(ctx context.Context) error {
	return a.db.Update(ctx, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `DELETE FROM idempotency WHERE claimed_at < ?`, store.Micros(a.clock().Add(-rememberFor)))
		return err
	})
}

func (a *answer) write(w http.ResponseWriter, replayed bool) {
	for k, v := range a.Header {
		w.Header()[k] = v
	}
	if replayed {
		w.Header().Set(replayedHeader, "true")
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body)
}

// buffer holds a response back until it is kept.
type buffer struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (b *buffer) Header() http.Header { return b.header }

func (b *buffer) WriteHeader(status int) {
	if b.status == 0 {
		b.status = status
	}
}

func (b *buffer) Write(p []byte) (int, error) {
	b.WriteHeader(http.StatusOK)
	return b.body.Write(p)
}

func (b *buffer) answer() *answer {
	b.WriteHeader(http.StatusOK)
	return &answer{Status: b.status, Header: b.header, Body: b.body.Bytes()}
}
