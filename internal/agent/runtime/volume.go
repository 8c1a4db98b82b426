package runtime

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A lease's disk is a file of its full size, reserved when it is made, so that
// no renter can be promised space that another has filled. It holds an ext4 file
// system, mounted while the lease has a container:
//
//	disk/layer/{diff,work,link,lower}  the engine's folder of the writable layer
//	disk/etc/…                         hosts, hostname, resolv.conf of the container
//
// The engine keeps a container's writable layer in a folder of its own
// (overlay2/<id>). Binding disk/layer over that folder between create and start
// makes the kernel put the overlay's upper directory on the lease's disk: the
// engine's own exec, copy and inspect go on working, and writes end at the disk's
// size. A container that is made anew for the same lease gets the same diff.
//
// Removing a container deletes its layer's folder recursively. So the bind must
// be gone before that, which Remove proves from the mount table.
type volume struct {
	dir string // of the lease
}

func (v volume) image() string { return filepath.Join(v.dir, "disk.img") }
func (v volume) mount() string { return filepath.Join(v.dir, "disk") }
func (v volume) run() string   { return filepath.Join(v.dir, "run") }

// settings is what the instance's init is told, secrets included: in memory only.
func (v volume) settings() string { return filepath.Join(v.dir, "settings") }
func (v volume) layer() string    { return filepath.Join(v.mount(), "layer") }
func (v volume) etc() string      { return filepath.Join(v.mount(), "etc") }

// base is the file that says which image the disk's changes are on top of: a lease
// that is stopped has no container that would say so.
func (v volume) base() string { return filepath.Join(v.dir, "image") }

func (v volume) noteImage(id string) error { return os.WriteFile(v.base(), []byte(id), 0o600) }

// runMiB bounds what an instance's init may write of its state, outside the disk
// so that a full disk does not silence it.
const runMiB = 4

// settingsMiB is room for a script, an environment and arguments at their largest.
const settingsMiB = 2

// hostReserveMiB is never given to disks: a host whose root file system is full
// harms every instance.
const hostReserveMiB = 512

// create makes the disk unless it is there.
func (v volume) create(sizeMiB int64) error {
	if _, err := os.Stat(v.image()); err == nil {
		return nil
	}
	f, err := v.reserve(sizeMiB)
	if err != nil {
		return err
	}
	part := f.Name()
	defer f.Close()
	defer os.Remove(part)
	// Discarding would give the reservation back; lazy tables make this take
	// tens of milliseconds at any size.
	args := []string{"-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0"}
	if sizeMiB < 256 {
		args = append(args, "-O", "^has_journal") // it would take a good part of so small a disk
	}
	if out, err := exec.Command("mkfs.ext4", append(args, part)...).CombinedOutput(); err != nil {
		return fmt.Errorf("make a file system (is mkfs.ext4 of e2fsprogs installed?): %w: %s", err, strings.TrimSpace(string(out)))
	}
	return os.Rename(part, v.image())
}

