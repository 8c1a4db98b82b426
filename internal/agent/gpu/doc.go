// Package gpu finds a host's GPUs and says how a container is given them. A
// Source is one way to ask: NVIDIA through a helper process, AMD through sysfs,
// simulated machines from recorded inventories, or none.
//
// The NVIDIA driver's library runs in a process of its own (cmd/suanli-nvml):
// it needs cgo, which the agent's static binary must not have, and a driver call
// that hangs or crashes takes only the helper along, which is started again.
//
// The package knows nothing of leases. It calls what it simulates simulated, in
// every value it returns.
package gpu
