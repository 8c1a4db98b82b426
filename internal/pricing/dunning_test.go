package pricing

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"suanli.dev/internal/money"
)

// names of steps in order.
func names(steps []DunningStep) (out []string) {
	for _, s := range steps {
		out = append(out, s.Name)
	}
	return out
}

func utc(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v.UTC()
}

func TestDueDaysAreDaysOfTheAccountsCalendar(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		issued, zone string
		net          int
		from, until  string
	}{
		{"2026-03-01T01:00:00Z", "UTC", 14, "2026-03-15T00:00:00Z", "2026-03-16T00:00:00Z"},
		{"2026-01-31T23:30:00Z", "Asia/Shanghai", 0, "2026-01-31T16:00:00Z", "2026-02-01T16:00:00Z"},  // it is 1 February there
		{"2026-03-15T12:00:00Z", "Europe/Berlin", 14, "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"}, // the day has 23 hours
		{"2026-10-11T12:00:00Z", "Europe/Berlin", 14, "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z"}, // and this one 25
		{"2028-01-30T12:00:00Z", "UTC", 30, "2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"},
		{"2026-12-31T12:00:00Z", "UTC", 1, "2027-01-01T00:00:00Z", "2027-01-02T00:00:00Z"},
		{"2026-09-04T12:00:00Z", "America/Santiago", 2, "2026-09-06T04:00:00Z", "2026-09-07T03:00:00Z"}, // the day has no midnight
		{"2011-12-29T12:00:00Z", "Pacific/Apia", 1, "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z"},     // there was no such day
	} {
		from, until, err := DueDay(utc(t, c.issued), c.net, c.zone)
		if err != nil || !from.Equal(utc(t, c.from)) || !until.Equal(utc(t, c.until)) {
			t.Errorf("issued at %s, net %d in %s: due from %s until %s, %v; want %s and %s", c.issued, c.net, c.zone, from, until, err, c.from, c.until)
		}
	}
	if _, _, err := DueDay(time.Now(), 1, "Mars/Olympus"); err == nil {
		t.Error("a zone that there is not has a calendar")
	}
}

func TestTheScheduleFollowsTheCalendar(t *testing.T) {
	t.Parallel()
	from, _, err := DueDay(utc(t, "2026-03-13T12:00:00Z"), 14, "Europe/Berlin") // 27 March, two days before the clocks change
	if err != nil {
		t.Fatal(err)
	}
	steps, err := StandardDunning().Steps(from, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"day-3", "day+0", "day+1", "day+7", "stop_notice", "stop"}
	if got := names(steps); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for i, at := range []string{"2026-03-23T23:00:00Z", "2026-03-26T23:00:00Z", "2026-03-27T23:00:00Z", "2026-04-02T22:00:00Z", "2026-04-06T22:00:00Z", "2026-04-09T22:00:00Z"} {
		if !steps[i].At.Equal(utc(t, at)) {
			t.Errorf("%s is at %s, want %s", steps[i].Name, steps[i].At, at)
		}
	}
}

