package runtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Copier is a Driver whose volumes can be copied. A volume is copied at rest: no lease
// on the host has it, so that its file system is unmounted and whole. When a lease gets it
// meanwhile, the copy is given up.
type Copier interface {
	// SaveVolume writes what is in a volume, and returns the checksum of it. It is an
	// *Error "volume_in_use" while a lease has it or when one gets it, at which the
	// writer's context ends, and "volume_missing".
	SaveVolume(ctx context.Context, id string, to func(context.Context) io.Writer) (sum string, err error)
	// FillVolume makes a volume of what SaveVolume wrote, reads it again from the disk
	// and compares it with the checksum; nothing is left of one that differs. The
	// volume is larger than the old one if sizeMiB is. The same again is no change.
	FillVolume(ctx context.Context, id string, sizeMiB int64, sum string, r io.Reader) error
}

// What SaveVolume writes is
//
//	"suanli volume 1\n", 8 bytes of the size
//	for each MiB that is not all zeros: 8 bytes of its number, counted from 1, and the MiB
//	8 bytes of zeros
//
// with numbers in big endian. It says nothing of where the file has holes, so that equal
// contents are equal streams, on whatever file system they are.
const (
	copyMagic = "suanli volume 1\n"
	copyBlock = 1 << 20
)

// damagedCopy is of a stream that SaveVolume did not write.
func damagedCopy(what string) error {
	return &Error{Code: "snapshot_damaged", Reason: "what object storage has is not a whole copy of a volume: " + what}
}

