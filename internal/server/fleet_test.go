package server

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/catalog"
	"suanli.dev/internal/fleet"
	"suanli.dev/internal/pricing"
	"suanli.dev/internal/protocol"
)

func init() {
	parts = append(parts, func(w *world, cfg *Config) {
		facts, err := catalog.Load("")
		if err != nil {
			w.t.Fatal(err)
		}
		defaults := fleet.StandardDefaults()
		defaults.ReserveBounds = pricing.Bounds{MaxMonths: 12, MaxBasisPoints: 6000}
		s, err := fleet.New(fleet.Config{
			DB: w.db, Catalog: facts, Clock: w.clock.Now, Elapsed: func() time.Duration { return w.clock.Now().Sub(time.Unix(0, 0)) },
			AllowSimulated: true, Defaults: defaults, Audit: w.accounts.Audit,
		})
		if err == nil {
			err = s.Migrate(w.t.Context())
		}
		if err != nil {
			w.t.Fatal(err)
		}
		cfg.Catalog, cfg.Fleet = facts, s
	})
	belongings["host_id"] = func(w *world, p person) string { return w.newHost(p, 2) }
}

// newHost is a host of p's with n free RTX 4090, on the market.
func (w *world) newHost(p person, n int) string {
	w.t.Helper()
	ctx := w.t.Context()
	token, _, err := w.server.Fleet.CreateJoinToken(ctx, p.principal(), fleet.JoinToken{})
	if err != nil {
		w.t.Fatal(err)
	}
	letters := strings.NewReplacer("0", "A", "1", "B", "2", "C", "3", "D", "4", "E", "5", "F", "6", "G", "7", "H", "8", "I", "9", "J").Replace(fmt.Sprintf("%055d", w.serial()))
	r, err := w.server.Fleet.Enrol(ctx, protocol.EnrolRequest{Token: token, CSR: "csr", BusKey: "U" + letters, Name: "box", Version: protocol.Version},
		func(_, hostID string) (string, error) { return hostID, nil })
	if err != nil {
		w.t.Fatal(err)
	}
	inv := &protocol.Inventory{CPUs: 16, MemoryMiB: 65536, DiskMiB: 1 << 20, Architecture: "amd64", Runtime: "docker 20.10.24"}
	for i := range n {
		inv.GPUs = append(inv.GPUs, protocol.GPU{
			UUID: fmt.Sprintf("GPU-%s-%d", r.HostID, i), Index: i, Vendor: protocol.NVIDIA, Name: "NVIDIA GeForce RTX 4090", VRAMMiB: 24564,
			Driver: "550.54.15", Health: protocol.Health{State: protocol.Healthy},
		})
	}
	now := protocol.Instant{BootID: "b", Nanos: 1000}
	inv.SelfTest = protocol.SelfTest{RanAt: now, Passed: true}
	if _, err := w.server.Fleet.Report(ctx, r.HostID, protocol.Report{Session: "s", Seq: 1, Now: now, Ready: true, Inventory: inv}, w.clock.Now()); err != nil {
		w.t.Fatal(err)
	}
	return r.HostID
}

func TestSearchAnswersWithOffersAndAMistakeWithItsPosition(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	host := w.newHost(w.ada, 2)
	c := w.eve.client // the market is everybody's
	got, err := c.Offers(t.Context(), api.OfferQuery{Where: `gpu = "rtx 4090" and count = 2`, DiskGiB: 100})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 1 || got.Items[0].HostID != host || got.Items[0].Price.PerHour.String() != "0.793441" || got.Items[0].MaxCUDA != "12.4" {
		t.Fatalf("found %+v", got.Items)
	}
	one, err := c.Offer(t.Context(), got.Items[0].ID, 100)
	if err != nil || one.Price.PerHour != got.Items[0].Price.PerHour {
		t.Errorf("the offer by its ID: %+v, %v", one, err)
	}
	first, err := c.Offers(t.Context(), api.OfferQuery{Limit: 1})
	if err != nil || len(first.Items) != 1 || first.NextCursor == "" {
		t.Fatalf("first page %+v, %v", first, err)
	}
	second, err := c.Offers(t.Context(), api.OfferQuery{Limit: 1, Cursor: first.NextCursor})
	if err != nil || len(second.Items) != 1 || second.NextCursor != "" || second.Items[0].ID == first.Items[0].ID {
		t.Errorf("second page %+v, %v", second, err)
	}
	_, err = c.Offers(t.Context(), api.OfferQuery{Where: `gpu_count >= 2 and pric_per_hour < 1`})
	var problem *api.Error
	if !errors.As(err, &problem) || problem.Status != 422 || problem.Code != "bad_expression" || problem.Position != 20 || problem.Location != "query.where" {
		t.Errorf("a mistake is answered %+v", problem)
	}
	fields, err := c.OfferFields(t.Context())
	if err != nil || len(fields) < 30 {
		t.Errorf("%d fields, %v", len(fields), err)
	}
	for _, query := range []string{"limit=0", "limit=-1", "limit=501", "limit=x", "disk_gib=-1", "disk_gib=99999999999999999999", "cursor=x", "sort=region", "where=" + url.QueryEscape("(")} {
		if r := w.send("GET", "/v1/offers?"+query, w.eve.token, nil); r.Status != 422 || r.code() == "" {
			t.Errorf("%s: %d %s", query, r.Status, r.Body)
		}
	}
	w.send("GET", "/v1/offers/"+host+".rtx-4090.7", w.eve.token, nil).want(t, 410, "offer_gone")
	w.send("GET", "/v1/offers/nonsense", w.eve.token, nil).want(t, 404, "offer_not_found")
}

