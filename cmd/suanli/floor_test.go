package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"suanli.dev/api"
)

func TestHostsSetSpotFloorsThatAreFixedOrFollowTheMarket(t *testing.T) {
	t.Parallel()
	for flags, want := range map[string]string{
		`--gpu-model m --spot-floor 0.12`:                          `{"spot_floor_per_gpu_hour":{"m":"0.120000000"}}`,
		`--gpu-model m --spot-floor 0.12 --per-gpu-hour 0.5`:       `{"per_gpu_hour":{"m":"0.500000000"},"spot_floor_per_gpu_hour":{"m":"0.120000000"}}`,
		`--spot-floor-of-on-demand 40% --spot-floor-min 0.1`:       `{"spot_floor_rule":{"of_on_demand_basis_points":4000,"min_per_gpu_hour":"0.100000000"}}`,
		`--spot-floor-of-last 87.5 --spot-floor-max 2`:             `{"spot_floor_rule":{"of_last_basis_points":8750,"max_per_gpu_hour":"2.000000000"}}`,
		`--no-spot-floor-rule`:                                     `{"spot_floor_rule":{}}`,
		`--spot-floor 0.12`:                                        "--gpu-model goes with",
		`--spot-floor-min 0.12`:                                    "bound a floor that follows",
		`--spot-floor-of-last 101%`:                                "at most 100%",
		`--spot-floor-of-last 12.345%`:                             "want a share",
		`--spot-floor-of-on-demand x`:                              "want a share",
		`--no-spot-floor-rule --spot-floor-of-last 90%`:            "takes the rule back",
		`--gpu-model m --spot-floor cheap`:                         "cheap",
		`--spot-floor-of-last 90% --spot-floor-max minus-a-dollar`: "minus-a-dollar",
	} {
		var got map[string]any
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPatch {
				b, _ := io.ReadAll(r.Body)
				_ = json.Unmarshal(b, &got)
				io.WriteString(w, `{"id":"ho-1","name":"rack","state":"listed"}`)
				return
			}
			io.WriteString(w, `{"items":[{"id":"ho-1","name":"rack","state":"listed"}]}`)
		}))
		_, _, err := run(t.Context(), append(append([]string{"host", "price", "rack"}, strings.Fields(flags)...), "--server", s.URL, "--token", "t")...)
		s.Close()
		if !strings.HasPrefix(want, "{") {
			if err == nil || report(err) != exitUsage || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want a usage error with %q", flags, err, want)
			}
			continue
		}
		var expected map[string]any
		if err := json.Unmarshal([]byte(want), &expected); err != nil {
			t.Fatal(err)
		}
		if err != nil || !reflect.DeepEqual(normal(t, got), normal(t, expected)) {
			t.Errorf("%s: sent %v (%v), want %s", flags, got, err, want)
		}
	}
}

// normal reads a change of a listing as the server does.
func normal(t *testing.T, v map[string]any) api.UpdateListing {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out api.UpdateListing
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAListingsFloorsAreSaidInWords(t *testing.T) {
	t.Parallel()
	if got := floors(api.Listing{}); len(got) != 1 || !strings.Contains(got[0], "30 per cent") {
		t.Errorf("without a floor: %q", got)
	}
	got := strings.Join(floors(api.Listing{SpotFloorPerGPUHour: map[string]api.Rate{"b": 200_000_000, "a": 100_000_000},
		SpotFloorRule: &api.SpotFloorRule{OfOnDemandBasisPoints: 4000, OfLastBasisPoints: 9000, MinPerGPUHour: 50_000_000, MaxPerGPUHour: 900_000_000}}), "; ")
	want := "a: 0.10 per GPU-hour; b: 0.20 per GPU-hour; 40.00 % of the median price on demand; 90.00 % of the last price on the spot market; at least 0.05 per GPU-hour; at most 0.90 per GPU-hour"
	if got != want {
		t.Errorf("floors are %q, want %q", got, want)
	}
}
