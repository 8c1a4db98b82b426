package e2e

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"suanli.dev/api"
)

// startWrong starts the program under test with a wall clock that is wrong from
// its first instruction on.
func startWrong(log string, by time.Duration, args ...string) (*process, error) {
	exe, err := binary()
	if err != nil {
		return nil, err
	}
	// The tracer of a process is one thread.
	goruntime.LockOSThread()
	defer goruntime.UnlockOSThread()
	p, err := launch(log, exe, args, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Ptrace: true})
	if err != nil {
		return nil, err
	}
	pid := p.cmd.Process.Pid
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &status, 0, nil); err != nil || !status.Stopped() {
		return nil, fmt.Errorf("a program to be traced is %v, %w", status, err)
	}
	err = errors.Join(setClock(pid, by), syscall.PtraceDetach(pid))
	p.wait()
	if err != nil {
		p.kill()
		return nil, err
	}
	return p, nil
}

// setClock makes a process's wall clock wrong by so much, now. A Go program asks no
// library for the time that could be put in the way, and the kernel has no wall
// clock of one process's own; but it asks the vDSO, which is memory of its own and
// is given another clock_gettime here. Its other clocks, and all other processes,
// stay as they are.
func setClock(pid int, by time.Duration) error {
	if goruntime.GOARCH != "amd64" {
		return errors.New("only amd64's machine code is written here")
	}
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	var from, to int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			if _, err := fmt.Sscanf(line, "%x-%x", &from, &to); err != nil {
				return err
			}
		}
	}
	if from == 0 {
		return errors.New("the process has no vDSO")
	}
	mem, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", pid), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer mem.Close()
	image := make([]byte, to-from)
	if _, err := mem.ReadAt(image, from); err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return err
	}
	symbols, err := f.DynamicSymbols()
	if err != nil {
		return err
	}
	for _, s := range symbols {
		if s.Name != "__vdso_clock_gettime" {
			continue
		}
		// The function itself may be shorter than this: it jumps to the unused end of
		// its page.
		code := []byte{
			0xb8, 0xe4, 0, 0, 0, // mov eax, SYS_clock_gettime
			0x0f, 0x05, // syscall
			0x85, 0xff, // test edi, edi: is it CLOCK_REALTIME?
			0x75, 0x07, // jnz to the return
			0x48, 0x81, 0x06, 0, 0, 0, 0, // add qword [rsi], seconds
			0xc3, // ret
		}
		littleEndian(code[14:], int64(by/time.Second))
		at := int64(len(image) - len(code))
		if rest := image[at:]; !bytes.Equal(rest, make([]byte, len(code))) && !bytes.Equal(rest[:11], code[:11]) {
			return errors.New("the vDSO's page has no room left")
		}
		if _, err := mem.WriteAt(code, from+at); err != nil {
			return err
		}
		jump := []byte{0xe9, 0, 0, 0, 0}
		littleEndian(jump[1:], at-int64(s.Value)-int64(len(jump)))
		_, err := mem.WriteAt(jump, from+int64(s.Value))
		return err
	}
	return errors.New("the vDSO has no clock_gettime")
}

func littleEndian(b []byte, v int64) {
	for i := range 4 {
		b[i] = byte(v >> (8 * i))
	}
}

