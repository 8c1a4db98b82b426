package instance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

const (
	// rankGrace is how long processes have to end by themselves.
	rankGrace = 5 * time.Second
	// rankLine bounds a line of output; what is longer is cut into several.
	rankLine = 64 << 10
)

// The files of a job in its folder.
const (
	rankJobFile     = "job.json"
	rankStateFile   = "state.json"
	rankEventsFile  = "events.jsonl"
	rankFailureFile = "failure.json"
	rankLockFile    = "lock"
	rankPIDFile     = "pid"
)

var rankID = regexp.MustCompile(`^[a-z0-9-]{1,80}$`)

// ranksMain starts, asks after and ends the processes of a run on this node. They are
// looked after by a process of their own, which outlives whoever started it.
func ranksMain(args []string, in io.Reader, out io.Writer) error {
	if len(args) == 0 {
		return errors.New("want start, status ID, stop ID, attend ID or supervise FOLDER")
	}
	if args[0] == "start" {
		var job protocol.RankJob
		if err := json.NewDecoder(in).Decode(&job); err != nil {
			return fmt.Errorf("read the job: %w", err)
		}
		return startRanks(job, out)
	}
	if len(args) < 2 {
		return fmt.Errorf("%s of what?", args[0])
	}
	if args[0] == "supervise" {
		return supervise(args[1])
	}
	dir, err := rankDir("", args[1])
	if err != nil {
		return err
	}
	switch args[0] {
	case "status":
		return json.NewEncoder(out).Encode(rankStatus(dir))
	case "stop":
		return stopRanks(dir, in, out)
	case "attend":
		return attendRanks(dir, len(args) > 2 && args[2] == "follow", out)
	}
	return fmt.Errorf("%q is none of start, status, stop, attend, supervise", args[0])
}

// rankDir is the folder of a job. What an image has of folders is not known.
func rankDir(base, id string) (string, error) {
	if !rankID.MatchString(id) {
		return "", fmt.Errorf("job %q: want 1 to 80 of a-z, 0-9 and -", id)
	}
	if base != "" {
		return filepath.Join(base, id), nil
	}
	for _, base := range []string{"/tmp", os.Getenv("HOME"), protocol.InstanceRunDir} {
		own := filepath.Join(base, fmt.Sprintf(".suanli-ranks-%d", os.Getuid()))
		if base != "" && os.MkdirAll(own, 0o700) == nil {
			return filepath.Join(own, id), nil
		}
	}
	return "", errors.New("there is no folder that can be written to, neither /tmp nor the home folder")
}

// startRanks starts a job, unless it was started before.
func startRanks(job protocol.RankJob, out io.Writer) error {
	dir, err := rankDir(job.Folder, job.ID)
	if err != nil {
		return err
	}
	if len(job.Command) == 0 || job.PerNode < 1 || job.Nodes < 1 {
		return errors.New("a job needs a command, processes and nodes")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if st := rankStatus(dir); st.State != protocol.RanksAbsent {
		return json.NewEncoder(out).Encode(st)
	}
	b, err := json.Marshal(job)
	if err == nil {
		err = writeWhole(filepath.Join(dir, rankJobFile), b)
	}
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, "instance", "ranks", "supervise", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // it goes on when this session ends
	if err := cmd.Start(); err != nil {
		return err
	}
	if err := cmd.Process.Release(); err != nil {
		return err
	}
	// It has begun when it says so; two that start at once are told apart by its lock.
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
		if st := rankStatus(dir); st.State != protocol.RanksAbsent {
			return json.NewEncoder(out).Encode(st)
		}
		wait(20 * time.Millisecond)
	}
	return errors.New("the processes were not begun within 5 s")
}

func wait(d time.Duration) { <-time.After(d) }

