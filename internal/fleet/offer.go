package fleet

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/money"
	"suanli.dev/internal/placement"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

// DefaultDiskGiB is the size of disk that prices include when none was asked for.
const DefaultDiskGiB = 20

// storagePerHour is what an hour of a disk costs in a month of so many seconds:
// the very figure of a quote of the same moment.
func storagePerHour(r money.Rate, diskGiB, monthSeconds int64) (money.Amount, error) {
	return r.Times(diskGiB*3600, monthSeconds)
}

// Offer is one bundle that can be rented now.
type Offer struct {
	ID         string // "<host id>.<GPU model>.<count>"; "<host id>.cpu.<count>" without GPUs
	HostID     string
	ProviderID string // account
	HostName   string
	Region     string
	Zone       string
	Rack       string

	GPUModel          string // empty: CPU only
	GPUVendor         string
	GPUArchitecture   string
	GPUCount          int
	VRAMMiB           int64 // of each GPU
	ComputeCapability string
	Driver            string
	MaxCUDA           string
	NVLink            bool // among the GPUs of the model on this host
	PCIeGen           int
	PCIeWidth         int
	FP32DeciTFLOPS    int // tenths, of each GPU; 0: not known
	FP16DeciTFLOPS    int
	BandwidthGBs      int // of each GPU's memory; 0: not known

	CPUModel        string
	CPUArchitecture string
	CPUMillis       int64
	MemoryMiB       int64
	DiskGiB         int64 // asked for, and in the price
	MaxDiskGiB      int64
	DiskReadMBps    int64
	DiskWriteMBps   int64
	NetDownMbps     int64
	NetUpMbps       int64
	DirectPorts     bool
	Isolation       []string

	Price Price
	// AvailableAfterSeconds is how long a renter waits for its GPUs, since leases of
	// the spot market have some of them and get their notice first; 0: not at all.
	AvailableAfterSeconds int64
	ReliabilityBasis      int64 // basis points
	// Reserve is what its host takes off for reservations; nil: none are offered.
	Reserve   *pricing.Curve
	Simulated bool
}

// Price is what an offer costs: all that a tariff is made from, and the sums
// that are shown.
type Price struct {
	Currency              money.Currency
	Compute               money.Rate // per hour, the whole bundle
	Storage               money.Rate // per GiB and month
	Egress                money.Rate // per 10⁹ bytes
	Granularity           string     // "second", "minute", "hour"
	MinimumSeconds        int64
	CommissionBasisPoints int64

	ComputePerHour money.Amount
	StoragePerHour money.Amount // of DiskGiB
	PerHour        money.Amount // both
}

// entry is what the index keeps of a host that has offers. It is immutable.
type entry struct {
	hostID, providerID, name string
	region, zone, rack       string
	cpuModel, cpuArch        string
	diskMiB                  int64
	diskRead, diskWrite      int64
	netDown, netUp           int64
	directPorts, simulated   bool
	isolation                []string
	reliability              int64
	storage, egress          money.Rate
	curve                    *pricing.Curve
	groups                   []group // by model
}

// group is the offers of one GPU model on one host, or those without GPUs.
type group struct {
	model      string // empty: CPU only
	facts      catalog.Model
	vramMiB    int64
	capability string
	driver     string
	maxCUDA    string
	nvlink     bool
	pcieGen    int
	pcieWidth  int
	// A bundle of n units has n/units of each.
	units     int
	cpuMillis int64
	memoryMiB int64
	rate      money.Rate // per unit and hour
	counts    []int      // of units in the bundles on offer, rising
	free      int        // units that a renter gets at once
	wait      int64      // seconds that it waits for more of them
}

// publish computes a host's offers again and puts them into the index.
func (s *Service) publish(hostID string) {
	// Under the lock from reading to writing, so that the later state wins.
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.noteHoldings(hostID)
	s.index.put(hostID, s.entry(s.hosts[hostID], ""))
}

// republish computes all offers again, as scores and windows change with time.
func (s *Service) republish() {
	s.mu.RLock()
	ids := make([]string, 0, len(s.hosts))
	for id := range s.hosts {
		ids = append(ids, id)
	}
	s.mu.RUnlock()
	for _, id := range ids {
		s.publish(id)
	}
}

