// Package probe is what the agent's self-test runs inside a container: small
// attempts to get past a limit, each of which is meant to fail. It is part of the
// static binary that is mounted there, and imports nothing of the agent.
package probe
