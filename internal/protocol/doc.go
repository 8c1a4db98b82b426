// Package protocol is what the control plane and an agent say to each other:
// plain values, their JSON, and the subjects and stream headers that carry
// them. It decides nothing. Both sides import it; it imports nothing of either.
//
// An agent dials out once, over TLS with its own certificate, and multiplexes
// that connection (yamux). On streams that it opens it reaches the bus and the
// cloud's image registry; on streams that the control plane opens it serves
// renters' traffic. Messages on the bus are requests that are answered, so the
// sender always knows whether to send again:
//
//	host.<host id>.command   control plane → agent: Command → CommandResult
//	control.<host id>.report agent → control plane: Report → ReportReply
//
// A host's credentials let it use its own two subjects and no others.
//
// Time: the wall clocks of hosts are wrong. An agent therefore dates what
// happened by its host's boot clock (Instant) and puts its present Instant in
// each report; the control plane computes "received − (now − then)" and never
// trusts an agent's wall clock for money or liveness.
package protocol