// entry returns what to offer of a host, or nil: to an account, or without one to
// everybody. It needs s.mu.
func (s *Service) entry(h *host, account string) *entry {
	if h == nil {
		return nil
	}
	onlyHeld := false // off the market, but for what is held
	switch state, _ := s.state(h); state {
	case StateListed, StateDegraded:
	case StateUnlisted, StateDraining:
		if onlyHeld = true; account == "" {
			return nil
		}
	default:
		return nil
	}
	r, inv := h.record, h.record.Inventory
	t := s.terms(r.Listing)
	picture := r.snapshot()
	e := &entry{
		hostID: r.ID, providerID: r.AccountID, name: r.Name, region: r.Region, zone: r.Zone, rack: r.Rack,
		cpuModel: inv.CPUModel, cpuArch: inv.Architecture, diskMiB: picture.DiskMiB,
		diskRead: inv.SelfTest.DiskReadMBps, diskWrite: inv.SelfTest.DiskWriteMBps, netDown: inv.SelfTest.NetDownMbps, netUp: inv.SelfTest.NetUpMbps,
		directPorts: inv.DirectPorts != nil, simulated: r.Simulated, isolation: inv.Isolation,
		reliability: s.reliability(h), storage: t.storage, egress: t.egress, curve: s.curve(r.Listing),
	}
	c := r.capacity()
	if len(inv.GPUs) == 0 && !onlyHeld {
		// Powers of two, and whatever the host has in whole CPUs.
		g := group{units: inv.CPUs, free: inv.CPUs, cpuMillis: c.CPUMillis, memoryMiB: c.MemoryMiB, rate: t.cpu}
		for n := 1; n <= inv.CPUs; n *= 2 {
			g.offer(n, picture.CPUMillis, picture.MemoryMiB)
		}
		g.offer(inv.CPUs, picture.CPUMillis, picture.MemoryMiB)
		if len(g.counts) > 0 {
			e.groups = append(e.groups, g)
		}
	}
	free, claimable := map[string]int{}, map[string]int{}
	after := picture // when the spot market has left it
	for i, g := range picture.GPUs {
		if g.Free {
			free[g.Model]++
		} else if r.claimable(r.GPUs[i]) {
			claimable[g.Model]++
		}
	}
	for id, share := range r.Spot {
		if !r.Leaving[id] {
			after.CPUMillis += share.CPUMillis
			after.MemoryMiB += share.MemoryMiB
		}
	}
	// What is held for others is left for them, out of what is free or will be.
	for _, h := range r.Holdings {
		if claimable[h.GPUModel] > 0 || free[h.GPUModel] > 0 {
			free[h.GPUModel] = freeOf(picture, h.GPUModel) - r.heldFrom(account, h.GPUModel)
		}
	}
	if onlyHeld {
		clear(claimable) // the spot market has none of what is held
		for model := range free {
			free[model] = min(free[model], r.heldFor(account, model))
		}
	}
	// A GPU that was lost while a lease has it still has its share of the host.
	units := 0
	for _, g := range r.GPUs {
		if g.Present || g.LeaseID != "" {
			units++
		}
	}
	for _, rep := range inv.GPUs {
		facts, known := s.cfg.Catalog.Lookup(modelName(rep), rep.VRAMMiB)
		n, more := free[facts.Name], claimable[facts.Name]
		n, more = withinMachine(inv, picture, r, rep, n, more)
		delete(free, facts.Name) // one group a model
		delete(claimable, facts.Name)
		if n+more <= 0 {
			continue
		}
		g := group{
			model: facts.Name, vramMiB: rep.VRAMMiB, capability: rep.ComputeCapability, driver: rep.Driver, maxCUDA: rep.MaxCUDA,
			nvlink: len(rep.NVLinks) > 0, pcieGen: rep.PCIeGen, pcieWidth: rep.PCIeWidth,
			units: units, cpuMillis: c.CPUMillis, memoryMiB: c.MemoryMiB, rate: t.gpu(facts.Name), facts: facts,
			free: max(0, n), wait: int64(s.cfg.SpotNotice / time.Second),
		}
		if !known {
			g.facts = catalog.Model{Vendor: string(rep.Vendor)}
		}
		for i := max(1, r.Listing.MinGPUs); i <= n; i++ {
			g.offer(i, picture.CPUMillis, picture.MemoryMiB)
		}
		for i := max(1, r.Listing.MinGPUs, n+1); i <= n+more; i++ {
			g.offer(i, after.CPUMillis, after.MemoryMiB)
		}
		if len(g.counts) > 0 {
			e.groups = append(e.groups, g)
		}
	}
	if len(e.groups) == 0 || e.diskMiB < 1024 {
		return nil
	}
	slices.SortFunc(e.groups, func(a, b group) int { return strings.Compare(a.model, b.model) })
	return e
}

