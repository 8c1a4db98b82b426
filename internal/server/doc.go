// Package server is the control plane's edge: it turns HTTP into calls of the
// services and their answers into JSON, and runs the background work. One file
// per subject, named as in the service. It decides nothing about leases, money
// or hosts.
package server
