package ledger

import (
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/money"
	"suanli.dev/internal/store"
)

//go:embed migrations
var migrations embed.FS

// Paths of the accounts that every cloud has.
const (
	Deposits   = "platform/deposits"    // where prepaid money comes from; negative by all that was paid in
	Commission = "platform/commission"  // the platform's part of charges
	Rounding   = "platform/rounding"    // what invoices' totals are more than their lines, to the minor unit
	Promotions = "platform/promotions"  // where grants come from, and what is lost of them goes back to
	WrittenOff = "platform/written_off" // what invoices came to that nobody pays; negative by all that was given up
)

// Exchange is what the platform has bought less what it has sold of a currency, in
// which accounts pay whose providers are paid in another. It may be less than 0.
const Exchange = "platform/exchange"

// Tax is what is collected for a jurisdiction and not paid to it.
func Tax(jurisdiction string) string { return "platform/tax/" + jurisdiction }

// Wallet is what a renter has paid in and not spent. It is guarded.
func Wallet(accountID string) string { return "account/" + accountID + "/wallet" }

// Hold is what is set aside from a renter's wallet for running leases. It is guarded.
func Hold(accountID string) string { return "account/" + accountID + "/hold" }

// Grant is what a renter was given for use and has not used. It is guarded.
func Grant(accountID string) string { return "account/" + accountID + "/grant" }

// Receivable is what a renter owes beyond the wallet: negative or zero.
func Receivable(accountID string) string { return "account/" + accountID + "/receivable" }

// Payable is what a provider has earned and not been paid.
func Payable(providerID string) string { return "provider/" + providerID + "/payable" }

// Guarded reports whether the account at path may never be negative.
func Guarded(path string) bool {
	return strings.HasPrefix(path, "account/") && (strings.HasSuffix(path, "/wallet") || strings.HasSuffix(path, "/hold") || strings.HasSuffix(path, "/grant"))
}

// Transfer moves Amount from Debit to Credit.
type Transfer struct {
	ID          string         // given by Post if empty
	Key         string         // idempotency key, unique for ever; see Key
	Debit       string         // path of the account whose balance falls
	Credit      string         // path of the account whose balance grows
	Amount      money.Amount   // more than 0
	Currency    money.Currency // of both accounts
	Code        string         // what kind of transfer it is, such as "charge"
	Reference   string         // what it is about, such as a lease's identifier
	EffectiveAt time.Time      // when it counts; zero: now
	PostedAt    time.Time      // set by Post
}

// same reports whether t and o ask for one and the same transfer. The times are
// left out: a replay comes later and means the same.
func (t Transfer) same(o Transfer) bool {
	return t.Debit == o.Debit && t.Credit == o.Credit && t.Amount == o.Amount &&
		t.Currency == o.Currency && t.Code == o.Code && t.Reference == o.Reference
}

// Key makes an idempotency key that starts with a time, so that keys made one
// after the other are neighbours in the index.
func Key(at time.Time, parts ...string) string {
	return fmt.Sprintf("%014x:%s", at.UnixMicro(), strings.Join(parts, ":"))
}

// Ledger posts transfers. It keeps nothing in memory but who waits for a commit.
type Ledger struct {
	db    *store.DB
	clock func() time.Time
	line  line
}

// New returns the ledger in db.
func New(db *store.DB, clock func() time.Time) (*Ledger, error) {
	if db == nil || clock == nil {
		return nil, errors.New("ledger: want a database and a clock")
	}
	return &Ledger{db: db, clock: clock}, nil
}

// Migrate brings the ledger's tables up to date.
func (l *Ledger) Migrate(ctx context.Context) error {
	// Triggers are the one thing here that each engine writes its own way.
	engine := "sqlite"
	if l.db.Postgres() {
		engine = "postgres"
	}
	for _, m := range []struct{ name, dir string }{{"ledger", "migrations/tables"}, {"ledger_rules", "migrations/" + engine}} {
		sub, err := fs.Sub(migrations, m.dir)
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		if err := l.db.Migrate(ctx, m.name, sub); err != nil {
			return err
		}
	}
	return nil
}

// counters is an account's row.
type counters struct {
	debits, credits money.Amount
	guarded         bool
}

type account struct {
	path     string
	currency money.Currency
}

