package gpu

import (
	"log/slog"
	"os"
	"path/filepath"
)

// DetectConfig says where to look for GPUs.
type DetectConfig struct {
	Helper  string // path of suanli-nvml; empty: beside this binary
	SysRoot string // root of sysfs; empty: /sys
	Log     *slog.Logger
}

// Detect returns the sources that this host has; none is a valid answer.
func Detect(c DetectConfig) Set {
	var s Set
	if c.Helper == "" {
		if exe, err := os.Executable(); err == nil {
			c.Helper = filepath.Join(filepath.Dir(exe), "suanli-nvml")
		}
	}
	if _, err := os.Stat(c.Helper); err == nil {
		s = append(s, NewNVML(c.Helper, c.Log))
	} else if _, err := os.Stat("/dev/nvidiactl"); err == nil && c.Log != nil {
		c.Log.Warn("this host has NVIDIA GPUs and the helper suanli-nvml is missing; install it beside the agent's binary", "looked_for", c.Helper)
	}
	if c.SysRoot == "" {
		c.SysRoot = "/sys"
	}
	s = append(s, NewAMD(c.SysRoot))
	return s
}