// withinMachine bounds what is free, and what the market could free, by the machine of
// a cluster that has the most: a lease's GPUs are all in one. On a host that is one
// machine it changes nothing.
func withinMachine(inv *protocol.Inventory, picture placement.Host, r *record, rep protocol.GPU, free, more int) (most, beyond int) {
	if rep.Machine == "" {
		return free, more
	}
	machine := map[string]string{}
	for _, g := range inv.GPUs {
		machine[g.UUID] = g.Machine
	}
	model := ""
	for _, g := range picture.GPUs {
		if g.UUID == rep.UUID {
			model = g.Model
		}
	}
	now, then := map[string]int{}, map[string]int{}
	for i, g := range picture.GPUs {
		switch {
		case g.Model != model:
		case g.Free:
			now[machine[g.UUID]]++
			then[machine[g.UUID]]++
		case r.claimable(r.GPUs[i]):
			then[machine[g.UUID]]++
		}
	}
	reach := 0
	for m, n := range then {
		most, reach = max(most, now[m]), max(reach, n)
	}
	most = min(most, free)
	return most, max(0, min(reach, free+more)-most)
}

// freeOf counts the GPUs of a model that are free on a host.
func freeOf(h placement.Host, model string) int {
	n := 0
	for _, g := range h.GPUs {
		if g.Free && g.Model == model {
			n++
		}
	}
	return n
}

// offer adds a bundle of n units if its share of CPU and memory is free.
func (g *group) offer(n int, freeCPU, freeMemory int64) {
	if slices.Contains(g.counts, n) || g.share(g.cpuMillis, n) > freeCPU || g.share(g.memoryMiB, n) > freeMemory || g.share(g.cpuMillis, n) == 0 {
		return
	}
	g.counts = append(g.counts, n)
}

// waitFor is how many seconds a renter waits for so many units.
func (g *group) waitFor(n int) int64 {
	if n <= g.free {
		return 0
	}
	return g.wait
}

func (g *group) share(total int64, n int) int64 { return total * int64(n) / int64(g.units) }

// slug makes a model's name fit for an offer's ID and a path.
func slug(model string) string {
	if model == "" {
		return "cpu"
	}
	return strings.Map(func(c rune) rune {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
			return c
		case c >= 'A' && c <= 'Z':
			return c + 'a' - 'A'
		}
		return '-'
	}, model)
}

// offer builds the offer of a bundle. Errors are overflows of money, which the
// limits of prices and sizes exclude.
func (s *Service) offer(e *entry, g *group, count int, diskGiB, monthSeconds int64) (Offer, error) {
	d := s.cfg.Defaults
	o := Offer{
		ID: e.hostID + "." + slug(g.model) + "." + strconv.Itoa(count), HostID: e.hostID, ProviderID: e.providerID, HostName: e.name,
		Region: e.region, Zone: e.zone, Rack: e.rack,
		CPUModel: e.cpuModel, CPUArchitecture: e.cpuArch, CPUMillis: g.share(g.cpuMillis, count), MemoryMiB: g.share(g.memoryMiB, count),
		DiskGiB: diskGiB, MaxDiskGiB: e.diskMiB / 1024, DiskReadMBps: e.diskRead, DiskWriteMBps: e.diskWrite,
		NetDownMbps: e.netDown, NetUpMbps: e.netUp, DirectPorts: e.directPorts, Isolation: e.isolation,
		ReliabilityBasis: e.reliability, Simulated: e.simulated, Reserve: e.curve,
		Price: Price{
			Currency: d.Currency, Compute: g.rate * money.Rate(count), Storage: e.storage, Egress: e.egress,
			CommissionBasisPoints: d.CommissionBasisPoints,
		},
	}
	o.Price.Granularity, o.Price.MinimumSeconds = s.counting(e.region)
	o.AvailableAfterSeconds = g.waitFor(count)
	if g.model != "" {
		o.GPUModel, o.GPUCount, o.GPUVendor, o.GPUArchitecture = g.model, count, g.facts.Vendor, g.facts.Architecture
		o.VRAMMiB, o.ComputeCapability, o.Driver, o.MaxCUDA = g.vramMiB, g.capability, g.driver, g.maxCUDA
		o.NVLink, o.PCIeGen, o.PCIeWidth = g.nvlink, g.pcieGen, g.pcieWidth
		o.FP32DeciTFLOPS, o.FP16DeciTFLOPS, o.BandwidthGBs = g.facts.FP32DeciTFLOPS, g.facts.FP16DeciTFLOPS, g.facts.BandwidthGBs
	}
	var err error
	if o.Price.ComputePerHour, err = o.Price.Compute.Times(1, 1); err != nil {
		return Offer{}, fmt.Errorf("price of offer %s: %w", o.ID, err)
	}
	if o.Price.StoragePerHour, err = storagePerHour(o.Price.Storage, diskGiB, monthSeconds); err != nil {
		return Offer{}, fmt.Errorf("price of offer %s: %w", o.ID, err)
	}
	if o.Price.PerHour, err = o.Price.ComputePerHour.Add(o.Price.StoragePerHour); err != nil {
		return Offer{}, fmt.Errorf("price of offer %s: %w", o.ID, err)
	}
	return o, nil
}

