package runtime

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// socketFamilies are the only ones that an instance may open sockets of: what
// programs talk to each other, the network and the kernel's own tables with. The
// engines' list is longer. Some families reach past the instance's network
// (AF_VSOCK: the hypervisor and its other machines), others are old, rarely used
// code in the kernel that all instances of a host share.
var socketFamilies = []uint64{unix.AF_UNIX, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK}

// refusedCalls are taken out of the engines' profile. socketcall is how 32-bit
// programs used to open sockets; it hides the family behind a pointer, where no
// filter can look, and kernels since 4.3 have the plain calls for them, too.
var refusedCalls = []string{"socketcall", "io_uring_setup", "io_uring_enter", "io_uring_register"}

// seccompProfile is the present profile of the Moby project, narrowed as above.
// It goes with every instance, so that what a renter can call does not depend on
// how old a host's engine is: Docker 20.10's own lets AF_VSOCK through.
func seccompProfile() ([]byte, error) {
	p := seccomp.DefaultProfile()
	rules := make([]*seccomp.Syscall, 0, len(p.Syscalls))
	for _, r := range p.Syscalls {
		r.Names = slices.DeleteFunc(r.Names, func(call string) bool {
			return call == "socket" || r.Action == specs.ActAllow && slices.Contains(refusedCalls, call)
		})
		if len(r.Names) > 0 {
			rules = append(rules, r)
		}
	}
	for _, family := range socketFamilies {
		rules = append(rules, &seccomp.Syscall{LinuxSyscall: specs.LinuxSyscall{
			Names: []string{"socket"}, Action: specs.ActAllow,
			Args: []specs.LinuxSeccompArg{{Index: 0, Value: family, Op: specs.OpEqualTo}},
		}})
	}
	p.Syscalls = rules
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("make the seccomp profile of instances: %w", err)
	}
	return b, nil
}

// seccompOption is the profile as the engine's API takes it: Docker takes the
// profile itself, and Podman the path of a file.
func (d *Docker) seccompOption(engine string) (string, error) {
	profile, err := seccompProfile()
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(engine, "podman") {
		return "seccomp=" + string(profile), nil
	}
	path := filepath.Join(d.cfg.Dir, "seccomp.json")
	if err := os.WriteFile(path, profile, 0o600); err != nil {
		return "", fmt.Errorf("write the seccomp profile of instances: %w", err)
	}
	return "seccomp=" + path, nil
}
