//go:build !cgo

package main

import (
	"fmt"
	"os"
)

// Without cgo there is no way to the library; the build says so instead of
// producing a helper that finds nothing.
func main() {
	fmt.Fprintln(os.Stderr, "suanli-nvml was built without cgo and cannot reach the NVIDIA driver; build it with CGO_ENABLED=1")
	os.Exit(1)
}
