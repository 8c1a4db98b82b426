package instance

import (
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"
)

// processes starts and awaits processes. In a container we are the first
// process, to which every orphan comes, and must reap them all; a wait for "any
// child" also takes the children that somebody else is waiting for. So there is
// one place that starts and reaps, and os/exec is not used in this package.
type processes struct {
	mu      sync.Mutex
	waiting map[int]chan syscall.WaitStatus
	all     bool // reap every child of this process, not only those in waiting
}

// reaperPoll is a safety net for a SIGCHLD that was merged with another.
const reaperPoll = time.Second

// newProcesses returns a starter. With all set it reaps until stop is closed.
func newProcesses(all bool, stop <-chan struct{}) *processes {
	p := &processes{waiting: map[int]chan syscall.WaitStatus{}, all: all}
	if all {
		ended := make(chan os.Signal, 8)
		signal.Notify(ended, syscall.SIGCHLD)
		go p.reap(ended, stop)
	}
	return p
}

func (p *processes) reap(ended chan os.Signal, stop <-chan struct{}) {
	defer signal.Stop(ended)
	tick := time.NewTicker(reaperPoll)
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ended:
		case <-tick.C:
		}
		for p.reapOne() {
		}
	}
}

// reapOne holds the lock, so that a child cannot be reaped before start has
// written down who waits for it.
func (p *processes) reapOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
	if err != nil || pid <= 0 {
		return errors.Is(err, syscall.EINTR)
	}
	if c, ok := p.waiting[pid]; ok && (status.Exited() || status.Signaled()) {
		delete(p.waiting, pid)
		c <- status
	}
	return true
}

// process is a child.
type process struct {
	pid   int
	ended <-chan syscall.WaitStatus
}

// start runs argv with files as its descriptors 0, 1, 2, …; the caller closes
// its own copies of them. argv[0] may differ from path.
func (p *processes) start(path string, argv []string, attr *syscall.ProcAttr) (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return nil, err
	}
	c := make(chan syscall.WaitStatus, 1)
	if p.all {
		p.waiting[pid] = c
	} else {
		go func() { // ends with the child
			var status syscall.WaitStatus
			for {
				_, err := syscall.Wait4(pid, &status, 0, nil)
				if !errors.Is(err, syscall.EINTR) {
					break
				}
			}
			c <- status
		}()
	}
	return &process{pid: pid, ended: c}, nil
}

// exitCode is what a shell would show for a status.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}
