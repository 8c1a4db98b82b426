package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Result is what a probe prints as one line of JSON.
type Result struct {
	Probe string `json:"probe"`
	// Reached says how far the attempt came, in the probe's unit: bytes written,
	// bytes held, processes started.
	Reached int64 `json:"reached"`
	// Stopped says that a limit ended the attempt.
	Stopped bool   `json:"stopped"`
	Detail  string `json:"detail"`
	// Open lists the addresses that answered; Values what was found.
	Open                []string          `json:"open,omitempty"`
	Values              map[string]string `json:"values,omitempty"`
	ReadMBps, WriteMBps int64
}

// Main runs the probes that args name, separated by "--", one after another, and
// returns the exit code of the last.
//
//	disk <path> <bytes>      write until refused or done
//	memory <bytes>           allocate and touch
//	processes <count>        start that many processes
//	reach <address>…         connect by TCP, each for at most two seconds
//	look                     environment, devices, mounts and privileges
//	listen <port> <seconds>  accept, for the neighbour's side of a test
//	speed <path> <bytes>     write and read a file, past the cache
//	gpus <path>…             open what gives GPUs, for use
//	keep <path>              leave a file, to be found on the disk from outside
//	sleep <seconds>
func Main(args []string, out io.Writer) int {
	if i := slices.Index(args, "--"); i >= 0 {
		if code := Main(args[:i], out); code != 0 {
			return code
		}
		return Main(args[i+1:], out)
	}
	if len(args) == 0 {
		fmt.Fprintln(out, "a probe has to be named: disk, memory, processes, reach, look, listen, speed, gpus, keep or sleep")
		return 2
	}
	number := func(i int) int64 {
		if i >= len(args) {
			return 0
		}
		n, _ := strconv.ParseInt(args[i], 10, 64)
		return n
	}
	r := Result{Probe: args[0]}
	switch {
	case args[0] == "disk" && len(args) == 3:
		disk(&r, args[1], number(2))
	case args[0] == "memory" && len(args) == 2:
		memory(&r, number(1))
	case args[0] == "processes" && len(args) == 2:
		processes(&r, int(number(1)))
	case args[0] == "reach":
		reach(&r, args[1:])
	case args[0] == "look":
		look(&r)
	case args[0] == "listen" && len(args) == 3:
		return listen(args[1], time.Duration(number(2))*time.Second)
	case args[0] == "keep" && len(args) == 2:
		keep(&r, args[1])
	case args[0] == "speed" && len(args) == 3:
		speed(&r, args[1], number(2))
	case args[0] == "gpus":
		gpus(&r, args[1:])
	case args[0] == "sleep" && len(args) == 2:
		<-time.After(time.Duration(number(1)) * time.Second)
		return 0
	default:
		fmt.Fprintf(out, "no probe %q with %d arguments\n", args[0], len(args)-1)
		return 2
	}
	b, err := json.Marshal(r)
	if err != nil {
		return 1
	}
	fmt.Fprintf(out, "%s\n", b)
	return 0
}

func disk(r *Result, path string, bytes int64) {
	f, err := os.Create(path)
	if err != nil {
		r.Detail = err.Error()
		return
	}
	defer os.Remove(path)
	defer f.Close()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 7)
	}
	for r.Reached < bytes {
		n, err := f.Write(block)
		r.Reached += int64(n)
		if err == nil && r.Reached%(16<<20) == 0 {
			err = f.Sync() // a delayed allocation must not hide the limit
		}
		if err != nil {
			r.Stopped, r.Detail = true, err.Error()
			return
		}
	}
}

func keep(r *Result, path string) {
	f, err := os.Create(path)
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	r.Stopped = err != nil
	if err != nil {
		r.Detail = err.Error()
	}
}

