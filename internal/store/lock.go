package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/fault"
)

// File returns the file of an embedded database, and whether address is of one.
func File(address string) (path string, embedded bool) {
	return strings.CutPrefix(address, "sqlite:")
}

// LockFile is the name of the file beside the embedded database file that its one
// control plane holds a lock on.
func LockFile(database string) string { return database + ".lock" }

// Lock makes the caller the only control plane of an embedded database until
// release is called or the process ends, however it ends: the kernel holds the
// lock, so that nothing is left to clean up after a kill. Another's lock is a
// fault.Conflict with code "store_in_use" that names its process. Reading, as a
// backup does, needs no lock. PostgreSQL is made for several, so there it does
// nothing.
func Lock(address string) (release func() error, err error) {
	database, embedded := File(address)
	if !embedded {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(filepath.Dir(database), 0o700); err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	f, err := os.OpenFile(LockFile(database), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the database: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		holder := "another process"
		if b, rerr := io.ReadAll(io.LimitReader(f, 32)); rerr == nil {
			if pid, cerr := strconv.Atoi(strings.TrimSpace(string(b))); cerr == nil {
				holder = fmt.Sprintf("process %d", pid)
			}
		}
		f.Close()
		return nil, fault.New(fault.Conflict, "store_in_use", "%s is in use by %s: a second control plane on it would undo what the first decides; stop that one, choose another data folder, or use PostgreSQL for several", database, holder)
	}
	if err == nil {
		// For people only; the lock itself does not depend on it. The file stays
		// when the lock goes: whoever removed it could remove a successor's.
		if err = f.Truncate(0); err == nil {
			_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the database %s: %w", database, err)
	}
	return f.Close, nil
}
