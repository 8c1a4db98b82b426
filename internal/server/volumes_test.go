package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/money"
	"suanli.dev/internal/protocol"
	"suanli.dev/internal/volume"
)

func init() {
	parts = append(parts, withVolumes)
	belongings["volume_id"] = func(w *world, p person) string {
		w.deposit(p, "10")
		return w.keep(p, api.VolumeCreate{SizeGiB: 1}).ID
	}
}

// withVolumes comes after leases, whose file is before this one.
func withVolumes(w *world, c *Config) {
	w.t.Helper()
	var err error
	w.bucket = &bucket{keys: map[string]bool{}}
	c.Volumes, err = volume.New(volume.Config{DB: w.db, Clock: w.clock.Now, Capacity: c.Fleet, Money: c.Billing, Leases: c.Leases, Audit: c.Accounts.Audit,
		TimeZone: func(ctx context.Context, id string) (string, error) {
			a, err := c.Accounts.Account(ctx, id)
			return a.TimeZone, err
		},
		Most:      1000, // the walk through all operations makes many
		Snapshots: volume.SnapshotConfig{Most: 1000, Objects: w.bucket, Price: 30_000_000, Currency: money.USD},
		Command: func(_ context.Context, _ string, cmd protocol.Command) (protocol.CommandResult, error) {
			if cmd.Transfer != nil {
				return onTransfer(), nil
			}
			if r := w.onVolume.Load(); r != nil {
				return *r, nil
			}
			return protocol.CommandResult{Accepted: true}, nil
		}})
	if err == nil {
		err = c.Volumes.Migrate(w.t.Context())
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.volumes = c.Volumes
}

// keep makes a volume of p's on the market's host, which has made it when it returns.
func (w *world) keep(p person, in api.VolumeCreate) api.Volume {
	w.t.Helper()
	in.HostID = w.market().HostID
	r := w.send(http.MethodPost, "/v1/volumes", p.token, in)
	if r.Status != http.StatusCreated {
		// The walk may have ended p's session.
		r = w.send(http.MethodPost, "/v1/volumes", w.newKey(p, account.AllScopes), in)
	}
	r.want(w.t, 201, "")
	w.turnVolumes()
	return decode[api.Volume](w.t, r)
}

func (w *world) turnVolumes() {
	w.t.Helper()
	if err := w.volumes.Turn(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) booksAreRight() {
	w.t.Helper()
	r, err := w.billing.VerifyLedger(w.t.Context())
	if err != nil || !r.OK() {
		w.t.Fatalf("the books are wrong: %v, %+v, %+v", err, r.Faults, r.Wrong)
	}
}

func TestAVolumeIsMadeChargedUsedByLeasesAndRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "1000")
	c, ctx := w.ada.client, t.Context()
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 100})
	if v.State != "creating" || v.SizeGiB != 100 || v.PricePerGiBMonth == 0 || v.PerMonth == 0 || v.ReadyAt != nil {
		t.Errorf("%+v", v)
	}
	got, err := c.Volume(ctx, "data")
	if err != nil || got.State != "available" || got.ReadyAt == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	_, err = c.CreateVolume(ctx, api.VolumeCreate{Name: "data", SizeGiB: 1, HostID: v.HostID})
	wantProblem(t, err, "volume_exists")
	low := v.PricePerGiBMonth - 1
	_, err = c.CreateVolume(ctx, api.VolumeCreate{SizeGiB: 1, HostID: v.HostID, AgreedPerGiBMonth: &low})
	wantProblem(t, err, "price_moved")

	// Two leases have it, of which one may write.
	writer := w.rent(w.ada, func(c *api.LeaseCreate) {
		c.Name, c.Volumes = "writer", []api.VolumeMount{{Volume: "data", Path: "/data"}}
	})
	w.send(http.MethodPost, "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: w.quoteFor(w.ada).ID, Volumes: []api.VolumeMount{{Volume: "data", Path: "/data"}}}).want(t, 409, "volume_in_use")
	w.send(http.MethodPost, "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: w.quoteFor(w.ada).ID, Volumes: []api.VolumeMount{{Volume: "data", Path: "/proc/x", ReadOnly: true}}}).want(t, 422, "invalid_mount_path")
	reader := w.rent(w.ada, func(c *api.LeaseCreate) {
		c.Name, c.Volumes = "reader", []api.VolumeMount{{Volume: v.ID, Path: "/in", ReadOnly: true}}
	})
	mounts, err := w.volumes.Mounts(ctx, reader.ID)
	if err != nil || len(mounts) != 1 || mounts[0] != (protocol.VolumeMount{VolumeID: v.ID, Path: "/in", ReadOnly: true}) {
		t.Errorf("the reader's mounts are %+v, %v", mounts, err)
	}
	_, err = c.DeleteVolume(ctx, "data")
	wantProblem(t, err, "volume_in_use")
	w.hostSays(protocol.InstanceStatus{LeaseID: writer.ID, Generation: 1, Phase: protocol.PhaseRunning})
	_, err = c.DetachVolume(ctx, "data", api.VolumeDetach{LeaseID: "writer"})
	wantProblem(t, err, "volume_mounted")
	_, err = c.DetachVolume(ctx, "data", api.VolumeDetach{LeaseID: "writer", Force: true})
	wantProblem(t, err, "volume_mounted")

	// A stopped lease keeps it until it is detached, and gets it back.
	w.send("POST", "/v1/leases/writer/stop", w.ada.token, nil)
	w.hostSays(protocol.InstanceStatus{LeaseID: writer.ID, Generation: 2, Phase: protocol.PhaseStopped})
	if got, err = c.Volume(ctx, "data"); err != nil || len(got.Attachments) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = c.DetachVolume(ctx, "data", api.VolumeDetach{LeaseID: "writer"}); err != nil || len(got.Attachments) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	for range 2 {
		if got, err = c.AttachVolume(ctx, "data", api.VolumeAttach{LeaseID: "writer", Path: "/again"}); err != nil || len(got.Attachments) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	_, err = c.AttachVolume(ctx, "data", api.VolumeAttach{LeaseID: "writer", Path: "/third"})
	wantProblem(t, err, "volume_attached")

	// It outlives them, and is charged for idle.
	for _, l := range []string{"writer", "reader"} {
		w.send("POST", "/v1/leases/"+l+"/end", w.ada.token, nil)
	}
	w.hostSays(protocol.InstanceStatus{LeaseID: writer.ID, Generation: 3, Phase: protocol.PhaseAbsent}, protocol.InstanceStatus{LeaseID: reader.ID, Generation: 2, Phase: protocol.PhaseAbsent})
	if got, err = c.Volume(ctx, "data"); err != nil || len(got.Attachments) != 0 || got.State != "available" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.clock.Advance(24 * time.Hour)
	bill := func() api.Amount {
		b, err := w.billing.Due(ctx, v.ID, w.clock.Now())
		if err != nil {
			t.Fatal(err)
		}
		return b.Total
	}
	day := bill()
	if b := decode[api.Bill](t, w.send("GET", "/v1/bills/data", w.ada.token, nil)); b.LeaseID != v.ID || b.Total != day {
		t.Errorf("the bill by its name is %+v", b)
	}
	w.send("GET", "/v1/bills/data", w.eve.token, nil).want(t, 404, "lease_not_found")
	if day <= v.PerMonth/32 || day > v.PerMonth/28+1_000_000 {
		t.Errorf("a day came to %s of %s a month", day, v.PerMonth)
	}
	if got, err = c.DeleteVolume(ctx, "data"); err != nil || got.State != "deleting" {
		t.Fatalf("%+v, %v", got, err)
	}
	w.clock.Advance(24 * time.Hour)
	w.turnVolumes()
	if got, err = c.Volume(ctx, v.ID); err != nil || got.State != "deleted" || got.EndedAt == nil {
		t.Fatalf("%+v, %v", got, err)
	}
	if after := bill(); after != day {
		t.Errorf("it came to %s in the end and to %s when it was removed", after, day)
	}
	if _, err = c.Volume(ctx, "data"); err == nil {
		t.Error("a volume that is gone is found by its name")
	}
	w.booksAreRight()
	month := v.CreatedAt.UTC().Format("2006-01")
	export := w.send("GET", "/v1/exports/focus?format=jsonl&period="+month, w.ada.token, nil)
	if export.Status != http.StatusOK || !strings.Contains(export.Body, `"ResourceId":"`+v.ID+`"`) || !strings.Contains(export.Body, `"ResourceName":"data"`) || !strings.Contains(export.Body, `"ResourceType":"Volume"`) {
		t.Errorf("the export says of it: %d %s", export.Status, export.Body)
	}
	charges, err := w.billing.Charges(ctx, w.ada.AccountID, v.ID, "", 100)
	if err != nil || len(charges) == 0 {
		t.Fatalf("%+v, %v", charges, err)
	}
	for _, ch := range charges {
		if e, err := w.billing.Explain(ctx, w.ada.AccountID, ch.ID); err != nil || !e.OK() {
			t.Errorf("charge %s is not explained: %+v, %v", ch.ID, e, err)
		}
	}
}

func TestAVolumeThatItsHostCannotMakeCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	w.onVolume.Store(&protocol.CommandResult{Code: "disk_full", Message: "the host has 1 MiB free"})
	v := w.keep(w.ada, api.VolumeCreate{Name: "big", SizeGiB: 10})
	got, err := w.ada.client.Volume(t.Context(), v.ID)
	if err != nil || got.State != "deleting" || got.Code != "disk_full" || !strings.Contains(got.Message, "1 MiB") {
		t.Fatalf("%+v, %v", got, err)
	}
	// Its host stumbles over what is left, and then does not.
	w.onVolume.Store(&protocol.CommandResult{Code: "not_ready", Message: "starting"})
	if err := w.volumes.Turn(t.Context()); err == nil {
		t.Error("a turn that did not succeed says nothing")
	}
	w.onVolume.Store(nil)
	w.turnVolumes()
	if got, err = w.ada.client.Volume(t.Context(), v.ID); err != nil || got.State != "deleted" || got.Code != "disk_full" {
		t.Errorf("%+v, %v", got, err)
	}
	if b, err := w.billing.Due(t.Context(), v.ID, w.clock.Now()); err != nil || b.Total != 0 {
		t.Errorf("it cost %s, %v", b.Total, err)
	}
	w.booksAreRight()
}

func TestAVolumeOfAnotherAccountIsNotFoundByALease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	w.deposit(w.eve, "100")
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 1})
	w.send(http.MethodPost, "/v1/leases", w.eve.token, api.LeaseCreate{QuoteID: w.quoteFor(w.eve).ID, Volumes: []api.VolumeMount{{Volume: v.ID, Path: "/data"}}}).want(t, 404, "volume_not_found")
	l := w.rent(w.eve)
	w.hostSays(protocol.InstanceStatus{LeaseID: l.ID, Generation: 1, Phase: protocol.PhaseRunning})
	_, err := w.ada.client.AttachVolume(t.Context(), "data", api.VolumeAttach{LeaseID: l.ID, Path: "/data"})
	wantProblem(t, err, "lease_not_found")
}

