// Package tunnel is an agent's one connection to its cloud. Enrol trades a join
// token for an identity; Dial brings up the multiplexed tunnel and, within it,
// the host's connection to the bus. A tunnel that ends is not mended: its owner
// dials another.
//
// It imports protocol and bus.
package tunnel
