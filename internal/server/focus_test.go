package server

import (
	"encoding/csv"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

func TestAMonthIsExportedAsATableAndAsLines(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	period := v.Start.AddDate(0, 0, 15).Format("2006-01")
	f, err := w.ada.client.Focus(t.Context(), period, "csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 3 { // a head, the use and the tax
		t.Fatalf("%v, %v", rows, err)
	}
	cost, simulated := slices.Index(rows[0], "BilledCost"), slices.Index(rows[0], "x_Simulated")
	if rows[1][cost] != "3.6" || rows[2][cost] != "0.29" || rows[1][simulated] != "true" {
		t.Errorf("%v", rows)
	}
	j, err := w.ada.client.Focus(t.Context(), period, "jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	text, err := io.ReadAll(j)
	if err != nil || strings.Count(string(text), "\n") != 2 || !strings.Contains(string(text), `"BilledCost":3.6,`) {
		t.Errorf("%s, %v", text, err)
	}
	w.send(http.MethodGet, "/v1/exports/focus?period=2026-13", w.ada.token, nil).want(t, 422, "period_invalid")
	w.send(http.MethodGet, "/v1/exports/focus?period=0000-01", w.ada.token, nil).want(t, 422, "period_invalid")
	none, err := w.eve.client.Focus(t.Context(), period, "csv")
	if err != nil {
		t.Fatal(err)
	}
	defer none.Close()
	if rows, err := csv.NewReader(none).ReadAll(); err != nil || len(rows) != 1 {
		t.Errorf("another account's export has %v, %v", rows, err)
	}
}
