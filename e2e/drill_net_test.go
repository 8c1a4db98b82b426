package e2e

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// site is a network of namespaces on one bridge: each part of a cloud is in one of
// its own, as on a machine of its own.
type site struct {
	tag    string // in the names of interfaces, 15 characters at most with the rest
	subnet string // first three bytes
	parts  []*part
}

// part is one machine.
type part struct {
	name, netns, address string
	site                 *site
}

func shell(args ...string) error {
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func newSite(t *testing.T, names ...string) *site {
	t.Helper()
	id := os.Getpid() % 10000
	s := &site{tag: fmt.Sprintf("sd%d", id), subnet: fmt.Sprintf("10.%d.%d", 180+id/250%20, id%250)}
	t.Cleanup(func() {
		for _, p := range s.parts {
			_ = shell("ip", "netns", "del", p.netns)
		}
		_ = shell("ip", "link", "del", s.tag)
		_ = shell("ip", "netns", "del", s.tag+"-net")
	})
	must := func(args ...string) {
		if err := shell(args...); err != nil {
			t.Fatal(err)
		}
	}
	// The bridge has a namespace of its own, too: this machine's packet filter, which
	// a container engine may have set up, is none of the site's.
	net := s.tag + "-net"
	must("ip", "netns", "add", net)
	must("ip", "-n", net, "link", "add", "lan", "type", "bridge")
	must("ip", "-n", net, "link", "set", "lan", "up")
	must("ip", "link", "add", s.tag, "type", "veth", "peer", "name", "here", "netns", net)
	must("ip", "-n", net, "link", "set", "here", "master", "lan", "up")
	must("ip", "addr", "add", s.subnet+".254/24", "dev", s.tag)
	must("ip", "link", "set", s.tag, "up")
	for i, name := range names {
		p := &part{name: name, netns: s.tag + "-" + name, address: fmt.Sprintf("%s.%d", s.subnet, i+1), site: s}
		s.parts = append(s.parts, p)
		must("ip", "netns", "add", p.netns)
		must("ip", "-n", net, "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", p.netns)
		must("ip", "-n", net, "link", "set", name, "master", "lan", "up")
		for _, c := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", p.address + "/24", "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"route", "add", "default", "via", s.subnet + ".254"}} {
			must(append([]string{"ip", "-n", p.netns}, c...)...)
		}
	}
	return s
}

func (s *site) part(name string) *part {
	return s.parts[slices.IndexFunc(s.parts, func(p *part) bool { return p.name == name })]
}

// inside runs fn with the part's network; processes that it starts have it, too.
func (p *part) inside(fn func() error) error {
	goruntime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		goruntime.UnlockOSThread()
		return err
	}
	defer own.Close()
	there, err := os.Open("/run/netns/" + p.netns)
	if err != nil {
		goruntime.UnlockOSThread()
		return err
	}
	defer there.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		goruntime.UnlockOSThread()
		return err
	}
	ferr := fn()
	if err := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); err != nil {
		return errors.Join(ferr, err) // the thread stays locked and ends with its goroutine
	}
	goruntime.UnlockOSThread()
	return ferr
}

// nft sets what the part's own packet filter does to what comes and goes; no rules
// is none. Its table is this test's alone.
func (p *part) nft(rules ...string) error {
	text := "table inet drill\ndelete table inet drill\n"
	if len(rules) > 0 {
		text += "table inet drill {\nchain in { type filter hook input priority -300;\n"
		for _, r := range rules {
			if in, ok := strings.CutPrefix(r, "in "); ok {
				text += in + "\n"
			}
		}
		text += "}\nchain out { type filter hook output priority -300;\n"
		for _, r := range rules {
			if out, ok := strings.CutPrefix(r, "out "); ok {
				text += out + "\n"
			}
		}
		text += "}\n}\n"
	}
	cmd := exec.Command("ip", "netns", "exec", p.netns, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("nft in %s: %w: %s", p.name, err, out)
	}
	return nil
}

// link is a TCP proxy between two parts that may be slow.
type link struct {
	ln    net.Listener
	to    string
	delay atomic.Int64 // nanoseconds, each way
}

func newLink(t *testing.T, listen, to string) *link {
	t.Helper()
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		t.Fatal(err)
	}
	l := &link{ln: ln, to: to}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go l.serve(c)
		}
	}()
	return l
}

