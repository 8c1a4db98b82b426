// Package e2e has no code but its tests, which run the product as its users do:
// the real binary as separate processes, a real container engine, the command
// line and the HTTP API from outside. They rent, break in, pull plugs, fill disks
// and look whether what suanli promises still holds.
//
// They need root, a container engine named by SUANLI_TEST_DOCKER, whose network
// namespace they run in, and a static busybox; where one is missing they skip and
// say so.
package e2e
