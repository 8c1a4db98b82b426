// Command bench measures the product against what a person would use without
// it, both in the same run on the same machine.
//
//	go run ./bench            all benchmarks
//	go run ./bench rent http  some of them
//	go run ./bench -list      their names
//
// Each ends with one line
//
//	RESULT <name> <ours> <peer> <ratio> <goal> PASS|SHORT
//
// in which ratio is ours over peer. The method of each is in the comment of
// its function. Everything runs in a network namespace of its own, so that it
// neither meets a cloud that runs on the machine nor leaves anything behind: the
// engine, the cloud, nginx and sshd it needs are its own, in a temporary folder.
// It needs root, and docker.io, nginx-light, openssh-server and iproute2.
package main
