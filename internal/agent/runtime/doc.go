// Package runtime runs instances on a host. Driver is what the agent needs of a
// container engine; Docker is the Docker Engine API (Podman speaks it too) and
// Sim keeps instances in memory, for fleets of thousands in one process.
//
// The package owns what an engine alone does not give on every kernel:
//
//   - A disk that is writable, kept over stop and start, and really limited. The
//     engine's writable layer of a container is moved onto an ext4 file system in
//     a file of exactly the leased size, before the container's first start, so
//     that everything a renter writes ends at that size (volume.go).
//   - A network of its own for each lease, and one nftables table that keeps
//     renters from each other, the host, private ranges and metadata services, and
//     counts what they send (network.go).
//
// It knows leases by identifier and generation only, decides nothing about them,
// and never touches a container, network or mount that it did not make.
package runtime
