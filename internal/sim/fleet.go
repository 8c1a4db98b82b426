package sim

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/goccy/go-yaml"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// Group is hosts that are alike.
type Group struct {
	Name  string
	Count int // left out with Churn: hosts are those that it names
	Model string
	GPUs  int           // of each host
	Price auction.Price // on demand
	Floor auction.FloorRule
	Churn []Churn
}

// Others is a spot market's other demand, as a price trace shows it: somebody bids
// for each GPU of a model so that the price is the trace's.
type Others struct {
	Model  string
	Prices []PricePoint
}

// Demand is jobs that are no part of a trace: Count of them, the first at the
// start, and each Every after the one before.
type Demand struct {
	Count int
	Every time.Duration
	GPUs  int
	Run   time.Duration // 0: until the end
	Model string        // empty: all
	Plan  string        // empty: drawn by the policy
	Bid   auction.Price // of spot; 0: drawn by the policy
}

// Fleet is what is offered, and what others want of it.
type Fleet struct {
	Currency money.Currency
	Groups   []Group
	Others   []Others
	Demand   []Demand
}

// Policy is what an operator may choose, and what a trace leaves open.
type Policy struct {
	Granularity           pricing.Granularity
	MinimumSeconds        int64 // on demand
	CommissionBasisPoints int64
	Market                auction.Params
	// SpotShare is how many of the jobs without a plan bid, in basis points.
	SpotShare int
	// BidFrom and BidTo bound a drawn bid, in basis points of the price on demand.
	BidFrom, BidTo int
	// Preempt lets leases on demand have GPUs that spot leases hold, after notice.
	Preempt bool
	// Patience is how long a job waits for its first start; 0: for ever.
	Patience time.Duration
	// Checkpoint is how often running work is saved: an interruption loses what
	// came after the last time. 0: nothing is lost.
	Checkpoint time.Duration
	// Round is the least time between two rounds of a market; 0: at each change.
	Round time.Duration
	// Until ends the simulation so long after its start; 0: when nothing is left to
	// happen.
	Until time.Duration
	Seed  uint64
}

// Standard is the policy where nothing else is said.
func Standard() Policy {
	return Policy{
		Granularity: pricing.Second, CommissionBasisPoints: 1500, Market: auction.Standard(),
		SpotShare: 3000, BidFrom: 4000, BidTo: 9500, Preempt: true, Seed: 1,
	}
}

// Check reports the first thing that is wrong with p.
func (p Policy) Check() error {
	switch {
	case p.Granularity.Seconds() == 0:
		return fmt.Errorf("granularity %q: want second, minute or hour", p.Granularity)
	case p.SpotShare < 0 || p.SpotShare > 10_000:
		return fmt.Errorf("spot share of %d basis points: want 0 to 10000", p.SpotShare)
	case p.BidFrom < 1 || p.BidTo < p.BidFrom || p.BidTo > 100_000:
		return fmt.Errorf("bids from %d to %d basis points of the price on demand: want 1 to 100000, the lower first", p.BidFrom, p.BidTo)
	case p.Patience < 0 || p.Checkpoint < 0 || p.Round < 0 || p.Until < 0:
		return fmt.Errorf("patience %s, checkpoint %s, round %s, until %s: want none below 0", p.Patience, p.Checkpoint, p.Round, p.Until)
	}
	return nil
}

