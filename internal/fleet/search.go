package fleet

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/pricing"
)

// Query is a search for offers.
type Query struct {
	// Expression selects offers, such as
	//	gpu_model = "RTX 4090" and gpu_count >= 2 and price_per_hour < 1.5
	// Fields lists what it can name; empty selects all.
	Expression string
	// Sort is the name of a field that is a number, with "-" before it for the
	// largest first; empty: price_per_hour. Equals are sorted by price, then host.
	Sort   string
	Limit  int    // 0: 50; at most 500
	Cursor string // from the previous page, with the same query
	// DiskGiB is the size of disk that shall fit and that prices include; 0:
	// DefaultDiskGiB.
	DiskGiB int64
	// TimeZone is the IANA name of the zone by whose month the disk's price for an
	// hour is reckoned, as in a quote; empty: UTC.
	TimeZone string
}

// Search returns offers, and the cursor of the next page or "".
func (s *Service) Search(_ context.Context, q Query) ([]Offer, string, error) {
	p, err := newPlan(q, s.clock())
	if err != nil {
		return nil, "", err
	}
	var found []candidate
	s.index.read(func(base, delta *segment) {
		found = append(p.run(base), p.run(delta)...)
	})
	slices.SortFunc(found, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.price, b.price),
			strings.Compare(a.host().hostID, b.host().hostID), cmp.Compare(a.tie, b.tie))
	})
	next := ""
	if len(found) > p.limit {
		found = found[:p.limit]
		next = p.cursorAfter(found[p.limit-1])
	}
	offers := make([]Offer, 0, len(found))
	for _, c := range found {
		o, err := s.offer(c.host(), c.group(), c.count(), p.disk, p.month)
		if err != nil {
			return nil, "", err
		}
		offers = append(offers, o)
	}
	return offers, next, nil
}

// plan is a checked query.
type plan struct {
	where       node
	sort        *field
	descending  bool
	limit       int
	disk        int64
	month       int64 // seconds
	after       *position
	fingerprint uint32
}

// position is where a page ended: the keys of its last offer.
type position struct {
	Key, Price  int64
	Host, Model string
	Count       int32
	Query       uint32
}

func newPlan(q Query, at time.Time) (*plan, error) {
	p := &plan{limit: q.Limit}
	var err error
	if p.where, err = parse(q.Expression); err != nil {
		return nil, err
	}
	if p.disk, err = checkDisk(q.DiskGiB); err != nil {
		return nil, err
	}
	if p.month, err = pricing.SecondsOfMonth(q.TimeZone, at); err != nil {
		return nil, err
	}
	if p.limit == 0 {
		p.limit = 50
	}
	if p.limit < 1 || p.limit > 500 {
		return nil, fault.New(fault.Invalid, "bad_limit", "%d offers a page were asked for; want 1 to 500", q.Limit).At("query.limit")
	}
	name, descending := strings.CutPrefix(strings.TrimSpace(q.Sort), "-")
	if name == "" {
		name = "price_per_hour"
	}
	f, ok := lookupField(name)
	if !ok || f.kind == text {
		hint := "it must be a field that is a number"
		if near := suggestion(name); !ok && near != "" {
			hint = "did you mean " + near + "?"
		}
		return nil, fault.New(fault.Invalid, "bad_sort", "offers cannot be sorted by %q; %s", name, hint).At("query.sort")
	}
	p.sort, p.descending = f, descending
	// With the month's length, as prices and with them the order change with it.
	h := fnv.New32a()
	h.Write([]byte(q.Expression + "\x00" + f.name + strconv.FormatBool(descending) + strconv.FormatInt(p.disk, 10) + "/" + strconv.FormatInt(p.month, 10)))
	p.fingerprint = h.Sum32()
	if q.Cursor != "" {
		b, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		var at position
		if err != nil || json.Unmarshal(b, &at) != nil || at.Query != p.fingerprint {
			return nil, fault.New(fault.Invalid, "bad_cursor", "this cursor is not from the same search; start again without one").At("query.cursor")
		}
		p.after = &at
	}
	return p, nil
}