// reserve makes a file of a disk's size that does not have the disk's name yet.
func (v volume) reserve(sizeMiB int64) (f *os.File, err error) {
	free, err := freeMiB(v.dir)
	if err != nil {
		return nil, err
	}
	if kept := int64(hostReserveMiB + logMiB); free < sizeMiB+kept {
		return nil, &Error{Code: "disk_full", Reason: fmt.Sprintf("a disk of %d MiB was asked for and the host has %d MiB free, of which %d stay reserved; choose a smaller disk or another host", sizeMiB, free, kept)}
	}
	f, err = os.OpenFile(v.image()+".part", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	size := sizeMiB << 20
	switch err := unix.Fallocate(int(f.Fd()), 0, 0, size); {
	case errors.Is(err, unix.EOPNOTSUPP):
		return f, f.Truncate(size)
	case errors.Is(err, unix.ENOSPC):
		return nil, &Error{Code: "disk_full", Reason: fmt.Sprintf("the host's disk filled up while %d MiB were being reserved; choose a smaller disk or another host", sizeMiB)}
	case err != nil:
		return nil, fmt.Errorf("reserve %d MiB for a disk: %w", sizeMiB, err)
	}
	return f, nil
}

// open mounts the disk and the run folder.
func (v volume) open() error {
	for _, d := range []string{v.mount(), v.run(), v.settings()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	mounts, err := mountTable()
	if err != nil {
		return err
	}
	if !mounts.at(v.mount()) {
		if err := mountLoop(v.image(), v.mount()); err != nil {
			return fmt.Errorf("mount a lease's disk: %w", err)
		}
	}
	if !mounts.at(v.run()) {
		if err := unix.Mount("tmpfs", v.run(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, fmt.Sprintf("size=%dm,nr_inodes=1024,mode=0700", runMiB)); err != nil {
			return fmt.Errorf("mount a lease's run folder: %w", err)
		}
	}
	if !mounts.at(v.settings()) {
		flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC)
		options := fmt.Sprintf("size=%dm,nr_inodes=16,mode=0700", settingsMiB)
		err := unix.Mount("tmpfs", v.settings(), "tmpfs", flags, options+",noswap")
		if errors.Is(err, unix.EINVAL) { // a kernel before 6.4
			err = unix.Mount("tmpfs", v.settings(), "tmpfs", flags, options)
		}
		if err != nil {
			return fmt.Errorf("mount a lease's settings: %w", err)
		}
	}
	return os.MkdirAll(v.etc(), 0o755)
}

// bind puts the disk under the engine's folder of a container's layer.
func (v volume) bind(layer string) error {
	for _, name := range []string{"diff", "work"} {
		st, err := os.Stat(filepath.Join(layer, name))
		if err != nil {
			return fmt.Errorf("the engine's layer folder is not as overlay2 makes it: %w", err)
		}
		to := filepath.Join(v.layer(), name)
		if name == "work" {
			// The kernel wants it empty; nothing of a renter is in it.
			if err := os.RemoveAll(to); err != nil {
				return err
			}
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return err
		}
		if err := os.Chmod(to, st.Mode().Perm()); err != nil {
			return err
		}
	}
	entries, err := os.ReadDir(layer)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(layer, e.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(v.layer(), e.Name()), b, 0o600); err != nil {
			return err
		}
	}
	if err := unix.Mount(v.layer(), layer, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("bind a lease's disk under its container: %w", err)
	}
	return nil
}

// unbind takes the disk away from under the engine's folders, wherever it is
// bound, and proves that it is gone.
func (v volume) unbind() error {
	return v.detach(func(m mountEntry) bool { return m.point != v.mount() })
}

// close unmounts everything of the lease.
func (v volume) close() error {
	if err := v.detach(func(mountEntry) bool { return true }); err != nil {
		return err
	}
	return errors.Join(unmountAt(v.run()), unmountAt(v.settings()))
}

// detach unmounts the mounts of the lease's disk that which selects, last first.
func (v volume) detach(which func(mountEntry) bool) error {
	mounts, err := mountTable()
	if err != nil {
		return err
	}
	dev := ""
	for _, m := range mounts {
		if m.point == v.mount() {
			dev = m.device
		}
	}
	if dev == "" {
		return nil
	}
	for i := len(mounts) - 1; i >= 0; i-- {
		if m := mounts[i]; m.device == dev && which(m) {
			if err := unmountAt(m.point); err != nil {
				return err
			}
		}
	}
	return nil
}

// erase removes the disk. The caller has closed it.
func (v volume) erase() error {
	for _, p := range []string{v.image(), v.image() + ".part", v.base()} {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for _, p := range []string{v.mount(), v.run(), v.settings()} {
		// Remove, not RemoveAll: should something still be mounted, it must not be emptied.
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// usedBytes is how much of the mounted disk is used.
func (v volume) usedBytes() int64 {
	var st unix.Statfs_t
	if unix.Statfs(v.mount(), &st) != nil || int64(st.Type) != unix.EXT4_SUPER_MAGIC {
		return 0
	}
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

func freeMiB(path string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return 0, fmt.Errorf("free space of %s: %w", path, err)
	}
	return int64(st.Bavail) * st.Bsize >> 20, nil
}

// mountLoop mounts the file system in image at point. The loop device frees
// itself with the last unmount.
func mountLoop(image, point string) error {
	img, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer img.Close()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("loop devices are not available: %w", err)
	}
	defer control.Close()
	for range 64 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return fmt.Errorf("get a free loop device: %w", err)
		}
		device := "/dev/loop" + strconv.Itoa(n)
		if _, err := os.Stat(device); err != nil {
			_ = unix.Mknod(device, unix.S_IFBLK|0o660, int(unix.Mkdev(7, uint32(n))))
		}
		loop, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		c := unix.LoopConfig{Fd: uint32(img.Fd())}
		c.Info.Flags = unix.LO_FLAGS_AUTOCLEAR
		copy(c.Info.File_name[:], image)
		err = unix.IoctlLoopConfigure(int(loop.Fd()), &c)
		if errors.Is(err, unix.EBUSY) {
			loop.Close() // somebody else was quicker
			continue
		}
		if err == nil {
			err = unix.Mount(device, point, "ext4", unix.MS_NOATIME|unix.MS_NODEV, "")
		}
		loop.Close()
		return err
	}
	return errors.New("no loop device stayed free long enough to be used")
}

// unmountAt unmounts everything at point; a mount that stays busy is detached, so
// that the path shows what is under it.
func unmountAt(point string) error {
	busy := 0
	for {
		switch err := unix.Unmount(point, 0); {
		case err == nil:
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EBUSY) && busy < 20:
			busy++
			<-time.After(50 * time.Millisecond)
		case errors.Is(err, unix.EBUSY):
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				return fmt.Errorf("unmount %s: %w", point, err)
			}
		default:
			return fmt.Errorf("unmount %s: %w", point, err)
		}
	}
}

type mountEntry struct {
	device string // major:minor
	point  string
}

type mountEntries []mountEntry

func (m mountEntries) at(point string) bool {
	for _, e := range m {
		if e.point == point {
			return true
		}
	}
	return false
}

func (m mountEntries) under(dir string) []string {
	var points []string
	for _, e := range m {
		if strings.HasPrefix(e.point, dir+"/") {
			points = append(points, e.point)
		}
	}
	return points
}

func mountTable() (mountEntries, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var entries mountEntries
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for s := bufio.NewScanner(f); s.Scan(); {
		if fields := strings.Fields(s.Text()); len(fields) > 4 {
			entries = append(entries, mountEntry{device: fields[2], point: unescape.Replace(fields[4])})
		}
	}
	return entries, nil
}
