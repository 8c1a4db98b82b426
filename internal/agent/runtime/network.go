package runtime

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"suanli.dev/internal/reach"
)

// poolCandidates are tried in order; the first that meets no address of the host
// gives leases their networks.
var poolCandidates = []string{"10.213.0.0/16", "172.29.0.0/16", "10.87.0.0/16", "192.168.192.0/18"}

// leaseBits sizes a lease's network: its bridge, its instance, and room for the
// engine's own reservations.
const leaseBits = 29

// bridgeName is the lease's bridge: unique, and within the kernel's 15 characters.
func bridgeName(leaseID string) string {
	sum := sha256.Sum256([]byte(leaseID))
	return "sl" + hex.EncodeToString(sum[:6])
}

// hostPrefixes returns the IPv4 networks of the host's interfaces whose names
// are wanted.
func hostPrefixes(want func(name string) bool) []netip.Prefix {
	var found []netip.Prefix
	ifaces, _ := net.Interfaces()
	for _, i := range ifaces {
		if !want(i.Name) {
			continue
		}
		list, _ := i.Addrs()
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Is4() {
				found = append(found, p.Masked())
			}
		}
	}
	return found
}

// firstSubnet is where the search for a lease's network begins, of count.
func firstSubnet(leaseID string, count int) int {
	sum := sha256.Sum256([]byte("network " + leaseID))
	return int(binary.BigEndian.Uint32(sum[:4]) % uint32(count))
}

// pool returns the prefix for leases' networks.
func pool() netip.Prefix {
	addrs := hostPrefixes(func(name string) bool { return !strings.HasPrefix(name, "sl") || len(name) != 14 })
next:
	for _, c := range poolCandidates {
		p := netip.MustParsePrefix(c)
		for _, a := range addrs {
			if a.Overlaps(p) {
				continue next
			}
		}
		return p
	}
	return netip.MustParsePrefix(poolCandidates[0])
}

// subnet returns the nth network of a pool and its gateway; false: there is none.
func subnet(p netip.Prefix, n int) (netip.Prefix, netip.Addr, bool) {
	if n < 0 || n >= 1<<(leaseBits-p.Bits()) {
		return netip.Prefix{}, netip.Addr{}, false
	}
	b := p.Addr().As4()
	base := binary.BigEndian.Uint32(b[:]) + uint32(n)<<(32-leaseBits)
	binary.BigEndian.PutUint32(b[:], base)
	a := netip.AddrFrom4(b)
	return netip.PrefixFrom(a, leaseBits), a.Next(), true
}

// resolvers returns the name servers that instances are told: the host's, except
// a stub on its loopback, which an instance cannot reach.
func resolvers() []netip.Addr {
	var found []netip.Addr
	for _, file := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		b, _ := os.ReadFile(file)
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != "nameserver" {
				continue
			}
			if a, err := netip.ParseAddr(f[1]); err == nil && a.Is4() && !a.IsLoopback() {
				found = append(found, a)
			}
		}
		if len(found) > 0 {
			return found
		}
	}
	return []netip.Addr{netip.MustParseAddr("1.1.1.1"), netip.MustParseAddr("8.8.8.8")}
}

// firewall is the table of rules that isolates and counts renters. One table for
// an agent: agents that share a network namespace do not share a table.
type firewall struct {
	mu    sync.Mutex
	table *nftables.Table
	pool  netip.Prefix
	allow []netip.Addr      // resolvers
	open  map[string]access // by lease
	conn  func() (*nftables.Conn, error)
}

// access is what a lease may reach.
type access struct {
	private bool   // private ranges, too
	ports   string // numbers separated by commas; empty: all
}

// portsOf reads the ports of an access.
func portsOf(list string) []uint16 {
	var out []uint16
	for _, f := range strings.Split(list, ",") {
		if n, err := strconv.ParseUint(f, 10, 16); err == nil && n > 0 {
			out = append(out, uint16(n))
		}
	}
	return out
}

// portList writes ports as an access has them.
func portList(ports []int) string {
	var out []string
	for _, p := range slices.Compact(slices.Sorted(slices.Values(ports))) {
		out = append(out, strconv.Itoa(p))
	}
	return strings.Join(out, ",")
}

func newFirewall(name string, p netip.Prefix, allow []netip.Addr) *firewall {
	return &firewall{
		table: &nftables.Table{Family: nftables.TableFamilyINet, Name: name},
		pool:  p, allow: allow, open: map[string]access{},
		conn: func() (*nftables.Conn, error) { return nftables.New() },
	}
}

const (
	setRenters   = "renters"
	setOpen      = "open"
	setPool      = "pool"
	setBlocked   = "blocked"
	setResolvers = "resolvers"
	counterDrops = "dropped"
	chainPorts   = "guard_ports"
)