// Files is a fleet's description as it is written, in YAML; other files are named
// in it. Settings of Policy that are left out stay as they are.
type Files struct {
	Currency string `yaml:"currency"`
	Hosts    []struct {
		Name  string    `yaml:"name"`
		Count int       `yaml:"count"`
		Model string    `yaml:"gpu_model"`
		GPUs  int       `yaml:"gpus"`
		Price string    `yaml:"price_per_gpu_hour"`
		Floor FileFloor `yaml:"floor"`
		Churn string    `yaml:"churn"` // file
	} `yaml:"hosts"`
	Nodes  string `yaml:"nodes"` // file of nodes in the format of openb, priced by Models
	Models []struct {
		Model string    `yaml:"gpu_model"`
		Price string    `yaml:"price_per_gpu_hour"`
		Floor FileFloor `yaml:"floor"`
	} `yaml:"models"`
	Others []struct {
		Model  string `yaml:"gpu_model"`
		Prices string `yaml:"prices"` // file
		Series string `yaml:"series"`
		GPUs   int    `yaml:"gpus_per_instance"`
	} `yaml:"others"`
	Demand []struct {
		Count int    `yaml:"count"`
		Every string `yaml:"every"`
		GPUs  int    `yaml:"gpus"`
		Run   string `yaml:"run"`
		Model string `yaml:"gpu_model"`
		Plan  string `yaml:"plan"`
		Bid   string `yaml:"bid_per_gpu_hour"`
	} `yaml:"demand"`
	Policy struct {
		Granularity    string `yaml:"granularity"`
		MinimumSeconds *int64 `yaml:"minimum_seconds"`
		Commission     *int64 `yaml:"commission_basis_points"`
		SpotShare      *int   `yaml:"spot_share_basis_points"`
		BidFrom        *int   `yaml:"bid_from_basis_points"`
		BidTo          *int   `yaml:"bid_to_basis_points"`
		Tick           string `yaml:"tick_per_gpu_hour"`
		Notice         string `yaml:"notice"`
		MinRun         string `yaml:"minimum_run"`
		CoolDown       string `yaml:"cool_down"`
		Preempt        *bool  `yaml:"preempt"`
		Patience       string `yaml:"patience"`
		Checkpoint     string `yaml:"checkpoint"`
		Round          string `yaml:"round"`
		Until          string `yaml:"until"`
	} `yaml:"policy"`
}

// FileFloor is a floor's rule as it is written.
type FileFloor struct {
	Fixed      string `yaml:"fixed_per_gpu_hour"`
	OfOnDemand int    `yaml:"of_on_demand_basis_points"`
	OfLast     int    `yaml:"of_last_basis_points"`
	Min        string `yaml:"min_per_gpu_hour"`
	Max        string `yaml:"max_per_gpu_hour"`
}

func (f FileFloor) rule() (r auction.FloorRule, err error) {
	r.OfOnDemand, r.OfLast = f.OfOnDemand, f.OfLast
	if err := prices(map[*auction.Price]string{&r.Fixed: f.Fixed, &r.Min: f.Min, &r.Max: f.Max}); err != nil {
		return r, err
	}
	return r, r.Validate()
}

// prices reads those prices that are given.
func prices(in map[*auction.Price]string) (err error) {
	for to, text := range in {
		if text == "" {
			continue
		}
		if *to, err = auction.ParsePrice(text); err != nil {
			return err
		}
	}
	return nil
}

// durations reads those times that are given, such as "90s" and "12h".
func durations(in map[*time.Duration]string) (err error) {
	for to, text := range in {
		if text == "" {
			continue
		}
		if *to, err = time.ParseDuration(text); err != nil {
			return fmt.Errorf("%q: want a time such as 90s or 12h", text)
		}
		if *to < 0 {
			return fmt.Errorf("%q: want at least 0", text)
		}
	}
	return nil
}

// ReadFleet reads a fleet's description and the files that it names, which open
// opens, and the policy in it. An unknown field is an error: a policy with a
// spelling mistake would be simulated without it.
func ReadFleet(r io.Reader, open func(name string) (io.ReadCloser, error)) (Fleet, Policy, error) {
	p := Standard()
	var in Files
	if err := yaml.NewDecoder(r, yaml.Strict()).Decode(&in); err != nil {
		return Fleet{}, p, fmt.Errorf("fleet: %s", yaml.FormatError(err, false, true))
	}
	f, err := in.fleet(open)
	if err == nil {
		err = in.policy(&p)
	}
	if err != nil {
		return Fleet{}, p, fmt.Errorf("fleet: %w", err)
	}
	return f, p, nil
}

