// Package volume keeps disks that outlive leases: an account's volumes, where each of
// them is, which leases have it, and that it is paid for exactly while it is there. A
// volume is on the disk of one host, and leases that have it run on that host. It
// keeps fleet (whose disk it takes) and billing (which bills it as a lease of storage
// alone, under the volume's identifier) in step, each change in one transaction; a
// loop brings hosts to what is wanted, so that a crash anywhere is made up for by the
// next turn.
//
// A volume is in use while it has attachments, and cannot be removed then. One lease
// may write to it, any number may read.
//
// Snapshots are copies of volumes in object storage, made and read by hosts through
// signed URLs. They are how volumes are backed up, and, since a new volume can take the
// place of the one it is a copy of in one transaction, how they move and grow.
//
// Lock order: the host's row in fleet, then the lease, then the new volume before the
// one that it replaces, then the snapshot, then the account's row in billing. It imports
// lease, fleet, billing, account and objectstore for their types; lease knows it by an
// interface of its own.
package volume
