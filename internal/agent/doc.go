// Package agent is suanli on a host. It brings the leases that the control plane
// commands to the state that is wanted, and says what it sees.
//
// It owns the files of its state folder and, through runtime.Driver, the
// containers, networks and disks that it made. It never decides who may rent, and
// knows no money: how long a lease may run without word from the control plane
// arrives with the command, and is kept here.
//
// What it holds to:
//
//   - The generation of a lease, once seen, is on disk before it is acted on; an
//     older one is refused, also after a restart.
//   - A run that has ended does not start again in its generation.
//   - Nothing is removed because of an incomplete picture: a lease that the control
//     plane does not name is removed only after two complete answers without it.
//   - GPUs of an ended run are proven clean, or reported dirty, before the lease
//     counts as stopped or absent.
//   - Time is the host's boot clock; the wall clock is only shown.
//
// Each lease has one goroutine, which alone calls the driver for it. All fields
// of leases are guarded by the agent's one mutex, held for memory work only.
package agent
