package lease

import (
	"fmt"
	"math"
	"strings"
	"suanli.dev/internal/money"
	"testing"
	"time"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
)

// wantAt fails unless err is a fault with a location.
func wantAt(t *testing.T, name string, err error, location string) {
	t.Helper()
	f, ok := fault.As(err)
	if !ok || f.Kind != fault.Invalid || f.Location != location || f.Message == "" {
		t.Errorf("%s: got %v (%+v), want an Invalid fault at %s", name, err, f, location)
	}
}

func many(n int) map[string]string {
	m := map[string]string{}
	for i := range n {
		m[fmt.Sprintf("k%d", i)] = "v"
	}
	return m
}

func TestEveryFieldOfALeaseIsChecked(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)
	ports := make([]int, 33)
	for i := range ports {
		ports[i] = i + 1
	}
	for name, c := range map[string]struct {
		create   Create
		location string
	}{
		"upper case name":        {Create{Name: "Mine"}, "body.name"},
		"name of 64":             {Create{Name: strings.Repeat("a", 64)}, "body.name"},
		"name with a newline":    {Create{Name: "a\nb"}, "body.name"},
		"name that ends in -":    {Create{Name: "a-"}, "body.name"},
		"empty label key":        {Create{Labels: map[string]string{"": "x"}}, "body.labels"},
		"label key of 64":        {Create{Labels: map[string]string{strings.Repeat("a", 64): "x"}}, "body.labels"},
		"label of 257":           {Create{Labels: map[string]string{"k": strings.Repeat("量", 257)}}, "body.labels.k"},
		"label that is no text":  {Create{Labels: map[string]string{"k": "\xff"}}, "body.labels.k"},
		"33 labels":              {Create{Labels: many(33)}, "body.labels"},
		"script of 65 KiB":       {Create{StartScript: strings.Repeat("a", 65<<10)}, "body.start_script"},
		"signal of no notice":    {Create{NoticeSignal: "SIGKILL"}, "body.notice_signal"},
		"notice command of 5 KB": {Create{NoticeCommand: strings.Repeat("a", 5000)}, "body.notice_command"},
		"script with NUL":        {Create{StartScript: "a\x00"}, "body.start_script"},
		"257 variables":          {Create{Environment: many(257)}, "body.environment"},
		"variable with =":        {Create{Environment: map[string]string{"A=B": ""}}, "body.environment"},
		"empty variable":         {Create{Environment: map[string]string{"": "x"}}, "body.environment"},
		"reserved variable":      {Create{Environment: map[string]string{"nvidia_visible_devices": "all"}}, "body.environment.nvidia_visible_devices"},
		"variable with NUL":      {Create{Environment: map[string]string{"A": "\x00"}}, "body.environment.A"},
		"129 KiB of variables":   {Create{Environment: map[string]string{"A": strings.Repeat("x", 129<<10)}}, "body.environment"},
		"port 0":                 {Create{Ports: []int{0}}, "body.ports"},
		"negative port":          {Create{Ports: []int{-1}}, "body.ports"},
		"port 65536":             {Create{Ports: []int{65536}}, "body.ports"},
		"huge port":              {Create{Ports: []int{math.MaxInt}}, "body.ports"},
		"port twice":             {Create{Ports: []int{80, 80}}, "body.ports"},
		"port of the SSH":        {Create{Ports: []int{2222}}, "body.ports"},
		"33 ports":               {Create{Ports: ports}, "body.ports"},
		"argument with NUL":      {Create{Command: []string{"\x00"}}, "body.command"},
		"huge argument":          {Create{Entrypoint: []string{strings.Repeat("a", 65<<10)}}, "body.entrypoint"},
		"1025 arguments":         {Create{Command: make([]string, 1025)}, "body.command"},
		"deadline now":           {Create{Deadline: now}, "body.stop_at"},
		"deadline before":        {Create{Deadline: now.Add(-time.Second)}, "body.stop_at"},
		"deadline in 9999":       {Create{Deadline: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}, "body.stop_at"},
		"idle of a second":       {Create{Idle: &IdleStop{After: time.Second}}, "body.idle_stop.after_seconds"},
		"negative idle":          {Create{Idle: &IdleStop{After: -time.Minute}}, "body.idle_stop.after_seconds"},
		"idle of a century":      {Create{Idle: &IdleStop{After: math.MaxInt64}}, "body.idle_stop.after_seconds"},
		"idle GPU -1":            {Create{Idle: &IdleStop{After: time.Hour, GPUPercent: -1}}, "body.idle_stop"},
		"idle CPU 101":           {Create{Idle: &IdleStop{After: time.Hour, CPUPercent: 101}}, "body.idle_stop"},
		"idle never, GPU -1":     {Create{Idle: &IdleStop{GPUPercent: -1}}, "body.idle_stop"},
		"cap of nothing":         {Create{SpendingCap: new(money.Amount(0))}, "body.spending_cap"},
		"name like an id":        {Create{Name: "ls-06h2py4d7nyjvchxh5rxkn6xw8"}, "body.name"},
		"name like a lease":      {Create{Name: "ls-mine"}, "body.name"},
		"name like a host":       {Create{Name: "ho-06h2py4d7n"}, "body.name"},
		"negative cap":           {Create{SpendingCap: new(money.Amount(-1))}, "body.spending_cap"},
		"most negative cap":      {Create{SpendingCap: new(money.Amount(math.MinInt64))}, "body.spending_cap"},
	} {
		wantAt(t, name, c.create.validate(now), c.location)
	}
	full := Create{
		Name: "a-1", Labels: map[string]string{"team/x": "视觉"}, StartScript: "echo", Environment: map[string]string{"_A1": "x=y\n"}, Ports: []int{1, 65535},
		Command: []string{"sh", "-c", ""}, Deadline: now.Add(366 * 24 * time.Hour), Idle: &IdleStop{After: time.Minute, GPUPercent: 100}, SpendingCap: new(money.Amount(math.MaxInt64)),
	}
	if err := full.validate(now); err != nil {
		t.Errorf("what is at the limits is refused: %v", err)
	}
	if err := (&Create{}).validate(now); err != nil {
		t.Errorf("nothing at all is refused: %v", err)
	}
}

func TestEveryFieldOfAQuoteIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.join(1)
	q, err := w.quote(w.ada, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	offer := q.Offer.ID
	for name, c := range map[string]struct {
		request  QuoteRequest
		location string
	}{
		"another plan":       {QuoteRequest{OfferID: offer, Image: "a", Plan: "forever"}, "body.plan"},
		"negative run":       {QuoteRequest{OfferID: offer, Image: "a", RunFor: -1}, "body.run_seconds"},
		"run of a century":   {QuoteRequest{OfferID: offer, Image: "a", RunFor: math.MaxInt64}, "body.run_seconds"},
		"negative egress":    {QuoteRequest{OfferID: offer, Image: "a", EgressBytes: -1}, "body.egress_bytes"},
		"huge egress":        {QuoteRequest{OfferID: offer, Image: "a", EgressBytes: math.MaxInt64}, "body.egress_bytes"},
		"negative disk":      {QuoteRequest{OfferID: offer, Image: "a", DiskGiB: -1}, "body.disk_gib"},
		"huge disk":          {QuoteRequest{OfferID: offer, Image: "a", DiskGiB: math.MaxInt64}, "body.disk_gib"},
		"no image":           {QuoteRequest{OfferID: offer}, "body.image"},
		"image with a space": {QuoteRequest{OfferID: offer, Image: "a b"}, "body.image"},
		"image of 513":       {QuoteRequest{OfferID: offer, Image: strings.Repeat("a", 513)}, "body.image"},
		"image as an option": {QuoteRequest{OfferID: offer, Image: "--privileged"}, "body.image"},
		"another scheme":     {QuoteRequest{OfferID: offer, Image: "file:///etc"}, "body.image"},
		"unknown template":   {QuoteRequest{OfferID: offer, Template: "nope"}, "body.template"},
	} {
		_, err := w.Price(w.ctx, w.ada, c.request, "UTC")
		wantAt(t, name, err, c.location)
	}
	for _, id := range []string{"", "x", "..", offer + "0", offer + ".1", strings.Repeat("9", 300), "a.b.99999999999999999999"} {
		_, err := w.Price(w.ctx, w.ada, QuoteRequest{OfferID: id, Image: "a"}, "UTC")
		if f, ok := fault.As(err); !ok || (f.Kind != fault.NotFound && f.Kind != fault.Gone) {
			t.Errorf("offer %q: %v, want a fault that it is not there", id, err)
		}
	}
	if _, err := w.Price(w.ctx, w.ada, QuoteRequest{OfferID: offer, Image: "a", RunFor: maxRunFor, EgressBytes: 1e18}, "UTC"); err != nil {
		t.Errorf("what is at the limits is refused: %v", err)
	}
	_, err = w.Price(w.ctx, w.ada, QuoteRequest{OfferID: offer, Image: "a", DiskGiB: 5000}, "UTC")
	wantCode(t, err, "disk_too_big")
	for _, id := range []string{"", "x", "qt-1", strings.Repeat("q", 64)} {
		_, err := w.Accept(w.ctx, w.ada, Create{QuoteID: id})
		wantAt(t, "quote "+id, err, "body.quote_id")
	}
	_, err = w.Accept(w.ctx, w.ada, Create{QuoteID: ident.New(ident.Quote)})
	wantCode(t, err, "quote_not_found")
}