func (l *link) serve(a net.Conn) {
	defer a.Close()
	b, err := net.DialTimeout("tcp", l.to, 10*time.Second)
	if err != nil {
		return
	}
	defer b.Close()
	var both sync.WaitGroup
	move := func(to, from net.Conn) {
		defer to.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := from.Read(buf)
			if n > 0 {
				if d := time.Duration(l.delay.Load()); d > 0 {
					<-time.After(d)
				}
				if _, werr := to.Write(buf[:n]); werr != nil {
					return
				}
			}
			if err != nil {
				return
			}
		}
	}
	both.Go(func() { move(a, b) })
	both.Go(func() { move(b, a) })
	both.Wait()
}

// postgres is a database server in a namespace, on a disk of its own.
type postgres struct {
	at        *part
	bin, disk string
	log       string
	p         *process
}

// newPostgres makes a server whose disk has room for mib MiB.
func newPostgres(t *testing.T, at *part, dir string, mib int) *postgres {
	t.Helper()
	bins, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(bins) == 0 {
		t.Skip("postgresql is not installed")
	}
	d := &postgres{at: at, bin: filepath.Dir(bins[len(bins)-1]), disk: filepath.Join(dir, "pgdisk"), log: filepath.Join(dir, "postgres.log")}
	steps := [][]string{{"mkdir", "-p", d.disk}, {"mount", "-t", "tmpfs", "-o", fmt.Sprintf("size=%dm,mode=0777", mib), "tmpfs", d.disk},
		{"runuser", "-u", "postgres", "--", d.bin + "/initdb", "-D", d.disk + "/data", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"},
		{"sh", "-c", "echo 'host all all 0.0.0.0/0 trust' >>" + d.disk + "/data/pg_hba.conf"}}
	t.Cleanup(func() {
		if d.p != nil {
			d.signal(syscall.SIGCONT)
			_ = d.p.end(syscall.SIGQUIT)
		}
		_ = shell("umount", "-l", d.disk)
	})
	// The folders above belong to root alone; the server runs as another user.
	for at := d.disk; len(at) > len(os.TempDir()); at = filepath.Dir(at) {
		if filepath.Dir(at) != d.disk {
			_ = os.Chmod(filepath.Dir(at), 0o755)
		}
	}
	for _, s := range steps {
		cmd := exec.Command(s[0], s[1:]...)
		cmd.Dir = "/"
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", s, err, out)
		}
	}
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *postgres) start() error {
	return d.at.inside(func() (err error) {
		d.p, err = startProgram(d.log, "/usr/bin/setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups", d.bin+"/postgres", "-D", d.disk+"/data", "-k", d.disk,
			"-c", "listen_addresses=*", "-c", "max_connections=200", "-c", "fsync=off", "-c", "full_page_writes=off", "-c", "shared_buffers=32MB",
			"-c", "max_wal_size=64MB", "-c", "min_wal_size=32MB", "-c", "wal_keep_size=0")
		return err
	})
}

// up starts the server if it has ended.
func (d *postgres) up() error {
	select {
	case <-d.p.done:
		return d.start()
	default:
		return nil
	}
}

// processes are the server's, the first one first.
func (d *postgres) processes() []int {
	var all []int
	pidfile, err := os.ReadFile(d.disk + "/data/postmaster.pid")
	if err != nil {
		return nil
	}
	var first int
	if _, err := fmt.Sscan(string(pidfile), &first); err != nil {
		return nil
	}
	all = append(all, first)
	children, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", first, first))
	r := strings.NewReader(string(children))
	for {
		var pid int
		if _, err := fmt.Fscan(r, &pid); err != nil {
			return all
		}
		all = append(all, pid)
	}
}

func (d *postgres) signal(sig syscall.Signal) {
	for _, pid := range d.processes() {
		_ = syscall.Kill(pid, sig)
	}
}

// fill takes all that is free on the server's disk; the returned function gives it back.
func (d *postgres) fill() (func() error, error) {
	name := filepath.Join(d.disk, "filler")
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for {
		if _, err := f.Write(zeros); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return func() error { return os.Remove(name) }, nil
			}
			return nil, errors.Join(err, os.Remove(name))
		}
	}
}

// quiet is for proxies, whose targets fail on purpose.
var quiet = log.New(io.Discard, "", 0)