func (in *Files) fleet(open func(name string) (io.ReadCloser, error)) (Fleet, error) {
	f := Fleet{Currency: money.Currency(cmp.Or(in.Currency, string(money.USD)))}
	for _, h := range in.Hosts {
		g := Group{Name: cmp.Or(h.Name, h.Model), Count: h.Count, Model: h.Model, GPUs: h.GPUs}
		var err error
		if g.Floor, err = h.Floor.rule(); err == nil {
			err = prices(map[*auction.Price]string{&g.Price: h.Price})
		}
		if err == nil && h.Churn != "" {
			err = reading(open, h.Churn, func(r io.Reader) (err error) { g.Churn, err = ReadChurn(r); return err })
		}
		if err != nil {
			return f, fmt.Errorf("hosts %s: %w", g.Name, err)
		}
		f.Groups = append(f.Groups, g)
	}
	if in.Nodes != "" {
		priced := map[string]Group{}
		for _, m := range in.Models {
			g := Group{Model: m.Model}
			var err error
			if g.Floor, err = m.Floor.rule(); err == nil {
				err = prices(map[*auction.Price]string{&g.Price: m.Price})
			}
			if err != nil {
				return f, fmt.Errorf("model %s: %w", m.Model, err)
			}
			priced[m.Model] = g
		}
		if err := reading(open, in.Nodes, func(r io.Reader) (err error) { f.Groups, err = readNodes(r, priced, f.Groups); return err }); err != nil {
			return f, err
		}
	}
	for _, o := range in.Others {
		to := Others{Model: o.Model}
		if err := reading(open, o.Prices, func(r io.Reader) (err error) {
			to.Prices, err = ReadPrices(r, o.Series, max(o.GPUs, 1))
			return err
		}); err != nil {
			return f, err
		}
		f.Others = append(f.Others, to)
	}
	for _, d := range in.Demand {
		to := Demand{Count: d.Count, GPUs: d.GPUs, Model: d.Model, Plan: d.Plan}
		err := durations(map[*time.Duration]string{&to.Every: d.Every, &to.Run: d.Run})
		if err == nil {
			err = prices(map[*auction.Price]string{&to.Bid: d.Bid})
		}
		if err != nil {
			return f, fmt.Errorf("demand: %w", err)
		}
		f.Demand = append(f.Demand, to)
	}
	return f, f.Check()
}

func (in *Files) policy(p *Policy) error {
	w := in.Policy
	p.Granularity = pricing.Granularity(cmp.Or(w.Granularity, string(p.Granularity)))
	for to, v := range map[*int64]*int64{&p.MinimumSeconds: w.MinimumSeconds, &p.CommissionBasisPoints: w.Commission} {
		if v != nil {
			*to = *v
		}
	}
	for to, v := range map[*int]*int{&p.SpotShare: w.SpotShare, &p.BidFrom: w.BidFrom, &p.BidTo: w.BidTo} {
		if v != nil {
			*to = *v
		}
	}
	if w.Preempt != nil {
		p.Preempt = *w.Preempt
	}
	if err := prices(map[*auction.Price]string{&p.Market.Tick: w.Tick}); err != nil {
		return err
	}
	if err := durations(map[*time.Duration]string{
		&p.Market.Notice: w.Notice, &p.Market.MinRun: w.MinRun, &p.Market.CoolDown: w.CoolDown, &p.Patience: w.Patience,
		&p.Checkpoint: w.Checkpoint, &p.Round: w.Round, &p.Until: w.Until,
	}); err != nil {
		return err
	}
	return p.Check()
}

