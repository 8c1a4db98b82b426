package instance

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// drainTime is how long a terminal may be silent after its shell has ended
	// before it is closed: a background process may hold it open for ever.
	drainTime = 200 * time.Millisecond
	// Bounds on what a client may set.
	maxVariables    = 64
	maxVariableSize = 32 << 10
)

// noShell is what someone sees who asks for a shell in an image without one.
const noShell = "This image has no shell. A program in it can be run by its full path (ssh <instance> /path/to/program), files are copied with scp or sftp, and ports are forwarded with -L.\r\n"

// session is one SSH session: settings arrive, then at most one program runs.
type session struct {
	c       *connection
	channel ssh.Channel
	env     []string
	extra   int // variables that the client set

	mu       sync.Mutex
	terminal *os.File // master side; nil: none
	slave    *os.File
	pid      int
	started  bool
	agent    func()
	pipes    []*os.File    // our ends
	done     chan struct{} // closed when the channel is
	answered chan struct{} // closed when the request that started the program has its answer
}

// session serves a session channel until the program has ended and the channel
// is closed.
func (c *connection) session(ch ssh.NewChannel) {
	channel, requests, err := ch.Accept()
	if err != nil {
		return
	}
	s := &session{c: c, channel: channel, env: c.in.env, done: make(chan struct{}), answered: make(chan struct{})}
	defer s.close()
	for r := range requests {
		before := s.started
		ok := s.request(r)
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
		if !before && s.started {
			close(s.answered)
		}
	}
}

// close ends the session. A program on a terminal is hung up on, one on pipes
// finds them closed; either may choose to go on, as with OpenSSH.
func (s *session) close() {
	s.channel.Close()
	close(s.done)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal != nil {
		s.terminal.Close()
	}
	if s.slave != nil {
		s.slave.Close()
	}
	for _, f := range s.pipes {
		f.Close()
	}
	if s.agent != nil {
		s.agent()
	}
}

// request acts on one request. Requests come one after the other.
func (s *session) request(r *ssh.Request) bool {
	switch r.Type {
	case "env":
		var v struct{ Name, Value string }
		return ssh.Unmarshal(r.Payload, &v) == nil && s.setenv(v.Name, v.Value)
	case "pty-req":
		return s.openTerminal(r.Payload)
	case "window-change":
		return s.resize(r.Payload)
	case "auth-agent-req@openssh.com":
		return s.forwardAgent()
	case "shell":
		return s.shell()
	case "exec":
		var v struct{ Command string }
		return ssh.Unmarshal(r.Payload, &v) == nil && s.exec(v.Command)
	case "subsystem":
		var v struct{ Name string }
		return ssh.Unmarshal(r.Payload, &v) == nil && v.Name == "sftp" && s.sftp()
	case "signal":
		var v struct{ Name string }
		return ssh.Unmarshal(r.Payload, &v) == nil && s.signal(v.Name)
	}
	return false
}

func (s *session) setenv(name, value string) bool {
	if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") ||
		len(name)+len(value) > maxVariableSize || s.extra >= maxVariables {
		return false
	}
	s.extra++
	s.env = setenv(s.env, name, value)
	return true
}

func (s *session) openTerminal(payload []byte) bool {
	var v struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if s.terminal != nil || s.started || ssh.Unmarshal(payload, &v) != nil {
		return false
	}
	master, slave, err := openPTY()
	if err != nil {
		s.c.in.log.Warn("no terminal", "error", err)
		return false
	}
	s.mu.Lock()
	s.terminal, s.slave = master, slave
	s.mu.Unlock()
	if !s.c.in.account.root() {
		// Fails where the image has its own /dev; the terminal works all the same.
		_ = os.Chown(slave.Name(), int(s.c.in.account.uid), int(s.c.in.account.gid))
	}
	s.setSize(v.Columns, v.Rows)
	s.env = setenv(s.env, "TERM", v.Term)
	s.env = setenv(s.env, "SSH_TTY", slave.Name())
	return true
}

