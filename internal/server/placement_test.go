package server

import (
	"slices"
	"testing"

	"suanli.dev/api"
)

func TestAnExplanationShowsReasonsToRentersAndHostsToOperators(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	host := w.newHost(w.ada, 2)
	got, err := w.eve.client.ExplainPlacement(t.Context(), api.PlacementQuery{GPUModel: "RTX 4090", GPUs: 4})
	if err != nil {
		t.Fatal(err)
	}
	if got.Fits || got.Hosts != 1 || got.Suitable != 0 || len(got.Refused) != 1 || len(got.Changes) != 1 {
		t.Fatalf("explained %+v", got)
	}
	if r := got.Refused[0]; r.Reason != "gpu" || r.Hosts != 1 || r.Wanted != 4 || r.Most != 2 || r.HostIDs != nil {
		t.Errorf("refused for %+v", r)
	}
	if c := got.Changes[0]; c.Field != "gpu" || c.From != 4 || c.To != 2 {
		t.Errorf("it would fit with %+v", c)
	}
	got, err = w.eve.client.ExplainPlacement(t.Context(), api.PlacementQuery{GPUs: 2})
	if err != nil || !got.Fits || got.On != nil || len(got.Changes) != 0 {
		t.Errorf("two fit: %+v, %v", got, err)
	}
	if got, err = w.eve.client.ExplainPlacement(t.Context(), api.PlacementQuery{GPUs: 1, Simulated: true}); err != nil || got.Fits || got.Hosts != 0 {
		t.Errorf("of simulated GPUs there are none: %+v, %v", got, err)
	}
	if got, err = w.operator.client.ExplainPlacement(t.Context(), api.PlacementQuery{GPUs: 1}); err != nil || !slices.Equal(got.On, []string{host}) {
		t.Errorf("the operator sees %+v, %v; want host %s", got, err, host)
	}
	if got, err = w.operator.client.ExplainPlacement(t.Context(), api.PlacementQuery{GPUs: 3}); err != nil || !slices.Equal(got.Refused[0].HostIDs, []string{host}) {
		t.Errorf("the operator sees %+v, %v; want host %s", got, err, host)
	}
	for _, query := range []string{"nodes=0", "gpus=-1", "gpus=65", "within=street", "cpu_millis=x", "where=there"} {
		if r := w.send("GET", "/v1/placement/explanation?"+query, w.eve.token, nil); r.Status != 422 || r.code() == "" {
			t.Errorf("%s: %d %s", query, r.Status, r.Body)
		}
	}
	if r := w.send("GET", "/v1/placement/explanation", "", nil); r.Status != 401 {
		t.Errorf("without credentials: %d", r.Status)
	}
}
