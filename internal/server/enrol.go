package server

import (
	"encoding/json"
	"net/http"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/intake"
	"suanli.dev/internal/protocol"
)

// maxEnrol bounds an enrolment request: a token, two keys and a name.
const maxEnrol = 64 << 10

// enrol lets a machine with a join token in. It is on the listener that agents
// dial, whose certificate the token names.
func (c *Cloud) enrol(w http.ResponseWriter, r *http.Request) {
	r = intake.Body(w, r, intake.Small)
	var in protocol.EnrolRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxEnrol)).Decode(&in); err != nil {
		c.refuse(w, r, fault.New(fault.Invalid, "bad_request", "the enrolment request is not JSON: %v", err))
		return
	}
	enrol, sign := c.Fleet.Enrol, c.Authority.SignHost
	if in.Gateway {
		enrol, sign = c.Fleet.EnrolGateway, c.Authority.SignGateway
	}
	reply, err := enrol(r.Context(), in, sign)
	if err != nil {
		c.refuse(w, r, err)
		return
	}
	reply.Authority = c.Authority.Certificate()
	// Empty: the machine goes on dialling the address at which it reached this. The
	// Host header does not have it; enrolment uses a name of its own.
	reply.Tunnel = c.cfg.AgentAddress
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(reply); err != nil {
		c.log.WarnContext(r.Context(), "answer an enrolment", "host", reply.HostID, "error", err)
	}
}

func (c *Cloud) refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problem(r.Context(), c.log, err)
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(p.Status)
	if err := json.NewEncoder(w).Encode(p); err != nil {
		c.log.WarnContext(r.Context(), "answer an enrolment", "error", err)
	}
}