// needWrongClock skips where a clock cannot be made wrong, and otherwise proves
// that it can: by the times in a program's own log.
func needWrongClock(t *testing.T) {
	t.Helper()
	needRoot(t)
	log := filepath.Join(t.TempDir(), "clock.log")
	p, err := startWrong(log, -240*time.Hour, "server", "--data-dir", filepath.Join(t.TempDir(), "data"), "--listen", freeAddress(), "--agent-listen", freeAddress(), "--ssh-listen", freeAddress())
	if err != nil {
		t.Skipf("a process's clock cannot be made wrong here: %v", err)
	}
	defer p.kill()
	day := time.Now().UTC().Add(-240 * time.Hour).Format("2006-01-02")
	err = within(30*time.Second, func() error {
		if b, _ := os.ReadFile(log); !strings.Contains(string(b), day) {
			return fmt.Errorf("the log does not say %s: %s", day, tail(log, 3))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Ten minutes either way, from the start or suddenly, on the host or the server:
// rentals run, and bills are what an honest clock would have made them.
func TestAWrongClockOfAHostChangesNoBill(t *testing.T) {
	t.Parallel()
	need(t)
	needWrongClock(t)
	c := ownCloud(t, "", "--minimum-seconds", "1")
	u := newTenant(t, c, "punctual", "100")
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	for _, by := range []time.Duration{-10 * time.Minute, 10 * time.Minute} {
		h, err := c.joinWrong("8x4090", by)
		if err != nil {
			t.Fatalf("a host whose clock is wrong by %v: %v", by, err)
		}
		if skew := time.Duration(hostOf(t, c, h.id).ClockSkewMs) * time.Millisecond; (skew - by).Abs() > 30*time.Second {
			t.Fatalf("the cloud sees a skew of %v", skew)
		}
		where := oneGPU + fmt.Sprintf(` and host_id = "%s"`, h.id)
		name := fmt.Sprintf("wrong-by-%d", int(by/time.Minute)+10)
		before := time.Now()
		l := u.rent(t, name, "--where", where)
		ran := time.Now()
		if l.HostID != h.id {
			t.Fatalf("rented on %s, not on %s", l.HostID, h.id)
		}
		if out := u.inside(t, name, "echo in"); out != "in\n" {
			t.Errorf("inside: %q", out)
		}
		u.must(t, "stop", name)
		exactBill(t, u.bill(t, l.ID), before, ran, time.Now())

		// In the middle of a run, the clock jumps to the other side.
		u.must(t, "start", name)
		begun := time.Now()
		if err := setClock(h.p.cmd.Process.Pid, -by); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		l = u.reaches(t, name, time.Second, "running")
		u.must(t, "set", name, "--stop-at", "2s")
		l = u.reaches(t, name, 30*time.Second, "stopped")
		took := time.Since(begun)
		runs := computeLines(u.bill(t, l.ID))
		if len(runs) != 2 {
			t.Fatalf("two runs make the lines %+v", runs)
		}
		if d := runs[1].End.Sub(*runs[1].Start); l.Code != "deadline" || d < 4*time.Second || d > took+2*time.Second {
			t.Errorf("a run of %v is charged as %v, and stopped for %q", took, d, l.Code)
		}
		u.must(t, "end", name)
		sumsUp(t, c, u.bill(t, l.ID))
		if err := within(20*time.Second, func() error { return noTrace(c, l.ID) }); err != nil {
			t.Error(err)
		}
		if err := h.listed(); err != nil {
			t.Error(err)
		}
	}
}

func TestAJumpOfTheServersClockLosesNoHostAndNoMoney(t *testing.T) {
	t.Parallel()
	needWrongClock(t)
	c, u := simCloud(t, t.TempDir(), "--minimum-seconds", "0")
	if err := c.push("box:1", boxImage()); err != nil {
		t.Fatal(err)
	}
	l := u.rent(t, "through-time")
	begun := time.Now()
	balance := func() *api.Balance {
		b, err := u.api.Balance(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute, 0} {
		if err := setClock(c.server.cmd.Process.Pid, by); err != nil {
			t.Fatal(err)
		}
		<-time.After(4 * time.Second)
		if got := u.lease(t, l.ID); got.State != "running" {
			t.Fatalf("with the clock at %v, the lease is %s (%s: %s)", by, got.State, got.Code, got.Message)
		}
		if err := c.hosts[0].listed(); err != nil {
			t.Errorf("with the clock at %v: %v", by, err)
		}
	}
	u.must(t, "end", l.ID)
	took := time.Since(begun)
	b := u.bill(t, l.ID)
	var charged int64
	for _, r := range computeLines(b) {
		charged += r.Charged
	}
	if charged > int64(took/time.Second)+3 {
		t.Errorf("a run of %v is charged as %d s: %+v", took, charged, b.Lines)
	}
	sumsUp(t, c, b)
	if got := balance(); got.Held != 0 || got.Settled != 100_000_000-b.Total {
		t.Errorf("after %s, the balance is %+v", b.Total, got)
	}
}