func ifname(name string) []byte {
	b := make([]byte, 16)
	copy(b, name)
	return b
}

// prefixElements turns sorted, disjoint prefixes into interval elements.
func prefixElements(prefixes ...netip.Prefix) []nftables.SetElement {
	var e []nftables.SetElement
	for _, p := range prefixes {
		first := p.Masked().Addr().As4()
		e = append(e, nftables.SetElement{Key: first[:]})
		end := uint64(binary.BigEndian.Uint32(first[:])) + 1<<(32-p.Bits())
		if end > 1<<32-1 {
			continue // open at the top of the address space
		}
		e = append(e, nftables.SetElement{Key: binaryutil.BigEndian.PutUint32(uint32(end)), IntervalEnd: true})
	}
	return e
}

// rebuild writes the whole table in one transaction, so that there is no moment
// without it. Counters of known leases keep the values given.
func (f *firewall) rebuild(counters map[string]Traffic) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.conn()
	if err != nil {
		return fmt.Errorf("reach nftables: %w", err)
	}
	c.AddTable(f.table)
	c.DelTable(f.table)
	c.AddTable(f.table)
	renters := &nftables.Set{Table: f.table, Name: setRenters, KeyType: nftables.TypeIFName}
	open := &nftables.Set{Table: f.table, Name: setOpen, KeyType: nftables.TypeIFName}
	poolSet := &nftables.Set{Table: f.table, Name: setPool, KeyType: nftables.TypeIPAddr, Interval: true}
	blocked := &nftables.Set{Table: f.table, Name: setBlocked, KeyType: nftables.TypeIPAddr, Interval: true}
	allow := &nftables.Set{Table: f.table, Name: setResolvers, KeyType: nftables.TypeIPAddr}
	var renterElements, openElements []nftables.SetElement
	for lease := range f.open {
		e := nftables.SetElement{Key: ifname(bridgeName(lease))}
		renterElements = append(renterElements, e)
		if f.open[lease].private {
			openElements = append(openElements, e)
		}
	}
	var private []netip.Prefix
	for _, p := range reach.Blocked4 {
		private = append(private, netip.MustParsePrefix(p))
	}
	var allowed []nftables.SetElement
	for _, a := range f.allow {
		b := a.As4()
		allowed = append(allowed, nftables.SetElement{Key: b[:]})
	}
	for _, s := range []struct {
		set      *nftables.Set
		elements []nftables.SetElement
	}{{renters, renterElements}, {open, openElements}, {poolSet, prefixElements(f.pool)}, {blocked, prefixElements(private...)}, {allow, allowed}} {
		if err := c.AddSet(s.set, s.elements); err != nil {
			return fmt.Errorf("make the set %s: %w", s.set.Name, err)
		}
	}
	c.AddObj(&nftables.CounterObj{Table: f.table, Name: counterDrops})

	accept := nftables.ChainPolicyAccept
	chain := func(name string, hook *nftables.ChainHook, priority int32) *nftables.Chain {
		return c.AddChain(&nftables.Chain{Table: f.table, Name: name, Type: nftables.ChainTypeFilter, Hooknum: hook, Priority: nftables.ChainPriorityRef(nftables.ChainPriority(priority)), Policy: &accept})
	}
	// Before the engine's own rules, at 0; the counters after them, so that what
	// is refused is not counted.
	guardForward := chain("guard_forward", nftables.ChainHookForward, -10)
	guardInput := chain("guard_input", nftables.ChainHookInput, -10)
	chain(chainPorts, nftables.ChainHookForward, -9)
	chain("meter_forward", nftables.ChainHookForward, 10)
	chain("meter_input", nftables.ChainHookInput, 10)
	chain("meter_output", nftables.ChainHookOutput, 10)

	rule := func(ch *nftables.Chain, parts ...[]expr.Any) {
		var all []expr.Any
		for _, p := range parts {
			all = append(all, p...)
		}
		c.AddRule(&nftables.Rule{Table: f.table, Chain: ch, Exprs: all})
	}
	fromRenter := []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: setRenters, SetID: renters.ID}}
	fromOpen := []expr.Any{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Lookup{SourceRegister: 1, SetName: setOpen, SetID: open.ID}}
	proto := func(family byte) []expr.Any {
		return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{family}}}
	}
	to := func(s *nftables.Set) []expr.Any {
		return append(proto(unix.NFPROTO_IPV4),
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 16, Len: 4},
			&expr.Lookup{SourceRegister: 1, SetName: s.Name, SetID: s.ID})
	}
	dns := func(l4 byte) []expr.Any {
		return []expr.Any{
			&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{l4}},
			&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
			&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(53)},
		}
	}
	established := []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
	accepted := []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}}
	dropped := []expr.Any{&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: counterDrops}, &expr.Verdict{Kind: expr.VerdictDrop}}

	for _, ch := range []*nftables.Chain{guardForward, guardInput} {
		rule(ch, established, accepted)
		rule(ch, fromRenter, proto(unix.NFPROTO_IPV6), dropped)
		for _, l4 := range []byte{unix.IPPROTO_UDP, unix.IPPROTO_TCP} {
			rule(ch, fromRenter, to(allow), dns(l4), accepted)
		}
	}
	rule(guardForward, fromRenter, to(poolSet), dropped)
	rule(guardForward, fromOpen, accepted)
	rule(guardForward, fromRenter, to(blocked), dropped)
	rule(guardInput, fromRenter, dropped)
	for lease := range f.open {
		f.addMeters(c, lease, counters[lease])
		f.addPorts(c, lease, f.open[lease].ports)
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("write the nftables table %s: %w", f.table.Name, err)
	}
	return nil
}

