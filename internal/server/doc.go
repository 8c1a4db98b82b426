// Package server is the control plane's edge: it turns HTTP into calls of the
// services and their answers into JSON, and runs the background work. One file
// per subject, named as in the service. It decides nothing about leases, money
// or hosts.
//
// A subject's file has one method registerX, called from API.subjects, that
// describes its operations and does nothing if its service is nil. Everything
// that holds for all operations is done around them: who asks and whether they
// may (before a byte of the request is looked at), validation against the types
// of package api, idempotency, problems, limits, the OpenAPI document.
package server
