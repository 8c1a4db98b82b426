// Package api is the Go client of a suanli cloud, and the one definition of the
// JSON that the server takes and gives: the server's handlers use these types.
// One file per subject holds its types and its methods. Times are UTC, money is
// decimal text, names carry their unit.
//
// openapi.json, beside this file, is generated from the server's registration.
package api

//go:generate go test suanli.dev/internal/server -run TestTheOpenAPIDocumentIsCurrent -update
