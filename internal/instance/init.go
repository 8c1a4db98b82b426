package instance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"suanli.dev/internal/protocol"
)

// Exit codes of an instance whose command never ran, as shells give them.
const (
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSettings      = 125
)

// runInit is the life of a container's first process. It returns the exit code
// of the command, or of the start script when that failed.
func runInit(settingsPath, runDir string) int {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("from", "suanli")
	settings, err := readSettings(settingsPath)
	if err != nil {
		log.Error("the instance cannot start", "error", err)
		return exitSettings
	}
	who, err := lookUp(settings.User)
	if err != nil {
		log.Error("the instance cannot start", "error", err)
		return exitSettings
	}
	// The image's user goes through this folder to the start script and to the
	// sockets of forwarded agents, each of which is that user's alone.
	if err := os.Chmod(runDir, 0o755); err != nil {
		log.Warn("the run folder may be closed to the image's user", "error", err)
	}
	forgetInterruption(filepath.Join(runDir, interruptionFile))
	if err := writeHostfile(filepath.Join(runDir, protocol.InstanceHostfileName), settings.Cluster); err != nil {
		log.Warn("there is no list of the cluster's nodes", "error", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	in := &instance{
		settings: settings,
		account:  who,
		env:      environment(os.Environ(), settings, who),
		runDir:   runDir,
		children: newProcesses(os.Getpid() == 1, ctx.Done()),
		status:   newStatus(runDir, log),
		log:      log,
	}
	// Before anything is started: a signal that comes now would be lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	defer signal.Stop(signals)

	if ln, err := net.Listen("tcp", ":"+strconv.Itoa(protocol.InstanceSSHPort)); err != nil {
		// The command may still do its work.
		log.Error("SSH is not served", "error", err)
	} else {
		server, err := newServer(in)
		if err != nil {
			ln.Close()
			log.Error("SSH is not served", "error", err)
		} else {
			go server.serve(ctx, ln) // ends with ctx
		}
	}
	go in.status.run(ctx)
	if settings.Activity != nil {
		go in.watchActivity(ctx, *settings.Activity, activityEvery) // ends with ctx
	}

	code := in.run(signals)
	in.status.change(func(r *protocol.InstanceReport) { r.ExitCode = &code })
	return code
}

func readSettings(path string) (protocol.InstanceSettings, error) {
	var s protocol.InstanceSettings
	b, err := os.ReadFile(path)
	if err != nil {
		return s, fmt.Errorf("read the settings that the agent mounts: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("read the settings that the agent mounts: %w", err)
	}
	return s, nil
}

// environment is what the command and the sessions see: the image's variables,
// the renter's over them, and defaults for what neither sets.
func environment(image []string, s protocol.InstanceSettings, who account) []string {
	env := slices.Clone(image)
	for _, name := range slices.Sorted(mapKeys(s.Environment)) {
		env = setenv(env, name, s.Environment[name])
	}
	env = setDefault(env, "PATH", defaultPath)
	env = setDefault(env, "HOME", who.home)
	env = setDefault(env, "USER", who.name)
	env = setenv(env, "SUANLI_LEASE_ID", s.LeaseID)
	env = clusterEnvironment(env, s.Cluster)
	if s.Simulated {
		env = setenv(env, "SUANLI_SIMULATED_GPU", "1")
	}
	return env
}

func mapKeys[K comparable, V any](m map[K]V) func(yield func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// instance is what init, and the SSH server beside it, know.
type instance struct {
	settings protocol.InstanceSettings
	account  account
	env      []string
	runDir   string
	children *processes
	status   *status
	log      *slog.Logger
}

// workingDir is where commands start.
func (in *instance) workingDir() string {
	if d := in.settings.WorkingDir; d != "" {
		if fi, err := os.Stat(d); err == nil && fi.IsDir() {
			return d
		}
	}
	return "/"
}

// run runs the start script and the command and returns the exit code.
func (in *instance) run(signals <-chan os.Signal) int {
	if in.settings.StartScript != "" {
		code, stopped := in.runScript(signals)
		if code != 0 || stopped || len(in.settings.Command) == 0 {
			return code
		}
	}
	if len(in.settings.Command) == 0 {
		in.started()
		in.log.Info("no command: the instance stays up for SSH until it is stopped")
		awaitStop(signals)
		return 0
	}
	code, _ := in.runCommand(in.settings.Command, signals)
	return code
}

func (in *instance) started() {
	in.status.change(func(r *protocol.InstanceReport) { r.Started = true })
}

// awaitStop waits for a signal that asks to stop.
func awaitStop(signals <-chan os.Signal) {
	for s := range signals {
		if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT {
			return
		}
	}
}

// runScript runs the start script from a file: it may be longer than an argument can be.
func (in *instance) runScript(signals <-chan os.Signal) (code int, stopped bool) {
	if !executable("/bin/sh") {
		in.log.Error("the start script was not run: this image has no /bin/sh; give a command instead, or use an image with a shell")
		return exitNotFound, false
	}
	path := filepath.Join(in.runDir, "start.sh")
	err := os.WriteFile(path, []byte(in.settings.StartScript), 0o700)
	if err == nil && !in.account.root() {
		err = os.Chown(path, int(in.account.uid), int(in.account.gid))
	}
	if err != nil {
		in.log.Error("the start script was not run", "error", err)
		return exitNotExecutable, false
	}
	code, stopped = in.runCommand([]string{"/bin/sh", path}, signals)
	if code != 0 && !stopped {
		in.log.Error("the start script failed; the instance ends with its exit code", "exit_code", code)
	}
	return code, stopped
}

// runCommand runs argv in a process group of its own with the container's own
// output, and passes on the signals that it gets. stopped: one of them asked to stop.
func (in *instance) runCommand(argv []string, signals <-chan os.Signal) (code int, stopped bool) {
	dir := in.workingDir()
	path, err := lookPath(argv[0], dir, in.env)
	if err != nil {
		in.log.Error("the command was not run", "error", err)
		return exitNotFound, false
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		// An image need not have /dev/null; an empty pipe reads the same.
		if null, err = emptyPipe(); err != nil {
			in.log.Error("the command was not run", "error", err)
			return exitNotExecutable, false
		}
	}
	defer null.Close()
	p, err := in.children.start(path, argv, &syscall.ProcAttr{
		Dir:   dir,
		Env:   in.env,
		Files: []uintptr{null.Fd(), os.Stdout.Fd(), os.Stderr.Fd()},
		Sys:   in.become(&syscall.SysProcAttr{Setpgid: true}),
	})
	if err != nil {
		in.log.Error("the command was not run", "command", argv[0], "error", explainExec(path, err))
		return exitNotExecutable, false
	}
	in.started()
	for {
		select {
		case s := <-signals:
			if s == syscall.SIGTERM || s == syscall.SIGINT || s == syscall.SIGQUIT {
				stopped = true
			}
			_ = syscall.Kill(-p.pid, s.(syscall.Signal)) // the group may have ended
		case status := <-p.ended:
			return exitCode(status), stopped
		}
	}
}

func emptyPipe() (*os.File, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	w.Close()
	return r, nil
}

// become makes a child run as the image's user.
func (in *instance) become(sys *syscall.SysProcAttr) *syscall.SysProcAttr {
	// In a container that is one user without privileges, there is nothing to become:
	// even asking for the groups that it has would be refused.
	if !in.account.root() && int(in.account.uid) != os.Geteuid() {
		sys.Credential = &syscall.Credential{Uid: in.account.uid, Gid: in.account.gid, Groups: in.account.groups}
	}
	return sys
}

// explainExec says what the kernel's terse answer most often means.
func explainExec(path string, err error) error {
	switch {
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("%s is for another processor architecture, or a script without a #! line: %w", path, err)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is there, but the interpreter or loader that it names is not in the image: %w", path, err)
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("%s cannot be run as the image's user within the container's capabilities: %w", path, err)
	}
	return err
}