func memory(r *Result, bytes int64) {
	const piece = 4 << 20
	var held [][]byte
	// Said before each step: who is killed says nothing afterwards.
	for r.Reached < bytes {
		b, err := unix.Mmap(-1, 0, piece, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		if err != nil {
			r.Stopped, r.Detail = true, err.Error()
			return
		}
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		held = append(held, b)
		r.Reached += piece
	}
	r.Detail = fmt.Sprintf("%d pieces are held", len(held))
}

func processes(r *Result, count int) {
	self, err := os.Executable()
	if err != nil {
		r.Detail = err.Error()
		return
	}
	var started []*exec.Cmd
	defer func() {
		for _, c := range started {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}()
	for range count {
		c := exec.Command(self, "instance", "probe", "sleep", "60")
		if err := c.Start(); err != nil {
			r.Stopped, r.Detail = true, err.Error()
			return
		}
		started = append(started, c)
		r.Reached++
	}
}

func reach(r *Result, addresses []string) {
	type answer struct {
		address string
		open    bool
		why     string
	}
	answers := make(chan answer)
	for _, a := range addresses {
		go func() {
			c, err := net.DialTimeout("tcp", a, 2*time.Second)
			if err == nil {
				_ = c.Close()
				answers <- answer{a, true, "answered"}
				return
			}
			// A refusal is an answer too: the packet came through and back.
			answers <- answer{a, errors.Is(err, unix.ECONNREFUSED), err.Error()}
		}()
	}
	r.Values = map[string]string{}
	for range addresses {
		a := <-answers
		r.Values[a.address] = a.why
		if a.open {
			r.Open = append(r.Open, a.address)
		}
	}
	slices.Sort(r.Open)
	r.Stopped = len(r.Open) == 0
}

func look(r *Result) {
	r.Values = map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, ok := strings.Cut(kv, "="); ok {
			r.Values["env "+k] = v
		}
	}
	if b, err := os.ReadFile("/proc/self/status"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && (strings.HasPrefix(k, "Cap") || k == "NoNewPrivs" || k == "Seccomp") {
				r.Values[k] = strings.TrimSpace(v)
			}
		}
	}
	entries, _ := os.ReadDir("/dev")
	var devices []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "nvidia") || e.Name() == "kfd" || e.Name() == "dri" || strings.HasPrefix(e.Name(), "sd") || strings.HasPrefix(e.Name(), "vd") || strings.HasPrefix(e.Name(), "loop") || e.Name() == "mem" || e.Name() == "kmsg" {
			devices = append(devices, e.Name())
		}
	}
	r.Values["devices"] = strings.Join(devices, ",")
	if b, err := exec.Command("/usr/bin/nvidia-smi", "-L").Output(); err == nil {
		r.Values["nvidia-smi"] = string(b)
	}
	r.Values["socket families"] = strings.Join(families(), ",")
	if _, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, 0, 0); errno == unix.EPERM || errno == unix.ENOSYS {
		r.Values["io_uring"] = "refused"
	}
	r.Open = opened()
}

// families lists the socket families that can be opened and should not be: by
// AF_VSOCK a virtual machine talks to its hypervisor and its neighbours, past every
// firewall, and the others are parts of the kernel that no renter needs.
func families() []string {
	var open []string
	for _, f := range []struct {
		name         string
		family, kind int
	}{
		{"AF_VSOCK", unix.AF_VSOCK, unix.SOCK_STREAM}, {"AF_ALG", unix.AF_ALG, unix.SOCK_SEQPACKET}, {"AF_KEY", unix.AF_KEY, unix.SOCK_RAW},
		{"AF_PACKET", unix.AF_PACKET, unix.SOCK_RAW}, {"AF_RDS", unix.AF_RDS, unix.SOCK_SEQPACKET}, {"AF_TIPC", unix.AF_TIPC, unix.SOCK_STREAM},
		{"AF_XDP", unix.AF_XDP, unix.SOCK_RAW}, {"AF_CAN", unix.AF_CAN, unix.SOCK_RAW}, {"AF_BLUETOOTH", unix.AF_BLUETOOTH, unix.SOCK_STREAM},
	} {
		// A kernel without the family refuses, too.
		if fd, err := unix.Socket(f.family, f.kind|unix.SOCK_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
			open = append(open, f.name)
		}
	}
	return open
}

// opened lists the GPUs whose device nodes can be opened, by UUID: a node that is
// there but refused by the device rules does not count. The kernel driver's own
// files name them, so that no library of NVIDIA's is needed in the image.
func opened() []string {
	var uuids []string
	infos, _ := filepath.Glob("/proc/driver/nvidia/gpus/*/information")
	for _, p := range infos {
		b, err := os.ReadFile(p)
		if err != nil {
			continue
		}
		uuid, minor := "", ""
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(line, ":")
			switch strings.TrimSpace(k) {
			case "GPU UUID":
				uuid = strings.TrimSpace(v)
			case "Device Minor":
				minor = strings.TrimSpace(v)
			}
		}
		if f, err := os.OpenFile("/dev/nvidia"+minor, os.O_RDWR, 0); err == nil {
			_ = f.Close()
			uuids = append(uuids, uuid)
		}
	}
	return uuids
}

func listen(port string, d time.Duration) int {
	l, err := net.Listen("tcp", ":"+port)
	if err != nil {
		return 1
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	<-time.After(d)
	return 0
}

func speed(r *Result, path string, bytes int64) {
	f, err := os.Create(path)
	if err != nil {
		r.Detail = err.Error()
		return
	}
	defer os.Remove(path)
	defer f.Close()
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 31)
	}
	begin := time.Now()
	for n := int64(0); n < bytes; n += int64(len(block)) {
		if _, err := f.Write(block); err != nil {
			r.Detail = err.Error()
			return
		}
	}
	if err := f.Sync(); err != nil {
		r.Detail = err.Error()
		return
	}
	r.WriteMBps = perSecond(bytes, time.Since(begin))
	// What is in the page cache says nothing about the disk.
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		r.Detail = err.Error()
		return
	}
	begin = time.Now()
	n, err := io.Copy(io.Discard, struct{ io.Reader }{f})
	if err != nil {
		r.Detail = err.Error()
		return
	}
	r.ReadMBps = perSecond(n, time.Since(begin))
	r.Reached = n
}

// perSecond is in megabytes of a million bytes.
func perSecond(bytes int64, d time.Duration) int64 {
	if d <= 0 {
		d = time.Nanosecond
	}
	return bytes * int64(time.Second) / int64(d) / 1_000_000
}
