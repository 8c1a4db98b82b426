package probe

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// gpus opens device nodes the way a program that uses the GPU does, and reads the
// lists that stand for simulated GPUs. Open lists what can be used, Values why the
// rest cannot. A node that is not there or is closed to its owner is left out of
// both: a renter, who is root inside, may have done that; they cannot change the
// device rules, nor a file that is mounted read-only.
func gpus(r *Result, paths []string) {
	r.Values = map[string]string{}
	for _, path := range paths {
		err := Usable(path)
		switch {
		case err == nil:
			r.Open = append(r.Open, path)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EACCES):
		default:
			r.Values[path] = err.Error()
		}
	}
}

// Usable opens what gives GPUs: a device node, or a list of simulated ones.
func Usable(path string) error {
	// Without NONBLOCK a node that stands for something else could hold us up.
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		w, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		return w.Close()
	}
	var list []json.RawMessage
	if err := json.NewDecoder(f).Decode(&list); err != nil || len(list) == 0 {
		return fmt.Errorf("%s lists no GPU", path)
	}
	return nil
}