func writeWhole(path string, b []byte) error {
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// rankStatus reads how a job is.
func rankStatus(dir string) protocol.RankStatus {
	var st protocol.RankStatus
	b, err := os.ReadFile(filepath.Join(dir, rankStateFile))
	if err != nil || json.Unmarshal(b, &st) != nil {
		return protocol.RankStatus{State: protocol.RanksAbsent}
	}
	if st.State == protocol.RanksRunning && !locked(dir) {
		// It may have ended between the two looks.
		if b, err := os.ReadFile(filepath.Join(dir, rankStateFile)); err == nil && json.Unmarshal(b, &st) == nil && st.State == protocol.RanksRunning {
			st.State = protocol.RanksLost
		}
	}
	if events, err := os.Stat(filepath.Join(dir, rankEventsFile)); err == nil {
		st.Printed = events.Size()
	}
	return st
}

// locked reports whether somebody looks after a job.
func locked(dir string) bool {
	f, err := os.OpenFile(filepath.Join(dir, rankLockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
}

// stopRanks tells the processes why they end and has them ended. It does not wait.
func stopRanks(dir string, in io.Reader, out io.Writer) error {
	st := rankStatus(dir)
	if st.State == protocol.RanksRunning {
		var f protocol.PeerFailure
		if err := json.NewDecoder(in).Decode(&f); err == nil {
			b, err := json.Marshal(f)
			if err == nil {
				err = writeWhole(filepath.Join(dir, rankFailureFile), b)
			}
			if err != nil {
				return err
			}
		}
		b, err := os.ReadFile(filepath.Join(dir, rankPIDFile))
		if err != nil {
			return err
		}
		pid, err := strconv.Atoi(string(b))
		if err != nil {
			return err
		}
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return json.NewEncoder(out).Encode(st)
}

// attendRanks prints what a job's processes have printed, and with follow what they
// print, until they are done.
func attendRanks(dir string, follow bool, out io.Writer) error {
	f, err := os.Open(filepath.Join(dir, rankEventsFile))
	for err != nil && follow && errors.Is(err, fs.ErrNotExist) {
		wait(100 * time.Millisecond)
		f, err = os.Open(filepath.Join(dir, rankEventsFile))
	}
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, rankLine*2)
	var rest []byte
	for {
		part, err := in.ReadBytes('\n')
		rest = append(rest, part...)
		if err == nil {
			if _, err := out.Write(rest); err != nil {
				return err
			}
			var e protocol.RankEvent
			if json.Unmarshal(rest, &e) == nil && e.Done {
				return nil
			}
			rest = rest[:0]
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if !follow || rankStatus(dir).State == protocol.RanksLost {
			return nil
		}
		wait(100 * time.Millisecond)
	}
}

// supervisor looks after the processes of a job.
type supervisor struct {
	job protocol.RankJob
	dir string

	mu     sync.Mutex
	status protocol.RankStatus
	events *os.File
	also   *os.File // the container's own output; nil: it is not this user's to write
}

// supervise runs a job to its end.
func supervise(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, rankLockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil // another one was first
	}
	if _, err := os.Stat(filepath.Join(dir, rankStateFile)); err == nil {
		return nil // it ran before; nothing runs twice
	}
	s := &supervisor{dir: dir}
	b, err := os.ReadFile(filepath.Join(dir, rankJobFile))
	if err == nil {
		err = json.Unmarshal(b, &s.job)
	}
	if err == nil {
		err = writeWhole(filepath.Join(dir, rankPIDFile), []byte(strconv.Itoa(os.Getpid())))
	}
	if err == nil {
		s.events, err = os.OpenFile(filepath.Join(dir, rankEventsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return err
	}
	defer s.events.Close()
	// What is printed is among the instance's own output too, which is kept after its end.
	if _, err := os.Stat(protocol.InstanceConfig); err == nil {
		if s.also, err = os.OpenFile("/proc/1/fd/1", os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			defer s.also.Close()
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return s.run(ctx)
}

func (s *supervisor) run(ctx context.Context) error {
	for i := range s.job.PerNode {
		s.status.Ranks = append(s.status.Ranks, protocol.Rank{Rank: s.job.NodeRank*s.job.PerNode + i})
	}
	s.status.State = protocol.RanksRunning
	if err := s.save(); err != nil {
		return err
	}
	inner, failed := context.WithCancel(ctx)
	defer failed()
	var all sync.WaitGroup
	for i := range s.job.PerNode {
		all.Go(func() {
			code := s.one(inner, i)
			s.mu.Lock()
			defer s.mu.Unlock()
			first := code != 0 && inner.Err() == nil
			s.status.Ranks[i].ExitCode, s.status.Ranks[i].First = &code, first
			s.event(protocol.RankEvent{Rank: s.status.Ranks[i].Rank, ExitCode: &code})
			_ = s.save()
			if code != 0 {
				failed() // the others of this node wait for it in vain
			}
		})
	}
	all.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status.State, s.status.Stopped = protocol.RanksDone, ctx.Err() != nil
	s.event(protocol.RankEvent{Done: true})
	return s.save()
}

// one runs one process and returns its exit code.
func (s *supervisor) one(ctx context.Context, local int) int {
	rank := s.job.NodeRank*s.job.PerNode + local
	cmd := exec.Command(s.job.Command[0], s.job.Command[1:]...)
	cmd.Env = s.environment(local)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Dir = os.Getenv("PWD")
	read, write, err := os.Pipe()
	if err != nil {
		s.say(rank, "suanli: the command was not run: "+err.Error())
		return exitNotExecutable
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		read.Close()
		s.say(rank, "suanli: the command was not run: "+err.Error())
		if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
			return exitNotFound
		}
		return exitNotExecutable
	}
	printed := make(chan struct{})
	go func() { defer close(printed); s.copy(rank, read) }()
	ended := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		select {
		case <-ended:
			return
		case <-ctx.Done():
		}
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) // the group may have ended
		select {
		case <-ended:
		case <-time.After(rankGrace):
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
	}()
	err = cmd.Wait()
	close(ended)
	<-stopped
	// What it left behind may hold its output open; the process itself counts.
	select {
	case <-printed:
	case <-time.After(time.Second):
		_ = read.SetReadDeadline(time.Now())
		<-printed
	}
	read.Close()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit):
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok {
			return exitCode(ws)
		}
		return exit.ExitCode()
	}
	return exitNotExecutable
}

func (s *supervisor) environment(local int) []string {
	env := os.Environ()
	j := s.job
	for k, v := range j.Environment {
		env = setenv(env, k, v)
	}
	rank, world := strconv.Itoa(j.NodeRank*j.PerNode+local), strconv.Itoa(j.Nodes*j.PerNode)
	for _, v := range [][2]string{
		{"RANK", rank}, {"LOCAL_RANK", strconv.Itoa(local)}, {"WORLD_SIZE", world}, {"LOCAL_WORLD_SIZE", strconv.Itoa(j.PerNode)}, {"GROUP_RANK", strconv.Itoa(j.NodeRank)},
		{"NODE_RANK", strconv.Itoa(j.NodeRank)}, {"NNODES", strconv.Itoa(j.Nodes)}, {"MASTER_ADDR", j.MasterName}, {"MASTER_PORT", strconv.Itoa(j.MasterPort)},
		{"SLURM_PROCID", rank}, {"SLURM_LOCALID", strconv.Itoa(local)}, {"SLURM_NTASKS", world}, {"SLURM_NTASKS_PER_NODE", strconv.Itoa(j.PerNode)},
		{"SUANLI_RUN_ID", j.ID}, {"SUANLI_ATTEMPT", strconv.Itoa(j.Attempt)}, {"SUANLI_FAILURE_FILE", filepath.Join(s.dir, rankFailureFile)},
	} {
		env = setenv(env, v[0], v[1])
	}
	return env
}

// copy passes on what a process prints, line by line.
func (s *supervisor) copy(rank int, in io.Reader) {
	lines := bufio.NewReaderSize(in, rankLine)
	for {
		line, _, err := lines.ReadLine()
		if err != nil {
			return
		}
		s.say(rank, string(line))
	}
}

func (s *supervisor) say(rank int, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.event(protocol.RankEvent{Rank: rank, Line: line})
	if s.also != nil {
		_, _ = fmt.Fprintf(s.also, "[%d] %s\n", rank, line)
	}
}

// event writes one down. The caller holds mu.
func (s *supervisor) event(e protocol.RankEvent) {
	b, err := json.Marshal(e)
	if err == nil {
		_, _ = s.events.Write(append(b, '\n')) // a full disk must not end what computes
	}
}

// save keeps the status. The caller holds mu, or is alone.
func (s *supervisor) save() error {
	b, err := json.Marshal(s.status)
	if err != nil {
		return err
	}
	return writeWhole(filepath.Join(s.dir, rankStateFile), b)
}
