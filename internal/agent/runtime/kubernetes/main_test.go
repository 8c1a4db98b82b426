package kubernetes

import (
	"os"
	"os/signal"
	"syscall"
	"testing"

	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/instance"
)

// TestMain lets the test binary stand for the static binary inside of pods, and for the
// program that holds a pod's namespaces.
func TestMain(m *testing.M) {
	switch {
	case len(os.Args) > 2 && os.Args[1] == "instance" && os.Args[2] == "probe":
		os.Exit(probe.Main(os.Args[3:], os.Stdout))
	case len(os.Args) > 2 && os.Args[1] == "instance":
		os.Exit(instance.Main(os.Args[2:]))
	case len(os.Args) > 1 && os.Args[1] == "pause":
		c := make(chan os.Signal, 1)
		signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
		<-c
		return
	}
	os.Exit(m.Run())
}
