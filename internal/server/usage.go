package server

import (
	"encoding/json"
	"net/http"
	"time"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/billing"
)

// usageQuery selects events of use.
type usageQuery struct {
	Limit   int       `query:"limit" minimum:"1" maximum:"1000" default:"200" doc:"How many events at most"`
	Cursor  string    `query:"cursor" maxLength:"64" doc:"The id of the last event that you have; empty: from the first"`
	LeaseID string    `query:"lease_id" maxLength:"64" doc:"Only of this lease"`
	Meter   string    `query:"meter" enum:"compute,storage,egress,reserved" doc:"Only of this meter"`
	From    time.Time `query:"from" doc:"Only what ends after this moment"`
}

func (a *API) registerUsage() {
	const about = "CloudEvents 1.0 of the type `" + api.UsageEventType + "`, in a batch (a JSON array): the subject is the account, `data` says how much of which meter (compute and reserved in s, storage in GiB·s, egress in bytes) a lease used since the event before it, whatever paid for it. " +
		"`quantity` is exact; a negative one corrects what was said before. Ids never change, so events that are read again are known by them. Give the id of the last event as the next `cursor`: none is missed. An empty batch: there is no more yet."
	register := func(op operation, whose func(account.Principal) string) {
		op.Method, op.Tag, op.Description = http.MethodGet, tagBilling, about
		registerStream(a, op, api.UsageBatchType, func(w http.ResponseWriter, r *http.Request, p account.Principal, in *usageQuery) error {
			list, err := a.Billing.Usage(r.Context(), billing.UsedQuery{AccountID: whose(p), LeaseID: in.LeaseID, Meter: in.Meter, From: in.From, AfterID: in.Cursor, Limit: in.Limit})
			if err != nil {
				return err
			}
			b, err := usageBatch(a.source, list)
			if err != nil {
				return err
			}
			w.Header().Set("Content-Type", api.UsageBatchType)
			_, err = w.Write(b)
			return err
		})
	}
	register(operation{ID: "listUsageEvents", Path: "/v1/usage/events", Summary: "List what was used, as CloudEvents, in the order of writing", Action: account.ReadBilling},
		func(p account.Principal) string { return p.AccountID })
	register(operation{ID: "listAllUsageEvents", Path: "/v1/operator/usage/events", Summary: "List what all accounts used, as CloudEvents, in the order of writing", Action: account.Operate},
		func(account.Principal) string { return "" })
}

// usageBatch writes events of use as the batch that they are read and sent in.
func usageBatch(source string, list []billing.Used) ([]byte, error) {
	if source == "" {
		source = "suanli"
	}
	batch := make([]api.UsageEvent, len(list))
	for i, u := range list {
		batch[i] = api.UsageEvent{
			SpecVersion: "1.0", ID: u.ID, Source: source, Type: api.UsageEventType, Subject: u.AccountID, Time: u.To, ContentType: "application/json",
			Data: api.UsageData{
				LeaseID: u.LeaseID, Meter: u.Meter, Quantity: u.Quantity(), Unit: u.Unit(), FromAt: u.From, ToAt: u.To, Simulated: u.Simulated,
				Plan: u.Plan, GPUModel: u.GPUModel, GPUCount: u.GPUs, Zone: u.Zone,
			},
		}
	}
	return json.Marshal(batch)
}
