// Package sim replays a trace of demand on a fleet in virtual time, by the very
// rules that run in production: placement chooses hosts for leases on demand,
// pricing/auction clears the spot market, and pricing rates what ran. An operator
// can so try policies before renters do. It is pure: a trace, a fleet and a
// policy go in, a report comes out, and the same arguments give the same report.
//
// A trace says what was asked for, never what it costs: prices, floors and bids
// are the fleet's and the policy's. What a trace leaves open (which of its jobs
// would bid, and how much) is drawn from a seed.
//
// What it does not have in it, and what a report therefore is not about: disks,
// traffic and taxes; the topology of a host's GPUs; the time to set up an
// instance; renters who react to prices; and money that runs out. CPU and memory
// are sold with the GPU in proportion, so what a trace asks of them does not
// matter. A part of a GPU counts as a whole one.
//
// One file has one subject: trace (the formats), fleet (hosts, policy, and their
// YAML), engine (virtual time and leases on demand), market (spot), report.
//
// It imports money, pricing, pricing/auction and placement.
package sim
