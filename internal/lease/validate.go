package lease

import (
	"net"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/go-containerregistry/pkg/name"

	"suanli.dev/internal/fault"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// Limits of what a renter may ask for. They bound memory and the host's work,
// not what is sensible.
const (
	maxDiskGiB     = 64 << 10
	maxRunFor      = 366 * 24 * time.Hour
	maxScriptBytes = 64 << 10
	maxArguments   = 1024
	maxEnvironment = 256
	maxEnvBytes    = 128 << 10
	maxPorts       = 32
	maxLabels      = 32
	maxNameRunes   = 63
	minIdle        = time.Minute
)

var (
	envName   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	labelKey  = regexp.MustCompile(`^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$`)
	leaseName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	imageRef  = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)
)

// reserved are the variables by which GPUs are given to a container: a renter
// who sets them could ask for another renter's devices.
var reserved = []string{"NVIDIA_", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "SUANLI_"}

func invalid(location, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).At(location)
}

// checkImage refuses what no host would pull. Where a public name leads is seen by
// the host alone, when it connects; this is the early and friendly part.
func checkImage(image string, trusted []string) error {
	ref := strings.TrimPrefix(image, "cloud://")
	if len(ref) > 512 || !imageRef.MatchString(ref) || strings.Contains(ref, "//") {
		return invalid("body.image", "invalid_image", "image %q is not an image reference: write it like \"pytorch/pytorch:2.8.0\" or \"cloud://digits:1\"", image)
	}
	registry, _, _ := strings.Cut(image, "/")
	if host, inner := innerRegistry(image); inner && !slices.Contains(trusted, strings.ToLower(registry)) {
		return invalid("body.image", "registry_refused", "image %q names the registry %q, which is an address or a name inside of the host; name a public registry, or ask the operator to put the image into the cloud's own", image, host)
	}
	if cloud := ref != image; cloud {
		ref = "registry.invalid/" + ref // the cloud's own has no name of a host
	}
	if _, err := name.ParseReference(ref); err != nil {
		return invalid("body.image", "invalid_image", "image %.100q is not an image reference: %s; write it like \"pytorch/pytorch:2.8.0\" or \"cloud://digits:1\"", image, strings.TrimPrefix(err.Error(), "could not parse reference: "))
	}
	return nil
}

// numeric reports whether the resolvers of some systems take a word for the whole
// of an IPv4 address, as they do 2130706433 and 0x7f000001.
func numeric(word string) bool {
	digits, set := strings.ToLower(word), "0123456789"
	if hex, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, set = hex, set+"abcdef"
	}
	return digits != "" && strings.Trim(digits, set) == ""
}