func TestWhoWasNotToldIsNotStopped(t *testing.T) {
	t.Parallel()
	d := StandardDunning()
	from := utc(t, "2026-03-10T00:00:00Z")
	steps, err := d.Steps(from, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	// Nobody looked for a year: one reminder, and the notice. The stop waits.
	now := from.AddDate(1, 0, 0)
	p := d.Next(steps, nil, now)
	if got := names(p.Do); !slices.Equal(got, []string{"day+7", "stop_notice"}) || len(p.Missed) != 3 || !p.StopAt.Equal(now.Add(d.StopNotice)) || !p.Next.Equal(p.StopAt) {
		t.Errorf("%+v", p)
	}
	done := map[string]time.Time{"day-3": now, "day+0": now, "day+1": now, "day+7": now, "stop_notice": now}
	if p := d.Next(steps, done, now.Add(d.StopNotice-1)); len(p.Do) != 0 || len(p.Missed) != 0 {
		t.Errorf("%+v", p)
	}
	if p := d.Next(steps, done, now.Add(d.StopNotice)); !slices.Equal(names(p.Do), []string{"stop"}) {
		t.Errorf("%+v", p)
	}
	if at := d.DeletionAt(from, now); !at.Equal(now.Add(d.DeleteNotice)) {
		t.Errorf("disks are deleted at %s, announced at %s", at, now)
	}
	if at := d.DeletionAt(from, from); !at.Equal(from.Add(d.Grace)) {
		t.Errorf("disks are deleted at %s", at)
	}
	// A rule without notice still has its notice come first.
	d.StopNotice = 0
	if p := d.Next(steps, nil, now); !slices.Equal(names(p.Do), []string{"day+7", "stop_notice"}) {
		t.Errorf("%+v", p)
	}
}

// Clocks jump to and fro, and looks come whenever: each step is done once at most,
// none before its time by the clock of that moment, the stop only after its notice.
func TestNoMomentMakesAStepHappenTwiceOrUnannounced(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := Dunning{StopDays: rapid.IntRange(0, 30).Draw(t, "stop"), StopNotice: time.Duration(rapid.IntRange(0, 200).Draw(t, "notice h")) * time.Hour}
		last := -30
		for range rapid.IntRange(0, 6).Draw(t, "reminders") {
			last += rapid.IntRange(1, 12).Draw(t, "day")
			d.ReminderDays = append(d.ReminderDays, last)
		}
		if err := d.Check(); err != nil {
			t.Fatal(err)
		}
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/New_York", "Asia/Shanghai", "Australia/Lord_Howe"}).Draw(t, "zone")
		issued := time.Date(2026, time.Month(rapid.IntRange(1, 12).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "issued"), 0, 30, 0, 0, time.UTC)
		from, _, err := DueDay(issued, rapid.IntRange(0, 60).Draw(t, "net"), zone)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := d.Steps(from, zone)
		if err != nil {
			t.Fatal(err)
		}
		done := map[string]time.Time{}
		now := issued
		for range 40 {
			now = now.Add(time.Duration(rapid.IntRange(-100, 400).Draw(t, "jump h")) * time.Hour)
			p := d.Next(steps, done, now)
			reminders := 0
			for _, s := range slices.Concat(p.Missed, p.Do) {
				if _, twice := done[s.Name]; twice || now.Before(s.At) {
					t.Fatalf("%s again, or at %s before %s", s.Name, now, s.At)
				}
				if given, ok := done["stop_notice"]; s.Act == ActStop && (!ok || now.Before(given.Add(d.StopNotice))) {
					t.Fatalf("stopped at %s, with notice given at %s", now, given)
				}
			}
			for _, s := range p.Do {
				if s.Act == ActRemind {
					reminders++
				}
			}
			if reminders > 1 {
				t.Fatalf("%d reminders at once", reminders)
			}
			for _, s := range slices.Concat(p.Missed, p.Do) {
				done[s.Name] = now
			}
			if again := d.Next(steps, done, now); len(again.Do)+len(again.Missed) > 0 && again.Do[0].Act != ActStop {
				t.Fatalf("asked again it says %+v", again)
			}
		}
		// In the end all of it has happened.
		for range 3 {
			now = latestOf(now, from).AddDate(2, 0, 0)
			for p := d.Next(steps, done, now); len(p.Do)+len(p.Missed) > 0; p = d.Next(steps, done, now) {
				for _, s := range slices.Concat(p.Missed, p.Do) {
					done[s.Name] = now
				}
			}
		}
		if len(done) != len(steps) {
			t.Fatalf("of %v only %v happened", names(steps), done)
		}
	})
}

func TestMoneyPaysTheOldestInvoiceFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		invoices []money.Amount
		balance  money.Amount
		want     []money.Amount
	}{
		{[]money.Amount{10, 20, 30}, 0, []money.Amount{0, 0, 0}},
		{[]money.Amount{10, 20, 30}, -60, []money.Amount{10, 20, 30}},
		{[]money.Amount{10, 20, 30}, -59, []money.Amount{9, 20, 30}},
		{[]money.Amount{10, 20, 30}, -30, []money.Amount{0, 0, 30}},
		{[]money.Amount{10, 20, 30}, -5, []money.Amount{0, 0, 5}},
		{[]money.Amount{10, -20, 30}, -25, []money.Amount{0, 0, 25}},
		{[]money.Amount{10}, -25, []money.Amount{10}},
		{nil, -25, []money.Amount{}},
	} {
		if got := Owed(c.invoices, c.balance); !slices.Equal(got, c.want) {
			t.Errorf("of %v with a balance of %d, %v is owed; want %v", c.invoices, c.balance, got, c.want)
		}
	}
}

// Whatever is paid, credited and written off, and however days pass, each change
// of what is derived is one that the table has.
func TestWhatIsDerivedFollowsTheTable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		issued := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		from, until, err := DueDay(issued, rapid.IntRange(0, 3).Draw(t, "net"), "UTC")
		if err != nil {
			t.Fatal(err)
		}
		s := Standing{Total: 10, Owed: 10, DueFrom: from, DueAt: until}
		now := issued
		for range 20 {
			before := StateOf(s, now)
			var e InvoiceEvent
			switch rapid.SampledFrom([]string{"day", "pay", "credit", "off"}).Draw(t, "what") {
			case "day":
				now = now.AddDate(0, 0, 1)
				if e = DueDayCame; !now.Before(until) {
					e = DueDayOver
				}
			case "pay":
				if s.WrittenOff == 0 {
					s.Owed = max(0, s.Owed-money.Amount(rapid.IntRange(1, 10).Draw(t, "paid")))
				}
				e = PaidInFull
			case "credit":
				s.Credited = min(s.Total, s.Credited+money.Amount(rapid.IntRange(1, 10).Draw(t, "credited")))
				s.Owed = min(s.Owed, s.Total-s.Credited)
				if e = PaidInFull; s.Credited == s.Total {
					e = CreditedAll
				}
			case "off":
				if before == InvoiceOverdue {
					s.WrittenOff, s.Owed = s.Owed, 0
				}
				e = WrittenOff
			}
			after := StateOf(s, now)
			if after == before {
				continue
			}
			if want, ok := before.Next(e); !ok || want != after {
				t.Fatalf("from %s by %s to %s, and the table says %s, %v", before, e, after, want, ok)
			}
		}
	})
}