func (s *session) resize(payload []byte) bool {
	var v struct{ Columns, Rows, Width, Height uint32 }
	if ssh.Unmarshal(payload, &v) != nil || s.terminal == nil {
		return false
	}
	s.setSize(v.Columns, v.Rows)
	return true
}

func (s *session) setSize(columns, rows uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = setSize(s.terminal, columns, rows) // a wrong size is an ugly screen and no more
}

func (s *session) forwardAgent() bool {
	if s.agent != nil {
		return true
	}
	path, remove, err := s.c.listenAgent()
	if err != nil {
		s.c.in.log.Warn("no agent forwarding", "error", err)
		return false
	}
	s.mu.Lock()
	s.agent = remove
	s.mu.Unlock()
	s.env = setenv(s.env, "SSH_AUTH_SOCK", path)
	return true
}

var signals = map[string]syscall.Signal{
	"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "FPE": syscall.SIGFPE, "HUP": syscall.SIGHUP,
	"ILL": syscall.SIGILL, "INT": syscall.SIGINT, "KILL": syscall.SIGKILL, "PIPE": syscall.SIGPIPE,
	"QUIT": syscall.SIGQUIT, "SEGV": syscall.SIGSEGV, "TERM": syscall.SIGTERM, "USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2,
}

func (s *session) signal(name string) bool {
	sig, ok := signals[name]
	s.mu.Lock()
	defer s.mu.Unlock()
	return ok && s.pid > 0 && syscall.Kill(-s.pid, sig) == nil
}

// shell runs a login shell.
func (s *session) shell() bool {
	sh := s.c.in.account.shell
	if sh == "" {
		return s.fail(noShell, exitNotFound)
	}
	s.env = setenv(s.env, "SHELL", sh)
	return s.run(sh, []string{"-" + filepath.Base(sh)}, s.c.in.account.home)
}

// exec runs a command by the user's shell, or itself where there is none.
func (s *session) exec(command string) bool {
	dir := s.c.in.account.home
	if sh := s.c.in.account.shell; sh != "" {
		s.env = setenv(s.env, "SHELL", sh)
		return s.run(sh, []string{filepath.Base(sh), "-c", command}, dir)
	}
	words, err := splitWords(command)
	if err != nil {
		return s.fail(fmt.Sprintf("%q: %v\r\n", command, err), exitNotFound)
	}
	path, err := lookPath(words[0], dir, s.env)
	if err != nil {
		return s.fail(err.Error()+"\r\n"+noShell, exitNotFound)
	}
	return s.run(path, words, dir)
}

func (s *session) sftp() bool {
	// The kernel resolves the link in the child, before it becomes the new
	// program: this works even where the binary is mounted elsewhere.
	return s.run("/proc/self/exe", []string{"suanli", "instance", "sftp-server"}, s.c.in.account.home)
}

// fail tells the client why nothing runs. The request itself succeeds, or the
// client would show its own, less helpful words.
func (s *session) fail(message string, code int) bool {
	if s.started {
		return false
	}
	s.started = true
	s.c.work.Go(func() {
		_, _ = io.WriteString(s.channel.Stderr(), message)
		s.exit(exitStatus(code))
	})
	return true
}

// exitStatus makes a wait status of an exit code.
func exitStatus(code int) syscall.WaitStatus { return syscall.WaitStatus(code << 8) }

// run starts a program on the session. It reports whether it was started, or the
// client has been told why not.
func (s *session) run(path string, argv []string, dir string) bool {
	if s.started {
		return false
	}
	if s.terminal != nil {
		return s.runOnTerminal(path, argv, dir)
	}
	return s.runOnPipes(path, argv, dir)
}