func TestProviderRunsItsHostsAndNobodyElsesOnes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	host := w.newHost(w.ada, 2)
	ctx, c := t.Context(), w.ada.client
	token, err := c.CreateJoinToken(ctx, api.CreateJoinToken{Name: "second"})
	if err != nil || token.Token == "" || !token.ExpiresAt.Equal(w.clock.Now().Add(time.Hour)) {
		t.Fatalf("join token %+v, %v", token, err)
	}
	price := api.Rate(500_000_000)
	h, err := c.UpdateListing(ctx, host, api.UpdateListing{PerGPUHour: map[string]api.Rate{"RTX 4090": price}})
	if err != nil || h.Listing.PerGPUHour["RTX 4090"] != price || h.State != "listed" || h.Free.GPUs != 2 {
		t.Fatalf("host %+v, %v", h, err)
	}
	offers := func() int {
		found, err := c.Offers(ctx, api.OfferQuery{})
		if err != nil {
			t.Fatal(err)
		}
		return len(found.Items)
	}
	for _, step := range []struct {
		what  string
		do    func() (*api.Host, error)
		state string
		n     int
	}{
		{"unlist", func() (*api.Host, error) { return c.UnlistHost(ctx, host) }, "unlisted", 0},
		{"list", func() (*api.Host, error) { return c.ListHost(ctx, host) }, "listed", 2},
		{"drain", func() (*api.Host, error) { return c.DrainHost(ctx, host) }, "draining", 0},
		{"undrain", func() (*api.Host, error) { return c.UndrainHost(ctx, host) }, "listed", 2},
		{"maintenance", func() (*api.Host, error) {
			return c.SetMaintenance(ctx, host, api.SetMaintenance{Until: ptr(w.clock.Now().Add(time.Hour))})
		}, "maintenance", 0},
		{"end of maintenance", func() (*api.Host, error) { return c.CancelMaintenance(ctx, host) }, "listed", 2},
	} {
		h, err := step.do()
		if err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if h.State != step.state || offers() != step.n {
			t.Errorf("after %s the host is %s with %d offers, want %s with %d", step.what, h.State, offers(), step.state, step.n)
		}
	}
	for name, body := range map[string]string{
		"negative price": `{"per_gpu_hour":{"RTX 4090":"-1"}}`, "huge price": `{"storage_per_gib_month":"9000000000"}`, "no price": `{"egress_per_gb":"free"}`,
		"price that is a float": `{"per_cpu_hour":0.1}`, "negative minimum": `{"min_gpus":-1}`, "past end": `{"ends_at":"2001-01-01T00:00:00Z"}`, "unknown field": `{"prize":"1"}`,
	} {
		if r := w.send("PATCH", "/v1/hosts/"+host+"/listing", w.ada.token, body); r.Status != 422 {
			t.Errorf("%s: %d %s", name, r.Status, r.Body)
		}
	}
	for _, body := range []string{`{}`, `{"from":"2030-01-02T00:00:00Z","until":"2030-01-01T00:00:00Z"}`, `{"until":"2050-01-01T00:00:00Z"}`} {
		w.send("PUT", "/v1/hosts/"+host+"/maintenance", w.ada.token, body).want(t, 422, "bad_window")
	}
	if mine, err := w.eve.client.Hosts(ctx); err != nil || len(mine) != 0 {
		t.Errorf("another account lists %d hosts, %v", len(mine), err)
	}
	if all, err := w.operator.client.Hosts(ctx); err != nil || len(all) != 1 {
		t.Errorf("an operator lists %d hosts, %v", len(all), err)
	}
	if providers, err := w.eve.client.Providers(ctx); err != nil || len(providers) != 1 || providers[0].GPUs != 2 {
		t.Errorf("providers %+v, %v", providers, err)
	}
	if err := c.RemoveHost(ctx, host); err != nil {
		t.Fatal(err)
	}
	w.send("GET", "/v1/hosts/"+host, w.ada.token, nil).want(t, 404, "host_not_found")
	viewer := w.newUser(w.ada, "viewer@example.com", account.Viewer)
	w.send("POST", "/v1/hosts/join-tokens", viewer.token, "{}").want(t, 403, "forbidden")
}

func TestCatalogIsReadThroughTheAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, c := t.Context(), w.ada.client
	models, err := c.GPUModels(ctx)
	if err != nil || len(models) < 90 {
		t.Fatalf("%d models, %v", len(models), err)
	}
	templates, err := c.Templates(ctx)
	if err != nil || len(templates) < 5 {
		t.Fatalf("%d templates, %v", len(templates), err)
	}
	one, err := c.Template(ctx, "digits")
	if err != nil || one.Image != "cloud://digits:1" {
		t.Errorf("template %+v, %v", one, err)
	}
	w.send("GET", "/v1/templates/none", w.ada.token, nil).want(t, 404, "template_not_found")
	if regions, err := c.Regions(ctx); err != nil || len(regions) == 0 {
		t.Errorf("regions %v, %v", regions, err)
	}
	if releases, err := c.CUDAReleases(ctx); err != nil || len(releases) == 0 {
		t.Errorf("releases %v, %v", releases, err)
	}
}