func outCounter(bridge string) string { return "out-" + bridge }
func inCounter(bridge string) string  { return "in-" + bridge }

func (f *firewall) addMeters(c *nftables.Conn, lease string, t Traffic) {
	bridge := bridgeName(lease)
	c.AddObj(&nftables.CounterObj{Table: f.table, Name: outCounter(bridge), Bytes: uint64(t.Out)})
	c.AddObj(&nftables.CounterObj{Table: f.table, Name: inCounter(bridge), Bytes: uint64(t.In)})
	add := func(chain string, key expr.MetaKey, counter string) {
		c.AddRule(&nftables.Rule{
			Table: f.table, Chain: &nftables.Chain{Table: f.table, Name: chain}, UserData: []byte(bridge),
			Exprs: []expr.Any{
				&expr.Meta{Key: key, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ifname(bridge)},
				&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: counter},
			},
		})
	}
	add("meter_forward", expr.MetaKeyIIFNAME, outCounter(bridge))
	add("meter_forward", expr.MetaKeyOIFNAME, inCounter(bridge))
	add("meter_input", expr.MetaKeyIIFNAME, outCounter(bridge))
	add("meter_output", expr.MetaKeyOIFNAME, inCounter(bridge))
}

// addPorts lets a lease send to some ports only, of TCP and UDP, and to the answers
// of what came in. What is accepted here has passed the other rules or goes on to
// them. A lease that may reach all ports has no rules here.
func (f *firewall) addPorts(c *nftables.Conn, lease, list string) {
	if list == "" {
		return
	}
	bridge := bridgeName(lease)
	rule := func(parts ...expr.Any) {
		c.AddRule(&nftables.Rule{
			Table: f.table, Chain: &nftables.Chain{Table: f.table, Name: chainPorts}, UserData: []byte(bridge),
			Exprs: append([]expr.Any{
				&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: ifname(bridge)},
			}, parts...),
		})
	}
	accepted := &expr.Verdict{Kind: expr.VerdictAccept}
	// Answers of what came in, such as over a direct port. What the lease began
	// itself is in the original direction and is judged by its port, always.
	rule(&expr.Ct{Key: expr.CtKeyDIRECTION, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{1}}, accepted)
	for _, l4 := range []byte{unix.IPPROTO_TCP, unix.IPPROTO_UDP} {
		for _, port := range portsOf(list) {
			rule(&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: []byte{l4}},
				&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2},
				&expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: binaryutil.BigEndian.PutUint16(port)}, accepted)
		}
	}
	rule(&expr.Objref{Type: unix.NFT_OBJECT_COUNTER, Name: counterDrops}, &expr.Verdict{Kind: expr.VerdictDrop})
}

// keptPorts returns the ports that bridges may reach by the rules that an earlier
// agent left in the kernel; none where there are no rules.
func (f *firewall) keptPorts() (map[string]string, error) {
	c, err := f.conn()
	if err != nil {
		return nil, fmt.Errorf("reach nftables: %w", err)
	}
	rules, err := c.GetRules(f.table, &nftables.Chain{Table: f.table, Name: chainPorts})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the rules of %s: %w", chainPorts, err)
	}
	ports := map[string][]int{}
	for _, r := range rules {
		for i, e := range r.Exprs {
			if _, ok := e.(*expr.Payload); !ok || i+1 == len(r.Exprs) {
				continue
			}
			if p, ok := r.Exprs[i+1].(*expr.Cmp); ok && len(p.Data) == 2 {
				ports[string(r.UserData)] = append(ports[string(r.UserData)], int(binary.BigEndian.Uint16(p.Data)))
			}
		}
	}
	kept := map[string]string{}
	for bridge, list := range ports {
		kept[bridge] = portList(list)
	}
	return kept, nil
}

