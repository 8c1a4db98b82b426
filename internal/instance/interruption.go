package instance

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"suanli.dev/internal/protocol"
)

// tellInterruption replaces the file by which programs inside know that the
// instance will be interrupted; an empty text removes it. The agent calls it. It
// reports whether there was no notice before, and the exit code.
func tellInterruption(path, text string, stderr io.Writer) (fresh bool, code int) {
	var err error
	if text == "" {
		if err = os.Remove(path); os.IsNotExist(err) {
			err = nil
		}
	} else {
		_, statErr := os.Stat(path)
		fresh = os.IsNotExist(statErr)
		if err = os.WriteFile(path+".new", []byte(text+"\n"), 0o644); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, "suanli instance interruption:", err)
		return false, 1
	}
	return fresh, 0
}

// actOnNotice does what the renter or the template wants to be done when a notice
// comes. Only the first word of a notice leads to it: that its end moves by some
// seconds is no second one. What fails is said, and the notice stands all the same.
func actOnNotice(settingsPath, text string, stderr io.Writer) {
	complain := func(err error) {
		if err != nil {
			fmt.Fprintln(stderr, "suanli instance interruption:", err)
		}
	}
	s, err := readSettings(settingsPath)
	if err != nil {
		complain(err)
		return
	}
	if number := noticeSignal(s.NoticeSignal); number != 0 {
		// The first process is init, which passes it on to the command.
		complain(syscall.Kill(1, number))
	}
	if s.NoticeCommand != "" {
		complain(startNotice(s, text))
	}
}

// noticeSignal is the number of one of protocol.NoticeSignals, else 0.
func noticeSignal(name string) syscall.Signal {
	return map[string]syscall.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": syscall.SIGINT, "SIGHUP": syscall.SIGHUP,
		"SIGUSR1": syscall.SIGUSR1, "SIGUSR2": syscall.SIGUSR2}[name]
}

// startNotice starts the renter's command and does not wait for it: it has the
// whole notice. What it writes is in the instance's log.
func startNotice(s protocol.InstanceSettings, text string) error {
	who, err := lookUp(s.User)
	if err != nil {
		return err
	}
	in := &instance{settings: s, account: who}
	c := exec.Command("/bin/sh", "-c", s.NoticeCommand)
	c.Dir = in.workingDir()
	c.Env = setenv(environment(os.Environ(), s, who), "SUANLI_INTERRUPTION", strings.TrimSpace(text))
	c.SysProcAttr = in.become(&syscall.SysProcAttr{Setsid: true})
	if log, err := os.OpenFile("/proc/1/fd/1", os.O_WRONLY, 0); err == nil {
		defer log.Close()
		c.Stdout, c.Stderr = log, log
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("run the command of the notice: %w", err)
	}
	return c.Process.Release()
}

// forgetInterruption removes what an earlier container of the lease was told.
func forgetInterruption(path string) { _ = os.Remove(path) }

// interruptionFile is where it is in a run folder.
const interruptionFile = protocol.InstanceInterruptionName
