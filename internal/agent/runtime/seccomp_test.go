package runtime

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func TestTheSeccompProfileLetsFourSocketFamiliesThroughAndNoOther(t *testing.T) {
	t.Parallel()
	b, err := seccompProfile()
	if err != nil {
		t.Fatal(err)
	}
	var p seccomp.Seccomp
	if err := json.Unmarshal(b, &p); err != nil {
		t.Fatal(err)
	}
	if p.DefaultAction != specs.ActErrno {
		t.Errorf("what is not named gets %s", p.DefaultAction)
	}
	var families []uint64
	allowed := map[string]bool{}
	for _, r := range p.Syscalls {
		for _, call := range r.Names {
			if r.Action != specs.ActAllow || r.Includes != nil && len(r.Includes.Caps) > 0 {
				continue
			}
			allowed[call] = true
			if call != "socket" {
				continue
			}
			if len(r.Args) != 1 || r.Args[0].Index != 0 || r.Args[0].Op != specs.OpEqualTo {
				t.Errorf("a rule for sockets is not one family: %+v", r.Args)
				continue
			}
			families = append(families, r.Args[0].Value)
		}
	}
	slices.Sort(families)
	if want := []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}; !slices.Equal(families, want) {
		t.Errorf("families %v, want %v", families, want)
	}
	for _, call := range []string{"socketcall", "io_uring_setup", "bpf", "mount", "unshare", "clone3", "keyctl", "userfaultfd", "perf_event_open"} {
		if allowed[call] {
			t.Errorf("%s is allowed to everybody", call)
		}
	}
	for _, call := range []string{"execve", "openat", "futex", "clone", "connect"} {
		if !allowed[call] {
			t.Errorf("%s is not allowed; nothing would run", call)
		}
	}
}
