package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// A volume is a disk image like a lease's, in a folder of its own:
//
//	volumes/<id>/disk.img       the whole size, reserved when it is made
//	volumes/<id>/disk/content   what instances see
//	volumes/<id>/origin         the checksum of what it was filled with, if it was
//	volumes/<id>/leases/<id>    an empty file for each lease that has it
//
// The files in leases are the reference count. They are written before the volume is
// mounted for a lease and removed after its container is, so that a crash at any line
// leaves one too many and never one too few: what is in use is never unmounted or
// erased. What is one too many Sweep removes.
type keptVolume struct{ volume }

var volumeIDPattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// ValidVolumeID reports whether id can name a volume, and a folder.
func ValidVolumeID(id string) bool { return volumeIDPattern.MatchString(id) }

func (d *Docker) volumesDir() string { return filepath.Join(d.cfg.Dir, "volumes") }

func (d *Docker) kept(id string) keptVolume {
	return keptVolume{volume{dir: filepath.Join(d.volumesDir(), id)}}
}

func (k keptVolume) content() string { return filepath.Join(k.mount(), "content") }
func (k keptVolume) users() string   { return filepath.Join(k.dir, "leases") }

func (k keptVolume) user(lease string) string { return filepath.Join(k.users(), lease) }

func (k keptVolume) inUse() (bool, error) {
	entries, err := os.ReadDir(k.users())
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(entries) > 0, err
}

func volumeMissing(id string) error {
	return &Error{Code: "volume_missing", Reason: fmt.Sprintf("the volume %s is not on this host; what was on its disk may be lost: ask whoever runs the host", id)}
}

// open mounts the volume.
func (k keptVolume) open() error {
	mounts, err := mountTable()
	if err != nil {
		return err
	}
	if mounts.at(k.mount()) {
		return nil
	}
	if err := os.MkdirAll(k.mount(), 0o700); err != nil {
		return err
	}
	if err := mountLoop(k.image(), k.mount()); err != nil {
		return fmt.Errorf("mount a volume: %w", err)
	}
	err = os.Mkdir(k.content(), 0o777)
	if errors.Is(err, fs.ErrExist) {
		return nil // its owner may have given it another mode
	}
	if err == nil {
		// Images run as any user, and all of them are of the volume's own account.
		err = os.Chmod(k.content(), 0o777)
	}
	return err
}

// MakeVolume implements Driver.
func (d *Docker) MakeVolume(ctx context.Context, id string, sizeMiB int64) error {
	if !ValidVolumeID(id) {
		return &Error{Code: "bad_spec", Reason: fmt.Sprintf("volume id %q: want 1 to 63 of a-z, 0-9 and -", id)}
	}
	if info, overlay, err := d.known(ctx); err != nil {
		return err
	} else if !overlay {
		return &Error{Code: "engine", Reason: "this host cannot limit a volume's size: " + info.Problem}
	}
	d.keeping.Lock()
	defer d.keeping.Unlock()
	k := d.kept(id)
	if err := os.MkdirAll(k.users(), 0o700); err != nil {
		return err
	}
	return k.create(sizeMiB)
}

// EraseVolume implements Driver.
func (d *Docker) EraseVolume(_ context.Context, id string) error {
	if !ValidVolumeID(id) {
		return &Error{Code: "bad_spec", Reason: fmt.Sprintf("volume id %q: want 1 to 63 of a-z, 0-9 and -", id)}
	}
	d.keeping.Lock()
	defer d.keeping.Unlock()
	k := d.kept(id)
	if d.copying[id] != nil {
		return beingCopied(id)
	}
	if used, err := k.inUse(); err != nil {
		return err
	} else if used {
		return &Error{Code: "volume_in_use", Reason: fmt.Sprintf("a lease on this host still has the volume %s", id)}
	}
	if err := unmountAt(k.mount()); err != nil {
		return err
	}
	if err := k.erase(); err != nil {
		return err
	}
	for _, p := range []string{k.origin(), k.users(), k.dir} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// joinVolumes mounts a lease's volumes and counts it among those that have them.
func (d *Docker) joinVolumes(c Container) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	for _, m := range c.Volumes {
		k := d.kept(m.VolumeID)
		if !ValidVolumeID(m.VolumeID) {
			return volumeMissing(m.VolumeID)
		}
		if _, err := os.Stat(k.image()); errors.Is(err, fs.ErrNotExist) {
			return volumeMissing(m.VolumeID)
		}
		d.interruptCopy(m.VolumeID)
		if err := os.MkdirAll(k.users(), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(k.user(c.LeaseID), nil, 0o600); err != nil {
			return err
		}
		if err := k.open(); err != nil {
			return err
		}
	}
	return nil
}

// openVolumes mounts the volumes that a lease has.
func (d *Docker) openVolumes(lease string) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	list, err := d.volumesOf(lease)
	if err != nil {
		return err
	}
	for _, k := range list {
		if err := k.open(); err != nil {
			return err
		}
	}
	return nil
}

// volumesOf returns the volumes that a lease is counted for. The caller holds keeping.
func (d *Docker) volumesOf(lease string) ([]keptVolume, error) {
	users, err := filepath.Glob(filepath.Join(d.volumesDir(), "*", "leases", lease))
	var out []keptVolume
	for _, p := range users {
		out = append(out, d.kept(filepath.Base(filepath.Dir(filepath.Dir(p)))))
	}
	return out, err
}

// leaveVolumes counts a lease without a container out, and unmounts what nobody has.
func (d *Docker) leaveVolumes(lease string) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	list, err := d.volumesOf(lease)
	if err != nil {
		return err
	}
	for _, k := range list {
		if err := k.leave(lease); err != nil {
			return err
		}
	}
	return nil
}

func (k keptVolume) leave(lease string) error {
	entries, err := os.ReadDir(k.users())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != lease }) {
		if err := unmountAt(k.mount()); err != nil {
			return err
		}
	}
	if err := os.Remove(k.user(lease)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// sweepVolumes counts out leases that are not on the host any more.
func (d *Docker) sweepVolumes(keep func(string) bool) error {
	d.keeping.Lock()
	defer d.keeping.Unlock()
	users, err := filepath.Glob(filepath.Join(d.volumesDir(), "*", "leases", "*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range users {
		if lease := filepath.Base(p); !keep(lease) {
			errs = append(errs, d.kept(filepath.Base(filepath.Dir(filepath.Dir(p)))).leave(lease))
		}
	}
	return errors.Join(errs...)
}
