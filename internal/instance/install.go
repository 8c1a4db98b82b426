package instance

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// install copies this binary to a file. Where an agent cannot mount its own into a
// container, as in a cluster, a container of the agent's image puts it into a volume
// that the instance has, too.
func install(args []string) (err error) {
	if len(args) != 1 {
		return errors.New("install: want the file to write")
	}
	own, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this binary: %w", err)
	}
	from, err := os.Open(own)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	_, err = io.Copy(to, from)
	return err
}

// reportAge is how old a report may be to be printed: init writes it every ten seconds.
const reportAge = 30 * time.Second

// printReport prints what init wrote, for agents that cannot read the file.
func printReport(runDir string, w io.Writer) error {
	path := filepath.Join(runDir, "status.json")
	st, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() || time.Since(st.ModTime()) > reportAge {
		return errors.New("init has not written a report lately")
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(w, io.LimitReader(f, 64<<10))
	return err
}