func (p *plan) cursorAfter(c candidate) string {
	b, err := json.Marshal(position{c.key, c.price, c.host().hostID, c.group().model, int32(c.count()), p.fingerprint})
	if err != nil {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// candidate is a row that was found, with the keys that it is sorted by.
type candidate struct {
	segment    *segment
	row        int32
	key, price int64
	tie        uint64 // group and count
}

func (c candidate) host() *entry  { return c.segment.hosts[c.segment.rowGroup[c.row]] }
func (c candidate) group() *group { return c.segment.groups[c.segment.rowGroup[c.row]] }
func (c candidate) count() int    { return int(c.segment.rowCount[c.row]) }

func (c candidate) before(o candidate) bool {
	if c.key != o.key {
		return c.key < o.key
	}
	if c.price != o.price {
		return c.price < o.price
	}
	return c.tie < o.tie
}

func tie(group, count int32) uint64 { return uint64(group)<<20 | uint64(count) }

// worst is a binary heap with the worst candidate first.
type worst []candidate

func (w *worst) add(c candidate) {
	*w = append(*w, c)
	h := *w
	for i := len(h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !h[parent].before(h[i]) {
			return
		}
		h[parent], h[i] = h[i], h[parent]
		i = parent
	}
}

// replace puts c in the place of the worst.
func (w worst) replace(c candidate) {
	i := 0
	for {
		kid := 2*i + 1
		if kid >= len(w) {
			break
		}
		if kid+1 < len(w) && w[kid].before(w[kid+1]) {
			kid++
		}
		if !c.before(w[kid]) {
			break
		}
		w[i] = w[kid]
		i = kid
	}
	w[i] = c
}

var masks = sync.Pool{New: func() any { return new([]bool) }}

// run returns the best limit+1 rows of a segment, in no order.
func (p *plan) run(s *segment) []candidate {
	n := len(s.groups)
	if n == 0 {
		return nil
	}
	pooled := masks.Get().(*[]bool)
	defer masks.Put(pooled)
	if cap(*pooled) < n {
		*pooled = make([]bool, n)
	}
	alive := (*pooled)[:n]
	disk := s.numbers[diskField.column]
	for i := range alive {
		alive[i] = !s.dead[i] && disk[i] >= p.disk
	}
	x := &scan{segment: s, storage: s.storagePerHour(p.disk, p.month), to: len(s.rowGroup)}
	// What does not differ between the bundles of a group is asked once a group.
	var perRow []func(int32) bool
	for _, part := range conjuncts(p.where) {
		if part.perRow() {
			x.narrow(part)
			perRow = append(perRow, x.rows(part))
			continue
		}
		x.filter(part, alive)
	}
	return p.best(x, alive, perRow)
}

// best returns the best rows among those alive that pass the tests.
func (p *plan) best(x *scan, alive []bool, perRow []func(int32) bool) []candidate {
	t := &selection{scan: x, limit: p.limit, tests: perRow, after: candidate{key: math.MinInt64, price: math.MinInt64}}
	if p.after != nil {
		s := x.segment
		g := s.first(p.after.Host, p.after.Model)
		t.after.key, t.after.price, t.after.tie = p.after.Key, p.after.Price, tie(int32(g), 0)
		if g < len(s.groups) && s.hosts[g].hostID == p.after.Host && s.groups[g].model == p.after.Model {
			t.after.tie = tie(int32(g), p.after.Count) + 1
		}
	}
	switch {
	case p.sort.name == "price_per_hour" && !p.descending:
		t.cheapest(alive)
	case p.sort.row:
		t.byRow(alive, x.number(p.sort), p.descending)
	default:
		t.byGroup(alive, x.segment.numbers[p.sort.column], p.descending)
	}
	return t.top
}

// selection collects the best limit+1 rows.
type selection struct {
	*scan
	limit int
	tests []func(int32) bool
	after candidate // only what comes after it
	top   worst
}

func (t *selection) full() bool { return len(t.top) > t.limit }

// consider takes a row if it is among the best so far, and reports whether it
// comes before the worst of them.
func (t *selection) consider(row, group int32, key, price int64) bool {
	c := candidate{segment: t.segment, row: row, key: key, price: price, tie: tie(group, t.segment.rowCount[row])}
	if t.full() && !c.before(t.top[0]) {
		return false
	}
	if c.before(t.after) {
		return true
	}
	for _, test := range t.tests {
		if !test(row) {
			return true
		}
	}
	if t.full() {
		t.top.replace(c)
	} else {
		t.top.add(c)
	}
	return true
}

// cheapest goes through the rows in their own order, and stops when the rest
// cannot be cheaper.
func (t *selection) cheapest(alive []bool) {
	s := t.segment
	least, most := t.storageRange()
	for i := t.from; i < t.to; i++ {
		if t.full() && s.rowCompute[i]+least > t.top[0].price {
			return
		}
		g := s.rowGroup[i]
		if !alive[g] {
			continue
		}
		price := s.rowCompute[i] + t.storage[s.rowStorage[i]]
		if !t.consider(int32(i), g, price, price) && least == most {
			return // rows are in the very order that is wanted
		}
	}
}

// byRow sorts by a field that differs between bundles. Dear bundles have more of
// most things: where the most is wanted it begins with them, so that top has good
// ones early and most of the rest is refused by one comparison.
func (t *selection) byRow(alive []bool, value func(int32) int64, descending bool) {
	s := t.segment
	i, end, step := t.from, t.to, 1
	if descending {
		i, end, step = t.to-1, t.from-1, -1
	}
	for ; i != end; i += step {
		g := s.rowGroup[i]
		if !alive[g] {
			continue
		}
		key := sortKey(value(int32(i)), descending)
		if t.full() && key > t.top[0].key {
			continue
		}
		t.consider(int32(i), g, key, s.rowCompute[i]+t.storage[s.rowStorage[i]])
	}
}

// byGroup sorts by a field that all bundles of a group have alike.
func (t *selection) byGroup(alive []bool, column []int64, descending bool) {
	s := t.segment
	for g, value := range column {
		if !alive[g] {
			continue
		}
		key := sortKey(value, descending)
		if t.full() && key > t.top[0].key {
			continue
		}
		for _, row := range s.groupRows[s.groupFirst[g]:s.groupFirst[g+1]] {
			if int(row) >= t.from && int(row) < t.to {
				t.consider(row, int32(g), key, s.rowCompute[row]+t.storage[s.rowStorage[row]])
			}
		}
	}
}

// sortKey is a value with the first to come the smallest, and the unknown last
// in either direction.
func sortKey(v int64, descending bool) int64 {
	switch {
	case v == unknown:
		return math.MaxInt64
	case descending:
		return -v
	}
	return v
}

// conjuncts splits what is joined by "and" at the top.
func conjuncts(n node) []node {
	switch n := n.(type) {
	case nil:
		return nil
	case logic:
		if !n.or {
			var out []node
			for _, k := range n.kids {
				out = append(out, conjuncts(k)...)
			}
			return out
		}
	}
	return []node{n}
}

// scan is one query's view of a segment.
type scan struct {
	segment  *segment
	storage  []int64 // micro-units per hour, by storage rate
	from, to int     // the rows that can be meant
}

// storageRange is the least and the most that the disk costs, per hour.
func (x *scan) storageRange() (least, most int64) {
	if len(x.storage) == 0 {
		return 0, 0
	}
	return slices.Min(x.storage), slices.Max(x.storage)
}

// narrow leaves out rows that a bound on the price excludes; rows are sorted by
// the price of compute.
func (x *scan) narrow(n node) {
	c, ok := n.(comparison)
	if !ok || (c.field.name != "price_per_hour" && c.field.name != "compute_price_per_hour") {
		return
	}
	least, most := x.storageRange()
	if c.field.name == "compute_price_per_hour" {
		least, most = 0, 0
	}
	v := c.numbers[0]
	if c.op == "<" || c.op == "<=" || c.op == "=" {
		to, _ := slices.BinarySearch(x.segment.rowCompute, v-least+1)
		x.to = max(x.from, min(x.to, to))
	}
	if c.op == ">" || c.op == ">=" || c.op == "=" {
		from, _ := slices.BinarySearch(x.segment.rowCompute, v-most)
		x.from = min(x.to, max(x.from, from))
	}
}

// storagePerHour is what the disk costs at each storage rate, in micro-units per hour.
func (s *segment) storagePerHour(diskGiB, monthSeconds int64) []int64 {
	out := make([]int64, len(s.rates))
	for i, r := range s.rates {
		a, err := storagePerHour(r, diskGiB, monthSeconds)
		if err != nil {
			a = math.MaxInt64 / 4
		}
		out[i] = int64(a)
	}
	return out
}

var diskField, _ = lookupField("disk_gib")

// filter clears alive where a test of groups fails. The common comparisons are
// loops over a column.
func (x *scan) filter(n node, alive []bool) {
	if c, ok := n.(comparison); ok && c.field.kind != text && len(c.numbers) == 1 {
		column, v := x.segment.numbers[c.field.column], c.numbers[0]
		lo, hi := int64(unknown+1), int64(math.MaxInt64)
		switch c.op {
		case "=", "in":
			lo, hi = v, v
		case "<":
			hi = v - 1
		case "<=":
			hi = v
		case ">":
			lo = v + 1
		case ">=":
			lo = v
		}
		if c.op != "!=" {
			for i, is := range column {
				alive[i] = alive[i] && is >= lo && is <= hi
			}
			return
		}
	}
	test := x.groups(n)
	for i := range alive {
		alive[i] = alive[i] && test(int32(i))
	}
}

// groups compiles a test of groups.
func (x *scan) groups(n node) func(int32) bool {
	switch n := n.(type) {
	case logic:
		return combine(n, x.groups)
	case negation:
		kid := x.groups(n.kid)
		return func(i int32) bool { return !kid(i) }
	case comparison:
		if n.field.kind == text {
			return x.texts(n)
		}
		column := x.segment.numbers[n.field.column]
		return compare(n, func(i int32) int64 { return column[i] })
	}
	return func(int32) bool { return true }
}

// rows compiles a test of rows.
func (x *scan) rows(n node) func(int32) bool {
	if !n.perRow() {
		test, group := x.groups(n), x.segment.rowGroup
		return func(row int32) bool { return test(group[row]) }
	}
	switch n := n.(type) {
	case logic:
		return combine(n, x.rows)
	case negation:
		kid := x.rows(n.kid)
		return func(i int32) bool { return !kid(i) }
	case comparison:
		return compare(n, x.number(n.field))
	}
	return func(int32) bool { return true }
}

func combine(n logic, compile func(node) func(int32) bool) func(int32) bool {
	tests := make([]func(int32) bool, len(n.kids))
	for i, k := range n.kids {
		tests[i] = compile(k)
	}
	return func(i int32) bool {
		for _, test := range tests {
			if test(i) == n.or {
				return n.or
			}
		}
		return !n.or
	}
}

func compare(c comparison, value func(int32) int64) func(int32) bool {
	v := c.numbers[0]
	switch c.op {
	case "=":
		return func(i int32) bool { return value(i) == v }
	case "!=":
		return func(i int32) bool { is := value(i); return is != v && is != unknown }
	case "<":
		return func(i int32) bool { is := value(i); return is < v && is != unknown }
	case "<=":
		return func(i int32) bool { is := value(i); return is <= v && is != unknown }
	case ">":
		return func(i int32) bool { return value(i) > v }
	case ">=":
		return func(i int32) bool { return value(i) >= v }
	}
	return func(i int32) bool { return slices.Contains(c.numbers, value(i)) }
}

// texts compiles a comparison of texts into one of their numbers.
func (x *scan) texts(c comparison) func(int32) bool {
	d := &x.segment.texts[c.field.column]
	if c.op == "~" {
		hit := make([]bool, len(d.values))
		for i, v := range d.values {
			hit[i] = strings.Contains(v, c.texts[0])
		}
		return func(i int32) bool { return hit[d.codes[i]] }
	}
	want := make([]uint32, 0, len(c.texts))
	for _, t := range c.texts {
		if code, ok := d.lookup[t]; ok {
			want = append(want, code)
		}
	}
	equal := c.op != "!="
	if len(want) == 1 {
		code := want[0]
		return func(i int32) bool { return (d.codes[i] == code) == equal }
	}
	return func(i int32) bool { return slices.Contains(want, d.codes[i]) == equal }
}

// number reads a field of rows.
func (x *scan) number(f *field) func(int32) int64 {
	s := x.segment
	switch f.name {
	case "price_per_hour":
		return func(i int32) int64 { return s.rowCompute[i] + x.storage[s.rowStorage[i]] }
	case "compute_price_per_hour":
		return func(i int32) int64 { return s.rowCompute[i] }
	case "gpu_count":
		return func(i int32) int64 { return int64(s.rowCount[i] * s.share[s.rowGroup[i]].gpus) }
	case "total_vram_gb":
		return func(i int32) int64 { return int64(s.rowCount[i]) * int64(s.share[s.rowGroup[i]].vramGB) }
	case "available_after_seconds":
		return func(i int32) int64 { return s.groups[s.rowGroup[i]].waitFor(int(s.rowCount[i])) }
	case "cpus":
		return func(i int32) int64 { return int64(s.rowCPU[i]) }
	case "memory_gib":
		return func(i int32) int64 { return int64(s.rowMemory[i]) * 1000 / 1024 }
	}
	column := s.numbers[f.column]
	return func(i int32) int64 { return column[s.rowGroup[i]] }
}
