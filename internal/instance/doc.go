// Package instance is what runs inside a container. The suanli binary, mounted
// read-only, is its first process (init): it reaps, runs the start script and
// the command, and serves SSH (shells, commands, SFTP, port and agent
// forwarding). It is static and needs nothing of the image, so an empty image
// works as well as a full distribution. It also stands in for nvidia-smi on
// simulated hosts.
//
// It trusts what the agent mounted and nothing that the image contains, tells
// the agent no more than protocol.InstanceReport, and decides nothing about
// money. It imports protocol only.
package instance