// add isolates a lease; it comes before the lease's first packet. Where somebody
// has deleted the table it is written again, with the lease in it: the host is as
// it was, and its counters begin anew as they do when a look at them finds it gone.
func (f *firewall) add(lease string, open access) error {
	f.mu.Lock()
	was, known := f.open[lease]
	f.open[lease] = open
	f.mu.Unlock()
	if known && was == open {
		return nil
	}
	if known {
		t, err := f.read()
		if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, errTableGone) {
			return err
		}
		return f.rebuild(t)
	}
	err := f.admit(lease, open)
	if errors.Is(err, unix.ENOENT) {
		err = f.rebuild(nil)
	}
	if err != nil {
		f.mu.Lock()
		delete(f.open, lease)
		f.mu.Unlock()
	}
	return err
}

// admit adds one lease to the table as it is.
func (f *firewall) admit(lease string, open access) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	c, err := f.conn()
	if err != nil {
		return fmt.Errorf("reach nftables: %w", err)
	}
	e := []nftables.SetElement{{Key: ifname(bridgeName(lease))}}
	sets := []string{setRenters}
	if open.private {
		sets = append(sets, setOpen)
	}
	for _, s := range sets {
		if err := c.SetAddElements(&nftables.Set{Table: f.table, Name: s, KeyType: nftables.TypeIFName}, e); err != nil {
			return err
		}
	}
	f.addMeters(c, lease, Traffic{})
	f.addPorts(c, lease, open.ports)
	if err := c.Flush(); err != nil {
		return fmt.Errorf("isolate a lease's network: %w", err)
	}
	return nil
}

// remove forgets a lease; its bridge is gone.
func (f *firewall) remove(lease string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	open, known := f.open[lease]
	if !known {
		return nil
	}
	c, err := f.conn()
	if err != nil {
		return fmt.Errorf("reach nftables: %w", err)
	}
	bridge := bridgeName(lease)
	for _, name := range []string{"meter_forward", "meter_input", "meter_output", chainPorts} {
		ch := &nftables.Chain{Table: f.table, Name: name}
		rules, err := c.GetRules(f.table, ch)
		if err != nil {
			return fmt.Errorf("read the rules of %s: %w", name, err)
		}
		for _, r := range rules {
			if bytes.Equal(r.UserData, []byte(bridge)) {
				if err := c.DelRule(r); err != nil {
					return err
				}
			}
		}
	}
	c.DeleteObject(&nftables.CounterObj{Table: f.table, Name: outCounter(bridge)})
	c.DeleteObject(&nftables.CounterObj{Table: f.table, Name: inCounter(bridge)})
	e := []nftables.SetElement{{Key: ifname(bridge)}}
	sets := []string{setRenters}
	if open.private {
		sets = append(sets, setOpen)
	}
	for _, s := range sets {
		if err := c.SetDeleteElements(&nftables.Set{Table: f.table, Name: s, KeyType: nftables.TypeIFName}, e); err != nil {
			return err
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("remove a lease's rules: %w", err)
	}
	delete(f.open, lease)
	return nil
}

// errTableGone says that nothing of the table is there.
var errTableGone = errors.New("the nftables table is gone")

// read returns the counters of every known lease, and an error if the table or
// one of its counters is missing.
func (f *firewall) read() (map[string]Traffic, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	values, err := f.counters()
	if err != nil {
		return nil, err
	}
	if _, ok := values[counterDrops]; !ok {
		return nil, fmt.Errorf("%s: %w", f.table.Name, errTableGone)
	}
	traffic := map[string]Traffic{}
	for lease := range f.open {
		b := bridgeName(lease)
		out, ok := values[outCounter(b)]
		if !ok {
			return nil, fmt.Errorf("the counters of lease %s are gone", lease)
		}
		traffic[lease] = Traffic{Out: int64(out), In: int64(values[inCounter(b)])}
	}
	return traffic, nil
}

// drops is how many bytes the rules have refused.
func (f *firewall) drops() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	values, _ := f.counters()
	return values[counterDrops]
}

func (f *firewall) counters() (map[string]uint64, error) {
	c, err := f.conn()
	if err != nil {
		return nil, err
	}
	objects, err := c.GetObjects(f.table)
	if err != nil {
		return nil, fmt.Errorf("read counters: %w", err)
	}
	values := map[string]uint64{}
	for _, o := range objects {
		if counter, ok := o.(*nftables.CounterObj); ok {
			values[counter.Name] = counter.Bytes
		}
	}
	return values, nil
}