func (s *session) runOnTerminal(path string, argv []string, dir string) bool {
	fd := s.slave.Fd()
	p, err := s.c.in.children.start(path, argv, &syscall.ProcAttr{
		Dir: dir, Env: s.env, Files: []uintptr{fd, fd, fd},
		Sys: s.c.in.become(&syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}),
	})
	if err != nil {
		return s.fail(explainExec(path, err).Error()+"\r\n", exitNotExecutable)
	}
	s.mu.Lock()
	s.started, s.pid = true, p.pid
	s.slave.Close() // the child's copy keeps it open
	s.slave = nil
	s.mu.Unlock()

	ended := make(chan struct{})
	drained := make(chan struct{})
	s.c.work.Go(func() { // ends when the channel or the terminal does
		_, _ = io.Copy(s.terminal, s.channel)
	})
	s.c.work.Go(func() {
		defer close(drained)
		s.drainTerminal(ended)
	})
	s.c.work.Go(func() {
		var status syscall.WaitStatus
		select {
		case status = <-p.ended:
		case <-s.done:
			return
		}
		close(ended)
		_ = s.terminal.SetReadDeadline(time.Now().Add(drainTime))
		<-drained
		s.exit(status)
	})
	return true
}

// drainTerminal sends what the terminal shows until it is closed or, after the
// shell has ended, has been silent for drainTime.
func (s *session) drainTerminal(ended <-chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		select {
		case <-ended:
			// Anew each time: the client may be slow to take what was read.
			_ = s.terminal.SetReadDeadline(time.Now().Add(drainTime))
		default:
		}
		n, err := s.terminal.Read(buffer)
		if n > 0 {
			if _, err := s.channel.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (s *session) runOnPipes(path string, argv []string, dir string) bool {
	var files [6]*os.File // read and write ends of input, output, errors
	for i := 0; i < len(files); i += 2 {
		var err error
		if files[i], files[i+1], err = os.Pipe(); err != nil {
			for _, f := range files[:i] {
				f.Close()
			}
			return s.fail(err.Error()+"\r\n", exitNotExecutable)
		}
	}
	theirs := []*os.File{files[0], files[3], files[5]}
	stdin, stdout, stderr := files[1], files[2], files[4]
	p, err := s.c.in.children.start(path, argv, &syscall.ProcAttr{
		Dir: dir, Env: s.env, Files: []uintptr{theirs[0].Fd(), theirs[1].Fd(), theirs[2].Fd()},
		Sys: s.c.in.become(&syscall.SysProcAttr{Setsid: true}),
	})
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		stdin.Close()
		stdout.Close()
		stderr.Close()
		return s.fail(explainExec(path, err).Error()+"\r\n", exitNotExecutable)
	}
	s.mu.Lock()
	s.started, s.pid = true, p.pid
	s.pipes = []*os.File{stdin, stdout, stderr}
	s.mu.Unlock()

	s.c.work.Go(func() {
		_, _ = io.Copy(stdin, s.channel)
		stdin.Close()
	})
	var output sync.WaitGroup
	output.Go(func() {
		_, _ = io.Copy(s.channel, stdout)
		stdout.Close() // a program that writes on gets SIGPIPE
	})
	output.Go(func() {
		_, _ = io.Copy(s.channel.Stderr(), stderr)
		stderr.Close()
	})
	s.c.work.Go(func() {
		// Output ends when every process that holds it has: as with OpenSSH, a
		// background process that should outlive the session redirects its own.
		output.Wait()
		select {
		case status := <-p.ended:
			s.exit(status)
		case <-s.done:
		}
	})
	return true
}

// exit tells the client how the program ended and closes the channel.
func (s *session) exit(status syscall.WaitStatus) {
	s.mu.Lock()
	s.pid = 0
	s.mu.Unlock()
	// A quick program ends before the client has been told that it started.
	select {
	case <-s.answered:
	case <-s.done:
		return
	}
	if status.Signaled() {
		name := "TERM"
		for n, sig := range signals {
			if sig == status.Signal() {
				name = n
			}
		}
		_, _ = s.channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
			Signal      string
			Core        bool
			Message     string
			LanguageTag string
		}{name, status.CoreDump(), "", ""}))
	} else {
		_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(status.ExitStatus())}))
	}
	// After the status: OpenSSH closes a channel when it sees the end of data.
	_ = s.channel.CloseWrite()
	s.channel.Close()
}
