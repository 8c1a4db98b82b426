// Package documented compares parts of documents that are made from the program with
// the program, in tests, and writes them again for `go generate`.
package documented
