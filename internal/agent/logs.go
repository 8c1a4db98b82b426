package agent

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// What an instance printed is kept by the engine while its container exists (the
// last 300 MB of it), and in logs/<lease>/<generation>.log.gz afterwards, so that
// it can be read when everything else of the lease has gone.

func (a *Agent) logDir(id string) string { return filepath.Join(a.cfg.Dir, "logs", id) }

// keepLogs stores the output of a container that is about to be removed. It may
// be called again after a crash.
func (a *Agent) keepLogs(ctx context.Context, id string, generation int64) error {
	if err := os.MkdirAll(a.logDir(id), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(a.logDir(id), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	zip := gzip.NewWriter(f)
	if err := a.driver.Logs(ctx, id, protocol.LogOptions{}, zip); err != nil && !errors.Is(err, runtime.ErrNotRunning) {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), filepath.Join(a.logDir(id), fmt.Sprintf("%020d.log.gz", generation)))
}

// stored lists the kept outputs of a lease, oldest first.
func (a *Agent) stored(id string) []string {
	files, _ := filepath.Glob(filepath.Join(a.logDir(id), "*.log.gz"))
	slices.Sort(files)
	return files
}

func (a *Agent) serveLogs(ctx context.Context, c net.Conn, h protocol.StreamHeader) {
	if !leaseIDPattern.MatchString(h.LeaseID) {
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "no_such_lease", Message: "this host has no such lease"})
		return
	}
	a.mu.Lock()
	_, known := a.leases[h.LeaseID]
	a.mu.Unlock()
	stored := a.stored(h.LeaseID)
	if !known && len(stored) == 0 {
		_ = protocol.Refuse(c, &protocol.StreamError{Code: "no_such_lease", Message: "this host has no lease " + h.LeaseID + " and keeps no output of it"})
		return
	}
	if protocol.Accept(c) != nil {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { // the reader sends nothing; its going away ends a follow
		_, _ = io.Copy(io.Discard, c)
		cancel()
	}()
	w := bufio.NewWriterSize(c, 32<<10)
	if err := a.writeLogs(ctx, w, h.LeaseID, stored, h.Logs); err != nil && ctx.Err() == nil {
		a.log.Warn("output could not be read", "lease", h.LeaseID, "error", err)
	}
	_ = w.Flush()
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func (a *Agent) writeLogs(ctx context.Context, w *bufio.Writer, id string, stored []string, o protocol.LogOptions) error {
	live := true
	state, err := a.driver.Inspect(ctx, id)
	if err != nil || !state.Exists {
		live = false
	}
	if live {
		// A crash between keeping and removing leaves both; the container is the fresher.
		mine := fmt.Sprintf("%020d.log.gz", state.Generation)
		stored = slices.DeleteFunc(slices.Clone(stored), func(p string) bool { return filepath.Base(p) == mine })
	}
	if o.Tail <= 0 {
		for _, p := range stored {
			if err := copyGzip(w, p); err != nil {
				return err
			}
		}
	} else if !live && len(stored) > 0 {
		if err := tailGzip(w, stored[len(stored)-1], o.Tail); err != nil {
			return err
		}
	}
	if !live {
		return nil
	}
	if !o.Follow {
		return a.driver.Logs(ctx, id, o, w)
	}
	return a.driver.Logs(ctx, id, o, flusher{w})
}

// flusher sends each piece on at once, for those who watch.
type flusher struct{ w *bufio.Writer }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.w.Flush()
	}
	return n, err
}

func copyGzip(w io.Writer, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, zip)
	return err
}

func tailGzip(w io.Writer, path string, lines int) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		return err
	}
	keep := make([]string, 0, min(lines, 1024))
	r := bufio.NewReader(zip)
	for {
		line, err := r.ReadString('\n')
		if line != "" {
			if len(keep) == lines {
				keep = append(keep[:0], keep[1:]...)
			}
			keep = append(keep, line)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	for _, line := range keep {
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// logCleaner removes kept output and fences that are old enough.
func (a *Agent) logCleaner(ctx context.Context) {
	for {
		a.cleanOld(time.Now())
		select {
		case <-time.After(time.Hour):
		case <-ctx.Done():
			return
		}
	}
}

// keepFences is far longer than any message can be on its way.
const keepFences = 30 * 24 * time.Hour

func (a *Agent) cleanOld(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, folder := range []struct {
		name string
		keep time.Duration
	}{{"logs", a.cfg.KeepLogs}, {"fences", keepFences}} {
		entries, err := os.ReadDir(filepath.Join(a.cfg.Dir, folder.name))
		if err != nil {
			continue
		}
		for _, e := range entries {
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) || a.leases[e.Name()] != nil || strings.HasPrefix(e.Name(), ".") {
				continue
			}
			if err == nil && now.Sub(info.ModTime()) > folder.keep {
				_ = os.RemoveAll(filepath.Join(a.cfg.Dir, folder.name, e.Name()))
				if folder.name == "fences" {
					delete(a.fences, e.Name())
				}
			}
		}
	}
}