// writeContent writes the first size bytes of a file to w, and returns the checksum.
func writeContent(ctx context.Context, f *os.File, size int64, w io.Writer) (string, error) {
	sum := sha256.New()
	w = io.MultiWriter(w, sum)
	if _, err := w.Write(binary.BigEndian.AppendUint64([]byte(copyMagic), uint64(size))); err != nil {
		return "", err
	}
	block, zeros := make([]byte, copyBlock), make([]byte, copyBlock)
	var number [8]byte
	for at := int64(0); at < size; {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		// What was reserved and never written is skipped without reading it.
		data, err := unix.Seek(int(f.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) {
			break
		}
		if err == nil && data > at {
			at = data - data%copyBlock
			if at >= size {
				break
			}
		}
		b := block[:min(copyBlock, size-at)]
		if _, err := f.ReadAt(b, at); err != nil {
			return "", fmt.Errorf("read a volume: %w", err)
		}
		if !bytes.Equal(b, zeros[:len(b)]) {
			binary.BigEndian.PutUint64(number[:], uint64(at/copyBlock)+1)
			if _, err := w.Write(number[:]); err != nil {
				return "", err
			}
			if _, err := w.Write(b); err != nil {
				return "", err
			}
		}
		at += int64(len(b))
	}
	clear(number[:])
	if _, err := w.Write(number[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// readContent writes a stream into a file of zeros with room for most bytes, and
// returns the size that it is of and its checksum.
func readContent(ctx context.Context, r io.Reader, f *os.File, most int64) (int64, string, error) {
	sum := sha256.New()
	in := io.TeeReader(r, sum)
	head := make([]byte, len(copyMagic)+8)
	if _, err := io.ReadFull(in, head); err != nil {
		return 0, "", cutOff(err)
	}
	size := int64(binary.BigEndian.Uint64(head[len(copyMagic):]))
	if string(head[:len(copyMagic)]) != copyMagic || size < 1 {
		return 0, "", damagedCopy("it does not begin like one")
	}
	if size > most {
		return 0, "", &Error{Code: "bad_spec", Reason: fmt.Sprintf("the copy is of a volume of %d MiB, and the new one has %d", size>>20, most>>20)}
	}
	block := make([]byte, copyBlock)
	var number [8]byte
	for last := uint64(0); ; {
		if err := ctx.Err(); err != nil {
			return 0, "", err
		}
		if _, err := io.ReadFull(in, number[:]); err != nil {
			return 0, "", cutOff(err)
		}
		n := binary.BigEndian.Uint64(number[:])
		if n == 0 {
			return size, hex.EncodeToString(sum.Sum(nil)), nil
		}
		if n <= last || n > uint64(size+copyBlock-1)/copyBlock {
			return 0, "", damagedCopy("its parts are not in order")
		}
		last = n
		at := int64(n-1) * copyBlock
		b := block[:min(copyBlock, size-at)]
		if _, err := io.ReadFull(in, b); err != nil {
			return 0, "", cutOff(err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			return 0, "", err
		}
	}
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return damagedCopy("it ends too early")
	}
	return err
}

// checksum is the checksum of the first size bytes of a file, as writeContent makes it.
func checksum(ctx context.Context, f *os.File, size int64) (string, error) {
	return writeContent(ctx, f, size, io.Discard)
}

// copyJob is a copy of a volume that is being made.
type copyJob struct {
	cancel context.CancelCauseFunc
	done   chan struct{}
}

// beginCopy marks a volume as being copied, unless a lease has it or another copy is
// made. Whoever gets it calls done, and heeds the context.
func (d *Docker) beginCopy(ctx context.Context, id string) (in context.Context, k keptVolume, done func(), err error) {
	if !ValidVolumeID(id) {
		return ctx, k, nil, &Error{Code: "bad_spec", Reason: fmt.Sprintf("volume id %q: want 1 to 63 of a-z, 0-9 and -", id)}
	}
	d.keeping.Lock()
	defer d.keeping.Unlock()
	k = d.kept(id)
	if d.copying[id] != nil {
		return ctx, k, nil, beingCopied(id)
	}
	if used, err := k.inUse(); err != nil {
		return ctx, k, nil, err
	} else if used {
		return ctx, k, nil, &Error{Code: "volume_in_use", Reason: fmt.Sprintf("a lease on this host has the volume %s", id)}
	}
	if err := unmountAt(k.mount()); err != nil {
		return ctx, k, nil, err
	}
	if d.copying == nil {
		d.copying = map[string]*copyJob{}
	}
	job := &copyJob{done: make(chan struct{})}
	in, job.cancel = context.WithCancelCause(ctx)
	d.copying[id] = job
	return in, k, func() {
		d.keeping.Lock()
		defer d.keeping.Unlock()
		delete(d.copying, id)
		job.cancel(nil)
		close(job.done)
	}, nil
}

// interruptCopy gives up a copy of a volume that a lease is to have now: a copy can be
// made again, and a lease that waits is paid for. The caller holds keeping, which is
// given away meanwhile.
func (d *Docker) interruptCopy(id string) {
	for job := d.copying[id]; job != nil; job = d.copying[id] {
		job.cancel(&Error{Code: "volume_in_use", Reason: "a lease started with the volume while it was being copied, so that the copy was given up"})
		d.keeping.Unlock()
		<-job.done
		d.keeping.Lock()
	}
}

// beingCopied is no *Error: it ends by itself.
func beingCopied(id string) error { return fmt.Errorf("the volume %s is being copied", id) }

// causeOf is why a copy's context ended, if it did, and err otherwise.
func causeOf(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// SaveVolume implements Copier.
func (d *Docker) SaveVolume(ctx context.Context, id string, to func(context.Context) io.Writer) (sum string, err error) {
	ctx, k, done, err := d.beginCopy(ctx, id)
	if err != nil {
		return "", err
	}
	defer done()
	defer func() { err = causeOf(ctx, err) }()
	f, err := os.Open(k.image())
	if errors.Is(err, fs.ErrNotExist) {
		return "", volumeMissing(id)
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	return writeContent(ctx, f, st.Size(), to(ctx))
}

// origin is the file with the checksum of what a volume was filled with.
func (k keptVolume) origin() string { return filepath.Join(k.dir, "origin") }

// FillVolume implements Copier. A volume is there when it has its name, which is the
// last thing that is done: what a crash leaves is without one, and is begun anew.
func (d *Docker) FillVolume(ctx context.Context, id string, sizeMiB int64, sum string, r io.Reader) (err error) {
	if info, overlay, err := d.known(ctx); err != nil {
		return err
	} else if !overlay {
		return &Error{Code: "engine", Reason: "this host cannot limit a volume's size: " + info.Problem}
	}
	ctx, k, done, err := d.beginCopy(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	defer func() { err = causeOf(ctx, err) }()
	if _, err := os.Stat(k.image()); err == nil {
		if was, err := os.ReadFile(k.origin()); err == nil && string(was) == sum {
			return nil
		}
		return &Error{Code: "volume_exists", Reason: fmt.Sprintf("the volume %s is on this host already, with something else in it", id)}
	}
	if err := os.MkdirAll(k.users(), 0o700); err != nil {
		return err
	}
	f, err := k.reserve(sizeMiB)
	if err != nil {
		return err
	}
	part := f.Name()
	defer os.Remove(part)
	defer f.Close()
	size, got, err := readContent(ctx, r, f, sizeMiB<<20)
	if err != nil {
		return err
	}
	if got != sum {
		return damagedCopy(fmt.Sprintf("its checksum is %s, and was %s", got, sum))
	}
	// From the disk, and not from memory: what is there is what counts.
	if err := f.Sync(); err != nil {
		return err
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	if got, err = checksum(ctx, f, size); err != nil {
		return err
	}
	if got != sum {
		return fmt.Errorf("what was written to the disk is read as something else: %s, and was %s", got, sum)
	}
	if size < sizeMiB<<20 {
		if err := growFileSystem(ctx, part); err != nil {
			return err
		}
	}
	if err := os.WriteFile(k.origin(), []byte(sum), 0o600); err != nil {
		return err
	}
	return os.Rename(part, k.image())
}

// growFileSystem makes the file system in an image that nobody has mounted as large as
// the image.
func growFileSystem(ctx context.Context, image string) error {
	// It wants to be checked first; 1 means that something was repaired, such as a
	// journal that was not played back.
	if out, err := exec.CommandContext(ctx, "e2fsck", "-f", "-p", image).CombinedOutput(); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) || exit.ExitCode() != 1 {
			return fmt.Errorf("check a volume's file system: %w: %s", err, strings.TrimSpace(string(out)))
		}
	}
	if out, err := exec.CommandContext(ctx, "resize2fs", image).CombinedOutput(); err != nil {
		return fmt.Errorf("make a volume's file system larger: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
