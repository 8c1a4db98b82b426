package agent

import (
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

// bootClock returns readings of CLOCK_BOOTTIME.
func bootClock() func() protocol.Instant {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	boot := strings.TrimSpace(string(b))
	return func() protocol.Instant {
		var ts unix.Timespec
		_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
		return protocol.Instant{BootID: boot, Nanos: ts.Nano()}
	}
}

// since is how much later now is than then; readings of another boot are older
// than any of this one.
func since(now, then protocol.Instant) (time.Duration, bool) {
	if now.BootID != then.BootID {
		return 0, false
	}
	return time.Duration(now.Nanos - then.Nanos), true
}

func diskMiB(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * st.Bsize >> 20, nil
}
