package notify

import (
	"encoding/json"
	"testing"
	"time"

	cloudevents "github.com/cloudevents/sdk-go/v2/event"
)

func TestWhatIsDeliveredIsACloudEventToTheirOwnLibrary(t *testing.T) {
	t.Parallel()
	s := &Service{cfg: Config{Source: "https://cloud.example.com"}}
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456000, time.UTC)
	for name, data := range samples() {
		k, _ := kindOf(name)
		payload, err := k.encode(data)
		if err != nil {
			t.Fatal(err)
		}
		body, err := s.event("nt-1", "ac-1", name, "ls-1", at, payload)
		if err != nil {
			t.Fatal(err)
		}
		var e cloudevents.Event
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := e.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if e.SpecVersion() != "1.0" || e.ID() != "nt-1" || e.Type() != "suanli."+name+".v1" || e.Subject() != "ls-1" || !e.Time().Equal(at) ||
			e.Source() != "https://cloud.example.com" || e.DataContentType() != "application/json" || e.Extensions()["accountid"] != "ac-1" || string(e.Data()) != payload {
			t.Errorf("%s reads as %v", name, e)
		}
	}
}