// Post posts batch in tx: all of it, or an error and none of it, if the caller
// then gives up the transaction. A transfer whose key is posted already is left
// out if it is the same transfer, and a Conflict fault "idempotency_conflict" if
// not. Guarded accounts are judged by where the whole batch leaves them: under
// zero is a Payment fault "insufficient_balance".
//
// In a transaction of Update's, what it finds may turn out only when the whole group
// is written; then the caller's function is called once more.
func (l *Ledger) Post(ctx context.Context, tx *store.Tx, batch ...Transfer) error {
	batch, err := distinct(batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	if g := groupOf(tx); g != nil {
		return g.post(batch)
	}
	accounts, err := l.lock(ctx, tx, batch)
	if err != nil {
		return fmt.Errorf("post: %w", err)
	}
	// Only now, with the accounts locked, can no other replica be posting the same keys.
	batch, err = l.unposted(ctx, tx, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	touched, err := apply(accounts, batch)
	if err != nil {
		return err
	}
	if err := l.update(ctx, tx, accounts, touched); err != nil {
		return err
	}
	return l.insert(ctx, tx, batch, l.clock())
}

// apply adds batch to the sums of its accounts, and returns which these are. After
// an error the sums mean nothing.
func apply(accounts map[account]*counters, batch []Transfer) (touched map[account]bool, err error) {
	touched = map[account]bool{}
	for _, t := range batch {
		d, c := account{t.Debit, t.Currency}, account{t.Credit, t.Currency}
		if accounts[d].debits, err = accounts[d].debits.Add(t.Amount); err != nil {
			return nil, fmt.Errorf("post to %s: %w", t.Debit, err)
		}
		if accounts[c].credits, err = accounts[c].credits.Add(t.Amount); err != nil {
			return nil, fmt.Errorf("post to %s: %w", t.Credit, err)
		}
		touched[d], touched[c] = true, true
	}
	for a := range touched {
		n := accounts[a]
		if n.guarded && n.credits < n.debits {
			return nil, fault.New(fault.Payment, "insufficient_balance",
				"this needs %s %s more than %s has; add money to the account", (n.debits - n.credits).Display(), a.currency, a.path)
		}
	}
	return touched, nil
}

// distinct checks each transfer and drops repeats within the batch.
func distinct(batch []Transfer) ([]Transfer, error) {
	seen := make(map[string]Transfer, len(batch))
	out := make([]Transfer, 0, len(batch))
	for _, t := range batch {
		switch {
		case t.Key == "" || len(t.Key) > 250:
			return nil, fmt.Errorf("post: key %q: want 1 to 250 characters", t.Key)
		case t.Amount <= 0:
			return nil, fmt.Errorf("post %s: amount %s: want more than 0", t.Key, t.Amount)
		case t.Debit == "" || t.Credit == "" || t.Debit == t.Credit:
			return nil, fmt.Errorf("post %s: from %q to %q: want two accounts", t.Key, t.Debit, t.Credit)
		case !t.Currency.Valid():
			return nil, fmt.Errorf("post %s: currency %q: want USD or CNY", t.Key, t.Currency)
		case t.Code == "":
			return nil, fmt.Errorf("post %s: want a code", t.Key)
		}
		if first, ok := seen[t.Key]; ok {
			if !t.same(first) {
				return nil, conflict(t)
			}
			continue
		}
		seen[t.Key] = t
		out = append(out, t)
	}
	return out, nil
}

func conflict(t Transfer) error {
	return fault.New(fault.Conflict, "idempotency_conflict",
		"the key %q was used for another transfer; use a new key for a new transfer", t.Key)
}

// accountChunk bounds the accounts in one statement: one for each would cost a
// round trip for each, which is most of what a batch costs on PostgreSQL.
const accountChunk = 200

// postgresChunk bounds the rows in one statement on PostgreSQL, where they come as
// arrays.
const postgresChunk = 10_000

// inOrder sorts accounts by path. All batches lock them in this order, so that two
// cannot wait for each other.
func inOrder(set map[account]bool) []account {
	return slices.SortedFunc(maps.Keys(set), func(a, b account) int {
		return cmp.Or(strings.Compare(a.path, b.path), strings.Compare(string(a.currency), string(b.currency)))
	})
}

// lock makes sure that the batch's accounts exist and locks them in order: first
// those that there are, then those that it opens. Who opens accounts waits for
// others who do only, and they for nobody who locks.
func (l *Ledger) lock(ctx context.Context, tx *store.Tx, batch []Transfer) (map[account]*counters, error) {
	wanted := map[account]bool{}
	for _, t := range batch {
		wanted[account{t.Debit, t.Currency}], wanted[account{t.Credit, t.Currency}] = true, true
	}
	set := make(map[account]*counters, len(wanted))
	if err := l.read(ctx, tx, inOrder(wanted), set); err != nil {
		return nil, err
	}
	var missing []account
	for _, a := range inOrder(wanted) {
		if set[a] == nil {
			missing = append(missing, a)
		}
	}
	if err := l.open(ctx, tx, missing); err != nil {
		return nil, err
	}
	if err := l.read(ctx, tx, missing, set); err != nil {
		return nil, err
	}
	for a := range wanted {
		if set[a] == nil {
			return nil, fmt.Errorf("lock %s: %w", a.path, store.ErrNoRows)
		}
	}
	return set, nil
}

// flag is how a yes or no is stored.
func flag(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

// open makes accounts, which are in order, unless another has just made them.
func (l *Ledger) open(ctx context.Context, tx *store.Tx, order []account) error {
	if len(order) == 0 {
		return nil
	}
	if l.db.Postgres() {
		c := columnsOf(order, nil)
		if _, err := tx.Exec(ctx, `INSERT INTO ledger_accounts (path, currency, debits, credits, guarded, version)
			SELECT path, currency, 0, 0, guarded, 0 FROM unnest(?::text[], ?::text[], ?::bigint[]) AS a (path, currency, guarded) ON CONFLICT DO NOTHING`,
			c.paths, c.currencies, c.guarded); err != nil {
			return fmt.Errorf("open %s and %d more: %w", order[0].path, len(order)-1, err)
		}
		return nil
	}
	for _, a := range order {
		if _, err := tx.Exec(ctx, `INSERT INTO ledger_accounts (path, currency, debits, credits, guarded, version) VALUES (?, ?, 0, 0, ?, 0) ON CONFLICT DO NOTHING`,
			a.path, string(a.currency), flag(Guarded(a.path))); err != nil {
			return fmt.Errorf("open %s: %w", a.path, err)
		}
	}
	return nil
}

// columns are accounts' rows as arrays: on PostgreSQL a statement over arrays has
// the same text, and so the same plan, whatever their length.
type columns struct {
	paths, currencies        []string
	debits, credits, guarded []int64
}

// columnsOf takes the sums of accounts from set; nil: there are none yet.
func columnsOf(order []account, set map[account]*counters) columns {
	var c columns
	for _, a := range order {
		n := counters{guarded: Guarded(a.path)}
		if set != nil {
			n = *set[a]
		}
		c.paths, c.currencies = append(c.paths, a.path), append(c.currencies, string(a.currency))
		c.debits, c.credits, c.guarded = append(c.debits, int64(n.debits)), append(c.credits, int64(n.credits)), append(c.guarded, flag(n.guarded))
	}
	return c
}

// read locks those of the accounts that there are, which are in order, and adds
// them to set.
func (l *Ledger) read(ctx context.Context, tx *store.Tx, order []account, set map[account]*counters) error {
	for part := range l.chunks(order) {
		args := make([]any, len(part))
		wanted := make(map[account]bool, len(part))
		for i, a := range part {
			args[i], wanted[a] = a.path, true
		}
		query := `SELECT path, currency, debits, credits, guarded FROM ledger_accounts WHERE path IN (?` + strings.Repeat(", ?", len(part)-1) + `)`
		if l.db.Postgres() {
			// One after the other by the index, in our order, and never by a plan that
			// was made when the table was small.
			query = `SELECT a.path, a.currency, a.debits, a.credits, a.guarded FROM unnest(?::text[]) AS k (path)
				CROSS JOIN LATERAL (SELECT path, currency, debits, credits, guarded FROM ledger_accounts WHERE path = k.path ORDER BY currency COLLATE "C" OFFSET 0` + tx.ForUpdate() + `) AS a`
			args = []any{slices.Compact(columnsOf(part, nil).paths)}
		}
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return fmt.Errorf("lock accounts: %w", err)
		}
		for rows.Next() {
			var a account
			var n counters
			var guarded int64
			if err := rows.Scan(&a.path, &a.currency, &n.debits, &n.credits, &guarded); err != nil {
				rows.Close()
				return fmt.Errorf("lock accounts: %w", err)
			}
			if n.guarded = guarded != 0; wanted[a] {
				set[a] = &n
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			return fmt.Errorf("lock accounts: %w", err)
		}
	}
	return nil
}

// update writes the sums of accounts that are locked.
func (l *Ledger) update(ctx context.Context, tx *store.Tx, accounts map[account]*counters, touched map[account]bool) error {
	// All of them are there, so this never inserts: it is the way to update many rows
	// at once that both engines have, and goes by the index whatever they know of
	// the table.
	const onConflict = ` ON CONFLICT (path, currency) DO UPDATE SET debits = excluded.debits, credits = excluded.credits, version = ledger_accounts.version + 1`
	const row = "(?, ?, ?, ?, ?, 0)"
	for part := range l.chunks(inOrder(touched)) {
		var query string
		var args []any
		c := columnsOf(part, accounts)
		if l.db.Postgres() {
			query = `INSERT INTO ledger_accounts (path, currency, debits, credits, guarded, version)
				SELECT path, currency, debits, credits, guarded, 0 FROM unnest(?::text[], ?::text[], ?::bigint[], ?::bigint[], ?::bigint[]) AS n (path, currency, debits, credits, guarded)` + onConflict
			args = []any{c.paths, c.currencies, c.debits, c.credits, c.guarded}
		} else {
			query = `INSERT INTO ledger_accounts (path, currency, debits, credits, guarded, version) VALUES ` + row + strings.Repeat(", "+row, len(part)-1) +
				onConflict
			for i := range part {
				args = append(args, c.paths[i], c.currencies[i], c.debits[i], c.credits[i], c.guarded[i])
			}
		}
		if _, err := tx.Exec(ctx, query, args...); err != nil {
			return fmt.Errorf("post to %s and %d more: %w", part[0].path, len(part)-1, err)
		}
	}
	return nil
}

// chunks cuts accounts into what one statement takes.
func (l *Ledger) chunks(order []account) iter.Seq[[]account] {
	if l.db.Postgres() {
		return slices.Chunk(order, postgresChunk)
	}
	return slices.Chunk(order, accountChunk)
}

// unposted returns the transfers of batch whose keys are new.
func (l *Ledger) unposted(ctx context.Context, tx *store.Tx, batch []Transfer) ([]Transfer, error) {
	known, err := l.posted(ctx, tx, batch)
	if err != nil {
		return nil, err
	}
	out := batch[:0]
	for _, t := range batch {
		first, ok := known[t.Key]
		switch {
		case !ok:
			out = append(out, t)
		case !t.same(first):
			return nil, conflict(t)
		}
	}
	return out, nil
}

// posted returns what was posted with the keys of batch, by key.
func (l *Ledger) posted(ctx context.Context, tx *store.Tx, batch []Transfer) (map[string]Transfer, error) {
	chunk := 500 // SQLite takes 32,766 parameters, and a statement is parsed each time
	if l.db.Postgres() {
		chunk = postgresChunk
	}
	known := map[string]Transfer{}
	for part := range slices.Chunk(batch, chunk) {
		keys, args := make([]string, len(part)), make([]any, len(part))
		for i, t := range part {
			keys[i], args[i] = t.Key, t.Key
		}
		query := selectTransfer + ` WHERE idempotency IN (?` + strings.Repeat(", ?", len(part)-1) + `)`
		if l.db.Postgres() {
			query, args = `SELECT t.* FROM unnest(?::text[]) AS k (key) CROSS JOIN LATERAL (`+selectTransfer+` WHERE idempotency = k.key OFFSET 0) AS t`, []any{keys}
		}
		rows, err := tx.Query(ctx, query, args...)
		if err != nil {
			return nil, fmt.Errorf("post: look up keys: %w", err)
		}
		found, err := scan(rows)
		if err != nil {
			return nil, fmt.Errorf("post: look up keys: %w", err)
		}
		for _, t := range found {
			known[t.Key] = t
		}
	}
	return known, nil
}

func (l *Ledger) insert(ctx context.Context, tx *store.Tx, batch []Transfer, at time.Time) error {
	const row = "(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
	const into = `INSERT INTO ledger_transfers (id, idempotency, debit, credit, amount, currency, code, reference, effective_at, posted_at) `
	now := store.Micros(at)
	chunk := 200
	if l.db.Postgres() {
		chunk = postgresChunk
	}
	for part := range slices.Chunk(batch, chunk) {
		var texts [7][]string
		var amounts, effectives []int64
		for _, t := range part {
			if t.ID == "" {
				t.ID = ident.New(ident.Transfer)
			}
			effective := store.Micros(t.EffectiveAt)
			if effective == 0 {
				effective = now
			}
			for i, text := range [...]string{t.ID, t.Key, t.Debit, t.Credit, string(t.Currency), t.Code, t.Reference} {
				texts[i] = append(texts[i], text)
			}
			amounts, effectives = append(amounts, int64(t.Amount)), append(effectives, effective)
		}
		query := into + `VALUES ` + row + strings.Repeat(", "+row, len(part)-1)
		var args []any
		if l.db.Postgres() {
			query = into + `SELECT id, idempotency, debit, credit, amount, currency, code, reference, effective_at, ?::bigint
				FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::text[], ?::bigint[], ?::bigint[])
				AS t (id, idempotency, debit, credit, currency, code, reference, amount, effective_at)`
			args = append(args, now)
			for _, column := range texts {
				args = append(args, column)
			}
			args = append(args, amounts, effectives)
		} else {
			for i := range part {
				args = append(args, texts[0][i], texts[1][i], texts[2][i], texts[3][i], amounts[i], texts[4][i], texts[5][i], texts[6][i], effectives[i], now)
			}
		}
		_, err := tx.Exec(ctx, query, args...)
		if store.IsUnique(err) {
			// Another replica used a key between other accounts at this moment.
			return conflict(part[0])
		}
		if err != nil {
			return fmt.Errorf("post: %w", err)
		}
	}
	return nil
}

// Balance returns credits minus debits of an account: 0 if nothing was ever
// posted to it. In a transaction that will post to the account, another replica
// can change it until Post has locked it.
func (l *Ledger) Balance(ctx context.Context, tx *store.Tx, path string, currency money.Currency) (money.Amount, error) {
	var debits, credits money.Amount
	err := tx.QueryRow(ctx, `SELECT debits, credits FROM ledger_accounts WHERE path = ? AND currency = ?`, path, string(currency)).Scan(&debits, &credits)
	if err != nil && !errors.Is(err, store.ErrNoRows) {
		return 0, fmt.Errorf("balance of %s: %w", path, err)
	}
	if g := groupOf(tx); g != nil {
		return g.balance(account{path, currency}, debits, credits)
	}
	return credits - debits, nil
}

const selectTransfer = `SELECT id, idempotency, debit, credit, amount, currency, code, reference, effective_at, posted_at FROM ledger_transfers`

type rows interface {
	Next() bool
	Scan(...any) error
	Err() error
	Close() error
}

func scan(r rows) ([]Transfer, error) {
	defer r.Close()
	var out []Transfer
	for r.Next() {
		var t Transfer
		var effective, posted int64
		if err := r.Scan(&t.ID, &t.Key, &t.Debit, &t.Credit, &t.Amount, &t.Currency, &t.Code, &t.Reference, &effective, &posted); err != nil {
			return nil, err
		}
		t.EffectiveAt, t.PostedAt = store.Time(effective), store.Time(posted)
		out = append(out, t)
	}
	return out, r.Err()
}

// Find returns the transfer that was posted with a key, or store.ErrNoRows.
func (l *Ledger) Find(ctx context.Context, tx *store.Tx, key string) (Transfer, error) {
	if g := groupOf(tx); g != nil {
		if t, ok, err := g.find(key); ok || err != nil {
			return t, err
		}
	}
	r, err := tx.Query(ctx, selectTransfer+` WHERE idempotency = ?`, key)
	if err != nil {
		return Transfer{}, fmt.Errorf("find transfer: %w", err)
	}
	found, err := scan(r)
	if err != nil {
		return Transfer{}, fmt.Errorf("find transfer: %w", err)
	}
	if len(found) == 0 {
		return Transfer{}, store.ErrNoRows
	}
	return found[0], nil
}

// Transfers lists up to limit transfers of the accounts at paths, newest first,
// older than the transfer with the identifier before; empty: from the newest.
func (l *Ledger) Transfers(ctx context.Context, tx *store.Tx, before string, limit int, paths ...string) ([]Transfer, error) {
	if len(paths) == 0 {
		return nil, nil
	}
	if err := alone(tx); err != nil {
		return nil, err
	}
	if before == "" {
		before = "~" // sorts after every identifier
	}
	in := "(?" + strings.Repeat(", ?", len(paths)-1) + ")"
	args := make([]any, 0, 2*len(paths)+2)
	for _, p := range paths {
		args = append(args, p)
	}
	args = append(args, args...)
	r, err := tx.Query(ctx, selectTransfer+` WHERE (debit IN `+in+` OR credit IN `+in+`) AND id < ? ORDER BY id DESC LIMIT ?`, append(args, before, limit)...)
	if err != nil {
		return nil, fmt.Errorf("list transfers: %w", err)
	}
	out, err := scan(r)
	if err != nil {
		return nil, fmt.Errorf("list transfers: %w", err)
	}
	return out, nil
}
