// Package console serves the web console: the files that console/ is built into,
// which are part of the binary.
//
// A binary that was built without Node has no console; Built says so.
package console