// innerRegistry reports whether an image's registry is not plainly a public
// name. The host's engine pulls from outside of every isolation, so that a
// renter who could name any address would have it ask the host's own services
// and its neighbours, and would read the answers in the lease's message.
func innerRegistry(image string) (host string, inner bool) {
	if strings.HasPrefix(image, "cloud://") {
		return "", false
	}
	first, _, slash := strings.Cut(image, "/")
	// By the rule of image references, the first part is a registry only if it has
	// a dot or a colon, or is localhost.
	if slash && numeric(first) {
		return first, true
	}
	if !slash || (!strings.ContainsAny(first, ".:[") && first != "localhost") {
		return "", false
	}
	host = first
	if h, _, err := net.SplitHostPort(first); err == nil {
		host = h
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch {
	case !strings.Contains(host, "."):
		return host, true // a name of the host's own network, localhost among them
	case strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x"):
		return host, true // an IPv4 address in any of its spellings
	case last == "localhost" || last == "local" || last == "internal" || last == "lan" || last == "arpa":
		return host, true
	}
	return host, false
}

func (c *Create) validate(now time.Time) error {
	if c.Name != "" && !leaseName.MatchString(c.Name) {
		return invalid("body.name", "invalid_name", "name %q: use 1 to %d of a-z, 0-9 and -, beginning and ending with a letter or digit", c.Name, maxNameRunes)
	}
	if strings.HasPrefix(c.Name, string(ident.Lease)+"-") || ident.Resembles(c.Name) {
		return invalid("body.name", "invalid_name", "name %q looks like an identifier, so that it could be taken for something else; choose another", c.Name)
	}
	if len(c.Labels) > maxLabels {
		return invalid("body.labels", "too_many_labels", "%d labels were given; at most %d are kept", len(c.Labels), maxLabels)
	}
	for k, v := range c.Labels {
		if r, found := ident.Hidden(v); found {
			return invalid("body.labels."+k, "invalid_label", "the value of label %q holds the control character %U, which nobody sees; leave it out", k, r)
		}
		if !labelKey.MatchString(k) {
			return invalid("body.labels", "invalid_label", "label %q: a key is 1 to 63 of a-z, 0-9, '.', '_', '/' and '-'", k)
		}
		if utf8.RuneCountInString(v) > 256 || !utf8.ValidString(v) {
			return invalid("body.labels."+k, "invalid_label", "the value of label %q is longer than 256 characters or is not UTF-8", k)
		}
	}
	if len(c.StartScript) > maxScriptBytes || strings.ContainsRune(c.StartScript, 0) {
		return invalid("body.start_script", "invalid_start_script", "the start script has %d bytes; at most %d without NUL are kept: put a longer one into the image or download it", len(c.StartScript), maxScriptBytes)
	}
	if known := protocol.NoticeSignals(); c.NoticeSignal != "" && !slices.Contains(known, c.NoticeSignal) {
		return invalid("body.notice_signal", "invalid_notice_signal", "the signal of a notice is %q; want one of %s", c.NoticeSignal, strings.Join(known, ", "))
	}
	if len(c.NoticeCommand) > maxNoticeBytes || strings.ContainsRune(c.NoticeCommand, 0) {
		return invalid("body.notice_command", "invalid_notice_command", "the command of a notice has %d bytes; at most %d without NUL are kept: put a longer one into the image", len(c.NoticeCommand), maxNoticeBytes)
	}
	if err := checkEnvironment(c.Environment); err != nil {
		return err
	}
	if err := checkPorts(c.Ports); err != nil {
		return err
	}
	if err := checkArguments("body.command", c.Command); err != nil {
		return err
	}
	if err := checkArguments("body.entrypoint", c.Entrypoint); err != nil {
		return err
	}
	if err := checkDeadline(c.Deadline, now); err != nil {
		return err
	}
	if c.Idle != nil {
		if err := c.Idle.validate(); err != nil {
			return err
		}
	}
	if err := checkVolumes(c.Volumes); err != nil {
		return err
	}
	if c.SpendingCap != nil && *c.SpendingCap <= 0 {
		return invalid("body.spending_cap", "invalid_spending_cap", "a spending cap of %s would stop the lease before it runs; want more than 0, or leave it out for none", c.SpendingCap)
	}
	return nil
}

func checkArguments(location string, list []string) error {
	if len(list) > maxArguments {
		return invalid(location, "invalid_command", "%d arguments were given; at most %d are kept", len(list), maxArguments)
	}
	total := 0
	for _, a := range list {
		if total += len(a); total > maxScriptBytes || strings.ContainsRune(a, 0) {
			return invalid(location, "invalid_command", "the arguments are longer than %d bytes together or contain NUL", maxScriptBytes)
		}
	}
	return nil
}

func checkEnvironment(env map[string]string) error {
	if len(env) > maxEnvironment {
		return invalid("body.environment", "too_many_variables", "%d variables were given; at most %d are kept", len(env), maxEnvironment)
	}
	total := 0
	for k, v := range env {
		if !envName.MatchString(k) {
			return invalid("body.environment", "invalid_variable", "variable name %q: use letters, digits and _, not beginning with a digit", k)
		}
		for _, r := range reserved {
			if strings.HasPrefix(strings.ToUpper(k), r) {
				return invalid("body.environment."+k, "reserved_variable", "variable %s is set by the cloud, which decides what GPUs a lease sees; remove it", k)
			}
		}
		if strings.ContainsRune(v, 0) {
			return invalid("body.environment."+k, "invalid_variable", "the value of %s contains NUL", k)
		}
		total += len(k) + len(v) + 2
	}
	if total > maxEnvBytes {
		return invalid("body.environment", "environment_too_large", "the environment has %d bytes; at most %d are kept", total, maxEnvBytes)
	}
	return nil
}

func checkPorts(ports []int) error {
	if len(ports) > maxPorts {
		return invalid("body.ports", "too_many_ports", "%d ports were given; at most %d are kept", len(ports), maxPorts)
	}
	seen := map[int]bool{}
	for _, p := range ports {
		if p < 1 || p > 65535 {
			return invalid("body.ports", "invalid_port", "port %d: want 1 to 65535", p)
		}
		if p == 2222 {
			return invalid("body.ports", "reserved_port", "port 2222 is the instance's own SSH server; choose another")
		}
		if seen[p] {
			return invalid("body.ports", "duplicate_port", "port %d is given twice", p)
		}
		seen[p] = true
	}
	return nil
}

func checkDeadline(t, now time.Time) error {
	if t.IsZero() {
		return nil
	}
	if !t.After(now) {
		return invalid("body.stop_at", "deadline_past", "stop_at %s is not in the future (it is %s now)", t.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
	if t.Sub(now) > maxRunFor {
		return invalid("body.stop_at", "deadline_far", "stop_at %s is more than 366 days away", t.UTC().Format(time.RFC3339))
	}
	return nil
}

// Seconds makes a duration of seconds that were given at a place of a request. One
// that no lease can have is refused in the words of who gave it.
func Seconds(location, code string, n int64) (time.Duration, error) {
	if most := int64(maxRunFor / time.Second); n < 0 || n > most {
		field := location[strings.LastIndexByte(location, '.')+1:]
		return 0, invalid(location, code, "%s is %d; want 0 to %d", field, n, most)
	}
	return time.Duration(n) * time.Second, nil
}

func (i IdleStop) validate() error {
	if i.After != 0 && (i.After < minIdle || i.After > maxRunFor) {
		return invalid("body.idle_stop.after_seconds", "invalid_idle_stop", "idle stop after %d seconds: want 60 to %d", int64(i.After/time.Second), int64(maxRunFor/time.Second))
	}
	if i.GPUPercent < 0 || i.GPUPercent > 100 || i.CPUPercent < 0 || i.CPUPercent > 100 {
		return invalid("body.idle_stop", "invalid_idle_stop", "idle thresholds are %d %% of GPU and %d %% of CPU; want 0 to 100", i.GPUPercent, i.CPUPercent)
	}
	return nil
}

// maxNoticeBytes bounds the command that is run when a notice comes.
const maxNoticeBytes = 4096