func TestWhatATemplateNeedsIsComparedWithTheOffer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.join(1)
	h.set(func() {
		h.inventory = false
		h.gpus[0].MaxCUDA, h.gpus[0].Driver = "11.0", "450.0"
	})
	w.jump(time.Second) // the self-test is another
	w.beat(h)
	q, err := w.quote(w.ada, h, 1)
	if err != nil {
		t.Fatal(err)
	}
	// C26: an image that needs a newer driver is refused before anything is paid.
	_, err = w.Price(w.ctx, w.ada, QuoteRequest{OfferID: q.Offer.ID, Template: "pytorch"}, "UTC")
	wantAt(t, "old driver", err, "body.offer_id")
}

func TestASettingThatIsChangedIsCheckedLikeANewOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	l := w.rent(w.join(1), 1)
	empty, bad, past := "", "UPPER", w.clock().Add(-time.Hour)
	for name, c := range map[string]struct {
		u        Update
		location string
	}{
		"empty name":    {Update{Name: &empty}, "body.name"},
		"bad name":      {Update{Name: &bad}, "body.name"},
		"past deadline": {Update{Deadline: &past}, "body.stop_at"},
		"bad label":     {Update{Labels: map[string]string{"A": ""}}, "body.labels"},
		"idle":          {Update{Idle: &IdleStop{After: 1}}, "body.idle_stop.after_seconds"},
	} {
		_, err := w.Change(w.ctx, w.ada, l.ID, c.u)
		wantAt(t, name, err, c.location)
	}
	name := "fresh"
	got, err := w.Change(w.ctx, w.ada, l.ID, Update{Name: &name, Labels: map[string]string{"a": "b"}, Idle: &IdleStop{After: time.Hour}})
	if err != nil || got.Name != "fresh" || got.Labels["a"] != "b" || got.Idle.After != time.Hour || got.State != Running {
		t.Errorf("changed to %+v, %v", got, err)
	}
	w.End(w.ctx, w.ada, l.ID)
	w.pass(time.Minute)
	_, err = w.Change(w.ctx, w.ada, l.ID, Update{Name: &name})
	wantCode(t, err, "lease_state")
}
