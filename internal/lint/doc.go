// Package lint is the house rules that a compiler does not know, as tests: which
// package may import which, no floating point where money is, what packages may
// be called, how tests wait, what files say. It has no code but its tests and
// imports nothing of suanli; it reads the tree.
//
// A new package gets its line in the table of layers, in layers_test.go.
package lint
