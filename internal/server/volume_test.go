package server

import (
	"testing"

	"suanli.dev/api"
)

func TestVolumeDiscountsAreSetByOperatorsAndReadByAll(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	set, err := w.operator.client.SetVolumeTiers(ctx, api.SetVolumeTiers{Currency: "USD", Tiers: []api.VolumeTier{{From: 100_000_000, BasisPoints: 500}, {From: 500_000_000, BasisPoints: 1000}}})
	if err != nil {
		t.Fatal(err)
	}
	list, err := w.ada.client.VolumeTiers(ctx)
	if err != nil || len(list) != 1 || list[0].ID != set.ID || len(list[0].Tiers) != 2 || list[0].Tiers[1].BasisPoints != 1000 {
		t.Errorf("%+v, %v", list, err)
	}
	w.send("POST", "/v1/operator/volume-discounts", w.ada.token, `{"currency":"USD","tiers":[]}`).want(t, 403, "forbidden")
	w.send("POST", "/v1/operator/volume-discounts", w.operator.token, `{"currency":"USD","tiers":[{"from":"5","basis_points":1},{"from":"5","basis_points":2}]}`).want(t, 422, "invalid_tiers")
}
