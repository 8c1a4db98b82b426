// Package sla measures the availability of leases by the calendar month, gives
// renters what the operator promised for a bad month, and takes their part of it
// from hosts that were at fault.
//
// What counts as an outage:
//
//   - host_silent: the control plane heard nothing of the host; nobody has to be
//     believed.
//   - gpu_fault: the host lost a GPU, or the fleet fenced it; the host says it of
//     itself, to its own cost.
//   - gpus_refused: a probe inside of the instance could not open its GPUs. Its
//     renter is root there and can make the probe fail (ptrace, a changed device
//     node), so by itself it gives no credit: it counts from an operator's
//     confirmation on, for the whole outage. It is shown as not corroborated until
//     then.
//
// What of an outage lies in maintenance that was announced early enough is not
// promised. The month is the calendar's of the time zone that the lease's quote has,
// which is its account's.
//
// A month is closed a while after its end, when all of it is posted, and a
// confirmation that comes later posts the difference: what is to be given is a pure
// function of what is recorded, and never taken back. Each posting has a key of
// lease, month and number, under a lock of the month's row, so a repeat or a second
// replica posts nothing.
//
// It also measures the control plane itself, by the minute; see Uptime.
//
// Codes of transfers: sla_credit (platform/commission → wallet), sla_clawback
// (provider/…/payable → platform/commission, the host's part of the credit) and
// penalty (likewise, by the operator's steps).
//
// It imports pricing for the rules, lease, fleet and billing for their values,
// account (for who asks), ledger, store, money and fault.
package sla