func reading(open func(string) (io.ReadCloser, error), name string, read func(io.Reader) error) error {
	r, err := open(name)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := read(r); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// readNodes adds a group for each run of alike nodes that have GPUs.
func readNodes(r io.Reader, priced map[string]Group, groups []Group) ([]Group, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	for i, row := range rows {
		if i == 0 || len(row) < 5 {
			continue
		}
		gpus, err := strconv.Atoi(row[3])
		if err != nil {
			return nil, fmt.Errorf("line %d: gpu: %w", i+1, err)
		}
		if gpus == 0 {
			continue
		}
		model := row[4]
		g, ok := priced[model]
		if !ok {
			return nil, fmt.Errorf("line %d: the model %q has no price: add it to models", i+1, model)
		}
		if n := len(groups); n > 0 && groups[n-1].Model == model && groups[n-1].GPUs == gpus && groups[n-1].Churn == nil {
			groups[n-1].Count++
			continue
		}
		g.Name, g.Count, g.GPUs = fmt.Sprintf("%s-%d", model, i), 1, gpus
		groups = append(groups, g)
	}
	return groups, nil
}

// maxHosts bounds a fleet, so that a number with a mistake in it is refused rather
// than simulated for days.
const maxHosts = 100_000

// Check reports the first thing that is wrong with f.
func (f Fleet) Check() error {
	if !f.Currency.Valid() {
		return fmt.Errorf("currency %q: want USD or CNY", f.Currency)
	}
	if len(f.Groups) == 0 {
		return fmt.Errorf("no hosts: want at least one group")
	}
	hosts, models := 0, map[string]bool{}
	for _, g := range f.Groups {
		switch {
		case g.Model == "":
			return fmt.Errorf("hosts %s: want a gpu_model", g.Name)
		case g.GPUs < 1 || g.GPUs > 1024:
			return fmt.Errorf("hosts %s: %d GPUs: want 1 to 1024", g.Name, g.GPUs)
		case g.Price <= 0:
			return fmt.Errorf("hosts %s: a price of %s: want more than 0", g.Name, g.Price.Display())
		case g.Churn == nil && g.Count < 1:
			return fmt.Errorf("hosts %s: a count of %d: want at least 1", g.Name, g.Count)
		}
		hosts += g.Count
		models[g.Model] = true
	}
	if hosts > maxHosts {
		return fmt.Errorf("%d hosts: want at most %d", hosts, maxHosts)
	}
	for _, o := range f.Others {
		if !models[o.Model] || len(o.Prices) == 0 {
			return fmt.Errorf("others who bid for %q: want a model of the fleet, and prices", o.Model)
		}
	}
	for _, d := range f.Demand {
		switch {
		case d.Count < 1 || d.Count > 1_000_000 || d.GPUs < 1 || d.GPUs > maxJobGPUs || d.Every < 0 || d.Run < 0:
			return fmt.Errorf("demand for %d × %d GPUs: want 1 to 1000000 jobs of 1 to %d GPUs", d.Count, d.GPUs, maxJobGPUs)
		case d.Model != "" && !models[d.Model]:
			return fmt.Errorf("demand for %q: the fleet has none", d.Model)
		case d.Plan != "" && d.Plan != pricing.OnDemand && d.Plan != pricing.Spot:
			return fmt.Errorf("demand of plan %q: want %s or %s", d.Plan, pricing.OnDemand, pricing.Spot)
		}
	}
	return nil
}

// jobs are the fleet's own demand from a moment on.
func (f Fleet) jobs(start time.Time) []Job {
	var out []Job
	for i, d := range f.Demand {
		for n := range d.Count {
			j := Job{ID: fmt.Sprintf("demand-%d-%d", i+1, n+1), Submitted: start.Add(time.Duration(n) * d.Every), Run: d.Run, GPUs: d.GPUs, Plan: d.Plan, Bid: d.Bid}
			if d.Model != "" {
				j.Models = []string{d.Model}
			}
			out = append(out, j)
		}
	}
	return out
}

// draw decides what a job leaves open: its plan, and what it bids as a part of the
// price on demand. It draws as often whatever the policy is, so that a change of
// policy changes nothing else.
func (p Policy) draw(r *rand.Rand, j *Job) (bidShare int) {
	const whole = 1_000_000
	spot := r.IntN(10_000) < p.SpotShare
	share := p.BidFrom + r.IntN(whole)*(p.BidTo-p.BidFrom+1)/whole
	if j.Plan == "" {
		j.Plan = pricing.OnDemand
		if spot {
			j.Plan = pricing.Spot
		}
	}
	return share
}
