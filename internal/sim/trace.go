package sim

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"suanli.dev/internal/money"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/pricing/auction"
)

// Job is one wish for GPUs on one host.
type Job struct {
	ID        string
	Submitted time.Time
	Run       time.Duration // of work; 0: until the end of the simulation
	GPUs      int
	Models    []string      // that will do; empty: all of the fleet
	Plan      string        // pricing.OnDemand or pricing.Spot; empty: drawn by the policy
	Bid       auction.Price // of spot; 0: drawn by the policy
}

// Trace is demand.
type Trace struct {
	Format string
	Jobs   []Job // by the time of their submission
	// LeftOut counts what the trace has and a simulation has not, by reason.
	LeftOut map[string]int
}

// Formats of traces of jobs.
const (
	Philly = "philly" // timestamp,duration,num_gpus,gpu_time,cluster
	OpenB  = "openb"  // pods of Alibaba's GPU trace v2023
	Leases = "leases" // what suanli sim export writes: a Record a line
)

// epoch is when traces begin that have no date.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// maxJobGPUs bounds what a job asks of one host, as bids are bounded.
const maxJobGPUs = 10_000

// Record is a lease as it is exported from a cloud, and a line of a trace.
type Record struct {
	ID        string     `json:"id"`
	Submitted time.Time  `json:"submitted"`
	Start     *time.Time `json:"start,omitempty"` // first running; left out: never
	End       *time.Time `json:"end,omitempty"`   // left out: still there
	// RanSeconds is how long it ran, stops left out. Where it is missing, it ran
	// from Start to End.
	RanSeconds *int64     `json:"ran_seconds,omitempty"`
	GPUs       int        `json:"gpus"`
	Model      string     `json:"model"`
	Plan       string     `json:"plan"`
	PerHour    money.Rate `json:"price_per_hour"` // of the bundle; of spot: the bid
	Currency   string     `json:"currency,omitempty"`
	Simulated  bool       `json:"simulated"` // the lease was about simulated GPUs
}

// ReadTrace reads jobs in a format, or in the one that their first line looks
// like if format is empty. Input that gzip has compressed is unpacked.
func ReadTrace(r io.Reader, format string) (Trace, error) {
	buffered := bufio.NewReader(r)
	if head, _ := buffered.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return Trace{}, fmt.Errorf("trace: %w", err)
		}
		defer z.Close()
		buffered = bufio.NewReader(z)
	}
	if format == "" {
		head, _ := buffered.Peek(256)
		switch {
		case bytes.HasPrefix(head, []byte("timestamp,duration,")):
			format = Philly
		case bytes.HasPrefix(head, []byte("name,cpu_milli,")):
			format = OpenB
		case bytes.HasPrefix(head, []byte("{")):
			format = Leases
		default:
			first, _, _ := bytes.Cut(head, []byte("\n"))
			return Trace{}, fmt.Errorf("trace: it begins with %.80q: want the first line of a trace of %s, %s or %s", first, Philly, OpenB, Leases)
		}
	}
	t := Trace{Format: format, LeftOut: map[string]int{}}
	var err error
	switch format {
	case Philly:
		err = t.readCSV(buffered, []string{"timestamp", "duration", "num_gpus"}, t.phillyJob)
	case OpenB:
		err = t.readCSV(buffered, []string{"name", "num_gpu"}, t.openbJob)
	case Leases:
		err = t.readRecords(buffered)
	default:
		err = fmt.Errorf("format %q: want %s, %s or %s", format, Philly, OpenB, Leases)
	}
	if err != nil {
		return Trace{}, fmt.Errorf("trace: %w", err)
	}
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return a.Submitted.Compare(b.Submitted) })
	return t, nil
}

