package runtime

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"suanli.dev/internal/protocol"
)

// Sim runs instances in memory: no processes, no files. An instance runs until it
// is stopped, unless Script says otherwise. Its zero value is not usable; make it
// with NewSim. Only simulated hosts and tests use it.
type Sim struct {
	// Script, if set, is asked before each act and may make it fail or take time.
	Script func(act, leaseID string) error
	// Inside, if set, answers for what is run inside an instance; otherwise that
	// prints an empty object.
	Inside func(leaseID string, args []string) ([]byte, error)
	// Output is what every instance prints at its start.
	Output string

	mu      sync.Mutex
	items   map[string]*simInstance
	disks   map[string]int64
	volumes map[string]int64
	inside  map[string]string // what volumes have in them
	traffic map[string]Traffic
	watch   map[int]func(string)
	next    int
	diskMiB int64
}

type simInstance struct {
	state State
	out   string
}

// NewSim returns an empty simulated engine with room for diskMiB of disks.
func NewSim(diskMiB int64) *Sim {
	return &Sim{items: map[string]*simInstance{}, disks: map[string]int64{}, volumes: map[string]int64{}, inside: map[string]string{}, traffic: map[string]Traffic{}, watch: map[int]func(string){}, diskMiB: diskMiB}
}

func (s *Sim) act(ctx context.Context, act, lease string) error {
	if s.Script != nil {
		if err := s.Script(act, lease); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Info implements Driver.
func (s *Sim) Info(ctx context.Context) (Info, error) {
	if err := s.act(ctx, "info", ""); err != nil {
		return Info{}, err
	}
	return Info{Name: "sim", Isolation: []string{"sim"}, DiskQuota: "sim", DiskMiB: s.diskMiB}, nil
}

// Pull implements Driver.
func (s *Sim) Pull(ctx context.Context, r PullRequest) (Image, error) {
	if err := s.act(ctx, "pull", r.Reference); err != nil {
		return Image{}, err
	}
	return Image{ID: r.Reference}, nil
}

// Create implements Driver.
func (s *Sim) Create(ctx context.Context, c Container) error {
	if err := s.act(ctx, "create", c.LeaseID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.items[c.LeaseID]; ok {
		return fmt.Errorf("lease %s has a container", c.LeaseID)
	}
	for _, m := range c.Volumes {
		if _, ok := s.volumes[m.VolumeID]; !ok {
			return volumeMissing(m.VolumeID)
		}
	}
	if _, ok := s.disks[c.LeaseID]; !ok {
		s.disks[c.LeaseID] = c.DiskMiB
	}
	s.items[c.LeaseID] = &simInstance{state: State{LeaseID: c.LeaseID, Generation: c.Generation, Exists: true, NeverRan: true, GPUs: c.GPUUUIDs, DiskMiB: c.DiskMiB}}
	return nil
}

// Start implements Driver.
func (s *Sim) Start(ctx context.Context, lease string) error {
	if err := s.act(ctx, "start", lease); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.items[lease]
	if !ok {
		return fmt.Errorf("lease %s has no container", lease)
	}
	i.state.Running, i.state.NeverRan, i.state.StartedAt = true, false, time.Now()
	i.out += s.Output
	return nil
}

// Exit ends an instance from within, as its command would.
func (s *Sim) Exit(lease string, code int, oom bool) {
	s.mu.Lock()
	i, ok := s.items[lease]
	if ok {
		i.state.Running, i.state.ExitCode, i.state.OOMKilled, i.state.FinishedAt = false, code, oom, time.Now()
	}
	var notify []func(string)
	for _, w := range s.watch {
		notify = append(notify, w)
	}
	s.mu.Unlock()
	for _, w := range notify {
		w(lease)
	}
}

// Evict ends an instance as an engine does by itself, for a reason of its own.
func (s *Sim) Evict(lease, code, reason string) {
	s.mu.Lock()
	if i, ok := s.items[lease]; ok {
		i.state.Code, i.state.Reason = code, reason
	}
	s.mu.Unlock()
	s.Exit(lease, 137, false)
}

// Send lets an instance send bytes, for its meter.
func (s *Sim) Send(lease string, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.traffic[lease]
	t.Out += bytes
	s.traffic[lease] = t
}

// Disks lists the leases that have a disk.
func (s *Sim) Disks() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []string
	for d := range s.disks {
		l = append(l, d)
	}
	return l
}

// Stop implements Driver.
func (s *Sim) Stop(ctx context.Context, lease string, _ time.Duration) error {
	if err := s.act(ctx, "stop", lease); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.items[lease]; ok && i.state.Running {
		i.state.Running, i.state.ExitCode, i.state.FinishedAt = false, 143, time.Now()
	}
	return nil
}

// Remove implements Driver.
func (s *Sim) Remove(ctx context.Context, lease string) error {
	if err := s.act(ctx, "remove", lease); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.items[lease]; ok && i.state.Running {
		return errors.New("the instance still runs")
	}
	delete(s.items, lease)
	delete(s.traffic, lease)
	return nil
}

// Erase implements Driver.
func (s *Sim) Erase(ctx context.Context, lease string) error {
	if err := s.Remove(ctx, lease); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.disks, lease)
	return nil
}

// Inspect implements Driver.
func (s *Sim) Inspect(ctx context.Context, lease string) (State, error) {
	if err := s.act(ctx, "inspect", lease); err != nil {
		return State{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if i, ok := s.items[lease]; ok {
		return i.state, nil
	}
	return State{LeaseID: lease}, nil
}

// List implements Driver.
func (s *Sim) List(ctx context.Context) ([]State, error) {
	if err := s.act(ctx, "list", ""); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var l []State
	for _, i := range s.items {
		l = append(l, i.state)
	}
	return l, nil
}

// Watch implements Driver.
func (s *Sim) Watch(ctx context.Context, changed func(string)) error {
	s.mu.Lock()
	id := s.next
	s.next++
	s.watch[id] = changed
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	delete(s.watch, id)
	s.mu.Unlock()
	return ctx.Err()
}

// Stats implements Driver.
func (s *Sim) Stats(ctx context.Context, _ string) (Stats, error) { return Stats{}, ctx.Err() }

// Logs implements Driver.
func (s *Sim) Logs(ctx context.Context, lease string, _ protocol.LogOptions, w io.Writer) error {
	s.mu.Lock()
	i, ok := s.items[lease]
	out := ""
	if ok {
		out = i.out
	}
	s.mu.Unlock()
	if !ok {
		return ErrNotRunning
	}
	_, err := io.WriteString(w, out)
	return err
}

// Dial implements Driver: every port of a running instance echoes.
func (s *Sim) Dial(_ context.Context, lease string, _ int) (net.Conn, error) {
	s.mu.Lock()
	i, ok := s.items[lease]
	running := ok && i.state.Running
	s.mu.Unlock()
	if !running {
		return nil, ErrNotRunning
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, far)
	}()
	return near, nil
}

// Namespace implements Driver: there is none.
func (s *Sim) Namespace(ctx context.Context, lease string) (*os.File, error) {
	return nil, s.act(ctx, "namespace", lease)
}

// Exec implements Driver: it prints what Inside says.
func (s *Sim) Exec(ctx context.Context, lease string, args []string) ([]byte, error) {
	if err := s.act(ctx, "exec", lease); err != nil {
		return nil, err
	}
	s.mu.Lock()
	i, ok := s.items[lease]
	running := ok && i.state.Running
	s.mu.Unlock()
	if !running {
		return nil, ErrNotRunning
	}
	if s.Inside == nil {
		return []byte("{}\n"), nil
	}
	return s.Inside(lease, args)
}

// Report implements Driver.
func (s *Sim) Report(string) (protocol.InstanceReport, bool) { return protocol.InstanceReport{}, false }

// Traffic implements Driver.
func (s *Sim) Traffic(context.Context) (map[string]Traffic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := make(map[string]Traffic, len(s.items))
	for lease := range s.items {
		t[lease] = s.traffic[lease]
	}
	return t, nil
}

// Sweep implements Driver.
func (s *Sim) Sweep(context.Context, func(string) bool) error { return nil }

// MakeVolume implements Driver.
func (s *Sim) MakeVolume(ctx context.Context, id string, sizeMiB int64) error {
	if err := s.act(ctx, "make volume", id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.volumes[id]; !ok {
		s.volumes[id] = sizeMiB
	}
	return nil
}

// EraseVolume implements Driver.
func (s *Sim) EraseVolume(ctx context.Context, id string) error {
	if err := s.act(ctx, "erase volume", id); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.volumes, id)
	delete(s.inside, id)
	return nil
}

// Write puts something into a volume, and Read returns what is in it.
func (s *Sim) Write(volume, content string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inside[volume] = content
}

// Read returns what is in a volume.
func (s *Sim) Read(volume string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inside[volume]
}

// SaveVolume implements Copier.
func (s *Sim) SaveVolume(ctx context.Context, id string, to func(context.Context) io.Writer) (string, error) {
	if err := s.act(ctx, "save volume", id); err != nil {
		return "", err
	}
	s.mu.Lock()
	_, ok := s.volumes[id]
	content := s.inside[id]
	s.mu.Unlock()
	if !ok {
		return "", volumeMissing(id)
	}
	if _, err := io.WriteString(to(ctx), content); err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:]), nil
}

// FillVolume implements Copier.
func (s *Sim) FillVolume(ctx context.Context, id string, sizeMiB int64, sum string, r io.Reader) error {
	if err := s.act(ctx, "fill volume", id); err != nil {
		return err
	}
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if got := sha256.Sum256(content); hex.EncodeToString(got[:]) != sum {
		return damagedCopy("its checksum is another")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.volumes[id], s.inside[id] = sizeMiB, string(content)
	return nil
}

// Volumes lists the volumes that there are.
func (s *Sim) Volumes() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.volumes))
}

// Close implements Driver.
func (s *Sim) Close() error { return nil }