func TestAVolumeOnAnotherHostIsRefusedWithTheWayToIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 1})
	other := w.newHost(w.operator, 1)
	offers, err := w.ada.client.Offers(t.Context(), api.OfferQuery{Where: "host_id = '" + other + "' and count = 1"})
	if err != nil || len(offers.Items) == 0 {
		t.Fatalf("%+v, %v", offers, err)
	}
	q, err := w.ada.client.CreateQuote(t.Context(), api.QuoteRequest{OfferID: offers.Items[0].ID, Image: "debian:12"})
	if err != nil {
		t.Fatal(err)
	}
	r := w.send(http.MethodPost, "/v1/leases", w.ada.token, api.LeaseCreate{QuoteID: q.ID, Volumes: []api.VolumeMount{{Volume: "data", Path: "/data"}}})
	r.want(t, 409, "volume_elsewhere")
	if !strings.Contains(r.Body, v.HostID) {
		t.Errorf("the refusal does not say where the volume is: %s", r.Body)
	}
}

func TestVolumesOfAHostThatIsGivenUpAreLostAndNotChargedAfterIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deposit(w.ada, "100")
	v := w.keep(w.ada, api.VolumeCreate{Name: "data", SizeGiB: 100})
	w.clock.Advance(time.Hour)
	seen := w.clock.Now()
	w.clock.Advance(23 * time.Hour)
	if err := w.volumes.Abandon(t.Context(), w.operator.principal(), v.HostID, seen); err != nil {
		t.Fatal(err)
	}
	got, err := w.ada.client.Volume(t.Context(), v.ID)
	if err != nil || got.State != "lost" || got.Code != "host_abandoned" {
		t.Fatalf("%+v, %v", got, err)
	}
	if b, err := w.billing.Due(t.Context(), v.ID, w.clock.Now()); err != nil || b.Total == 0 || b.Total > v.PerMonth/(27*24) {
		t.Errorf("an hour came to %s of %s a month, %v", b.Total, v.PerMonth, err)
	}
	w.booksAreRight()
}