// readCSV gives each row to a function, by the names of its columns.
func (t *Trace) readCSV(r io.Reader, need []string, row func(line int, cell func(string) string) error) error {
	c := csv.NewReader(r)
	c.FieldsPerRecord = -1
	c.ReuseRecord = true
	header, err := c.Read()
	if err != nil {
		return fmt.Errorf("header: %w", err)
	}
	at := map[string]int{}
	for i, name := range header {
		at[strings.TrimSpace(name)] = i
	}
	for _, name := range need {
		if _, ok := at[name]; !ok {
			return fmt.Errorf("there is no column %q", name)
		}
	}
	for {
		cells, err := c.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := c.FieldPos(0)
		if err := row(line, func(name string) string {
			if i, ok := at[name]; ok && i < len(cells) {
				return cells[i]
			}
			return ""
		}); err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// add takes a job, or counts why it is left out.
func (t *Trace) add(j Job) error {
	switch {
	case j.GPUs < 0 || j.GPUs > maxJobGPUs:
		return fmt.Errorf("job %s: %d GPUs: want 0 to %d", j.ID, j.GPUs, maxJobGPUs)
	case j.Run < 0:
		return fmt.Errorf("job %s: it runs for %s: want at least 0", j.ID, j.Run)
	case j.GPUs == 0:
		t.LeftOut["no GPU"]++
		return nil
	}
	t.Jobs = append(t.Jobs, j)
	return nil
}

func (t *Trace) phillyJob(line int, cell func(string) string) error {
	at, err := time.Parse(time.DateTime, cell("timestamp"))
	if err != nil {
		return err
	}
	run, err := seconds(cell("duration"))
	if err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	gpus, err := strconv.Atoi(cell("num_gpus"))
	if err != nil {
		return fmt.Errorf("num_gpus: %w", err)
	}
	if run == 0 {
		t.LeftOut["no run time"]++
		return nil
	}
	return t.add(Job{ID: fmt.Sprintf("line-%d", line), Submitted: at, Run: run, GPUs: gpus})
}

// openbJob reads a pod. A file without times is run as its authors run it: one pod
// after the other, and none leaves.
func (t *Trace) openbJob(line int, cell func(string) string) error {
	j := Job{ID: cell("name")}
	var err error
	if j.GPUs, err = strconv.Atoi(cell("num_gpu")); err != nil {
		return fmt.Errorf("num_gpu: %w", err)
	}
	if models := cell("gpu_spec"); models != "" {
		j.Models = strings.Split(models, "|")
	}
	if cell("creation_time") == "" {
		j.Submitted = epoch.Add(time.Duration(line) * time.Second)
		return t.add(j)
	}
	created, err := seconds(cell("creation_time"))
	if err != nil {
		return fmt.Errorf("creation_time: %w", err)
	}
	j.Submitted = epoch.Add(created)
	deleted, err := seconds(cell("deletion_time"))
	if err != nil {
		return fmt.Errorf("deletion_time: %w", err)
	}
	start := created
	if s := cell("scheduled_time"); s != "" {
		if start, err = seconds(s); err != nil {
			return fmt.Errorf("scheduled_time: %w", err)
		}
	}
	if j.Run = deleted - start; j.Run <= 0 {
		t.LeftOut["no run time"]++
		return nil
	}
	return t.add(j)
}

// seconds reads a number of seconds as the traces write them, such as "66.0".
func seconds(s string) (time.Duration, error) {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	const longest = 100 * 366 * 86400
	if math.IsNaN(v) || v < 0 || v > longest {
		return 0, fmt.Errorf("%s seconds: want 0 to %d", s, longest)
	}
	return time.Duration(math.Round(v)) * time.Second, nil
}

func (t *Trace) readRecords(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var rec Record
		if err := json.Unmarshal(lines.Bytes(), &rec); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		j := Job{ID: rec.ID, Submitted: rec.Submitted, GPUs: rec.GPUs, Plan: rec.Plan}
		if rec.Model != "" {
			j.Models = []string{rec.Model}
		}
		switch rec.Plan {
		case pricing.Spot:
			if rec.PerHour > 0 && rec.GPUs > 0 {
				bid, err := auction.PerGPU(rec.PerHour, rec.GPUs)
				if err != nil {
					return fmt.Errorf("line %d: %w", n, err)
				}
				j.Bid = bid
			}
		case "":
		default: // reserved, monthly and trial use need GPUs as leases on demand do
			j.Plan = pricing.OnDemand
		}
		switch {
		case rec.RanSeconds != nil:
			j.Run = time.Duration(*rec.RanSeconds) * time.Second
		case rec.Start != nil && rec.End != nil:
			j.Run = rec.End.Sub(*rec.Start).Truncate(time.Second)
		}
		if rec.Start == nil || j.Run <= 0 && (rec.RanSeconds != nil || rec.End != nil) {
			t.LeftOut["no run time"]++
			continue
		}
		if rec.End == nil {
			j.Run = 0 // it is still there
		}
		if err := t.add(j); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
	}
	return lines.Err()
}

// PricePoint is what others paid per GPU-hour from a moment of a price trace on.
type PricePoint struct {
	At    time.Time
	Price auction.Price
}

// ReadPrices reads a series of an answer of AWS's DescribeSpotPriceHistory, named
// by instance type and zone with a space between, for instances of so many GPUs.
func ReadPrices(r io.Reader, series string, gpus int) ([]PricePoint, error) {
	all, err := ReadAllPrices(r, gpus)
	if err != nil {
		return nil, err
	}
	points, ok := all[series]
	if !ok {
		names := make([]string, 0, len(all))
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		return nil, fmt.Errorf("prices: there is no series %q: want one of %s", series, strings.Join(names, ", "))
	}
	return points, nil
}

// ReadAllPrices is ReadPrices for every series, by its name.
func ReadAllPrices(r io.Reader, gpus int) (map[string][]PricePoint, error) {
	if gpus < 1 {
		return nil, fmt.Errorf("prices of instances with %d GPUs: want at least 1", gpus)
	}
	var in struct {
		SpotPriceHistory []struct {
			AvailabilityZone, InstanceType, SpotPrice string
			Timestamp                                 time.Time
		}
	}
	if err := json.NewDecoder(r).Decode(&in); err != nil {
		return nil, fmt.Errorf("prices: %w", err)
	}
	out := map[string][]PricePoint{}
	for _, p := range in.SpotPriceHistory {
		rate, err := money.ParseRate(p.SpotPrice)
		if err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
		price, err := auction.PerGPU(rate, gpus)
		if err != nil {
			return nil, fmt.Errorf("prices: %w", err)
		}
		name := p.InstanceType + " " + p.AvailabilityZone
		out[name] = append(out[name], PricePoint{p.Timestamp, price})
	}
	for _, points := range out {
		slices.SortStableFunc(points, func(a, b PricePoint) int { return a.At.Compare(b.At) })
	}
	return out, nil
}

// Churn is a host that comes or goes some time into a trace.
type Churn struct {
	After time.Duration
	Add   bool
	Node  string
}

// ReadChurn reads lines of milliseconds, add or remove, and a node's name.
func ReadChurn(r io.Reader) ([]Churn, error) {
	c := csv.NewReader(r)
	c.FieldsPerRecord = 3
	rows, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("churn: %w", err)
	}
	out := make([]Churn, 0, len(rows))
	for i, row := range rows {
		ms, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil || ms < 0 || ms > int64(math.MaxInt64/time.Millisecond) {
			return nil, fmt.Errorf("churn: line %d: %q: want milliseconds since the start", i+1, row[0])
		}
		if row[1] != "add" && row[1] != "remove" {
			return nil, fmt.Errorf("churn: line %d: %q: want add or remove", i+1, row[1])
		}
		out = append(out, Churn{time.Duration(ms) * time.Millisecond, row[1] == "add", row[2]})
	}
	slices.SortStableFunc(out, func(a, b Churn) int { return int(max(-1, min(1, a.After-b.After))) })
	return out, nil
}
