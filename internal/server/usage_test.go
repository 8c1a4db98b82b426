package server

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"

	"suanli.dev/api"
)

func TestUsageIsABatchOfCloudEventsToTheirOwnLibrary(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	v := w.invoiced(w.ada)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/usage/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+w.ada.token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/cloudevents-batch+json" {
		t.Fatalf("%d %v: %s, %v", res.StatusCode, res.Header, b, err)
	}
	var events []cloudevents.Event
	if err := json.Unmarshal(b, &events); err != nil || len(events) != 1 {
		t.Fatalf("%s: %v", b, err)
	}
	e := events[0]
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
	var data api.UsageData
	if err := e.DataAs(&data); err != nil {
		t.Fatal(err)
	}
	if e.SpecVersion() != "1.0" || e.Type() != "suanli.usage.v1" || e.Subject() != w.ada.AccountID || e.Source() != "suanli" || e.DataContentType() != "application/json" || !e.Time().Equal(data.ToAt) {
		t.Errorf("event %v", e)
	}
	if data.Meter != "compute" || data.Quantity != "3600" || data.Unit != "s" || !data.Simulated || data.Plan != "on_demand" || data.ToAt.Sub(data.FromAt).Hours() != 1 || data.ToAt.Before(v.Start) {
		t.Errorf("data %+v", data)
	}
}

func TestUsageIsReadOnFromTheLastEventAndOnlyByItsAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.invoiced(w.ada)
	w.invoiced(w.eve)
	ctx := t.Context()
	own, err := w.ada.client.Usage(ctx, api.UsageQuery{})
	if err != nil || len(own) != 1 {
		t.Fatalf("%+v, %v", own, err)
	}
	for name, q := range map[string]api.UsageQuery{
		"after it": {Cursor: own[0].ID}, "of another lease": {LeaseID: "ls-other"}, "of another meter": {Meter: "storage"}, "later": {From: own[0].Time},
	} {
		if more, err := w.ada.client.Usage(ctx, q); err != nil || len(more) != 0 {
			t.Errorf("%s: %+v, %v", name, more, err)
		}
	}
	all, err := w.operator.client.AllUsage(ctx, api.UsageQuery{Limit: 1})
	if err != nil || len(all) != 1 {
		t.Fatalf("%+v, %v", all, err)
	}
	rest, err := w.operator.client.AllUsage(ctx, api.UsageQuery{Cursor: all[0].ID})
	if err != nil || len(rest) != 1 || rest[0].ID == all[0].ID || rest[0].Subject == all[0].Subject {
		t.Errorf("%+v after %+v, %v", rest, all, err)
	}
	w.send(http.MethodGet, "/v1/usage/events?cursor="+own[0].ID, w.eve.token, nil).want(t, 422, "bad_cursor")
	w.send(http.MethodGet, "/v1/usage/events?cursor=x", w.ada.token, nil).want(t, 422, "bad_cursor")
	w.send(http.MethodGet, "/v1/operator/usage/events", w.ada.token, nil).want(t, 403, "forbidden")
}
