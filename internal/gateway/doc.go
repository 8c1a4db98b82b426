// Package gateway is the way in: the tunnels that hosts dial (Tunnels), the
// authority that gives them their certificates (Authority), and the SSH and
// HTTP servers through which renters reach their instances (SSH, HTTP). It
// moves bytes and checks who may enter; who that is, it asks of a Directory,
// which the services behind it implement. It keeps no state that matters: a
// gateway that is restarted loses connections and nothing else.
//
// It imports protocol, fault and ident, and no service.
package gateway