// counting is what running time in a region counts in, and the shortest that is
// charged: the region's own, or the cloud's.
func (s *Service) counting(region string) (granularity string, minimumSeconds int64) {
	granularity, minimumSeconds = s.cfg.Defaults.Granularity, s.cfg.Defaults.MinimumSeconds
	if r, ok := s.cfg.Catalog.Region(region); ok {
		if r.Granularity != "" {
			granularity = r.Granularity
		}
		if r.MinimumSeconds != nil {
			minimumSeconds = *r.MinimumSeconds
		}
	}
	return granularity, minimumSeconds
}

// Offer returns an offer by its ID as it is now, priced with diskGiB of disk (0:
// DefaultDiskGiB) in the month that it is in an IANA time zone (empty: UTC). If it
// is not there any more that is a fault "offer_gone".
func (s *Service) Offer(ctx context.Context, offerID string, diskGiB int64, timeZone string) (Offer, error) {
	return s.OfferTo(ctx, "", offerID, diskGiB, timeZone)
}

// OfferTo is Offer for an account, which can have what is held for it.
func (s *Service) OfferTo(_ context.Context, account, offerID string, diskGiB int64, timeZone string) (Offer, error) {
	gone := fault.New(fault.Gone, "offer_gone", "the offer %q is taken or withdrawn; search again", offerID)
	parts := strings.Split(offerID, ".")
	if len(parts) != 3 {
		return Offer{}, fault.New(fault.NotFound, "offer_not_found", "%q is not the ID of an offer; search shows them", offerID)
	}
	count, err := strconv.Atoi(parts[2])
	if err != nil {
		return Offer{}, fault.New(fault.NotFound, "offer_not_found", "%q is not the ID of an offer; search shows them", offerID)
	}
	if diskGiB, err = checkDisk(diskGiB); err != nil {
		return Offer{}, err
	}
	month, err := pricing.SecondsOfMonth(timeZone, s.clock())
	if err != nil {
		return Offer{}, err
	}
	e := s.entryFor(parts[0], account)
	if e == nil {
		if s.awaited(parts[0]) {
			// After a start of the cloud nobody knows what it has: it is not gone.
			return Offer{}, fault.New(fault.Unavailable, "host_offline", "the host of the offer %q has not reported since the cloud was started; try again in a moment", offerID)
		}
		return Offer{}, gone
	}
	for i := range e.groups {
		g := &e.groups[i]
		if slug(g.model) == parts[1] && slices.Contains(g.counts, count) {
			if diskGiB > e.diskMiB/1024 {
				return Offer{}, fault.New(fault.Conflict, "disk_too_big", "%d GiB of disk were asked for; the host of this offer has %d free", diskGiB, e.diskMiB/1024).At("body.disk_gib")
			}
			return s.offer(e, g, count, diskGiB, month)
		}
	}
	return Offer{}, gone
}

// awaited reports whether a host is known and has not reported to this process yet.
func (s *Service) awaited(hostID string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	h := s.hosts[hostID]
	if h == nil {
		return false
	}
	state, _ := s.state(h)
	return state == StateAwaited || state == StateJoining
}

func checkDisk(diskGiB int64) (int64, error) {
	if diskGiB == 0 {
		return DefaultDiskGiB, nil
	}
	if diskGiB < 1 || diskGiB > maxDiskMiB/1024 {
		return 0, fault.New(fault.Invalid, "bad_disk", "%d GiB of disk were asked for; want 1 to %d", diskGiB, int64(maxDiskMiB/1024)).At("disk_gib")
	}
	return diskGiB, nil
}

// ComputeRate returns what an hour of a bundle of GPUs of a host costs now, also of
// GPUs that are taken. Bundles without GPUs have shares of a host that no price of
// their own says; asking for one is a Conflict fault "no_price".
func (s *Service) ComputeRate(_ context.Context, hostID, gpuModel string, gpuCount int) (money.Rate, error) {
	r := s.record(hostID)
	if r == nil {
		return 0, noHost(hostID)
	}
	if gpuModel == "" || gpuCount < 1 || gpuCount > maxGPUs {
		return 0, fault.New(fault.Conflict, "no_price", "only bundles with GPUs have a price of today")
	}
	return s.terms(r.Listing).gpu(gpuModel) * money.Rate(gpuCount), nil
}
