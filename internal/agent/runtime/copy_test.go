package runtime

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"
)

func fileOf(t *testing.T, size int64, at map[int64]string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "image"))
	if err == nil {
		err = f.Truncate(size)
	}
	for o, text := range at {
		if err == nil {
			_, err = f.WriteAt([]byte(text), o)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestACopyOfAVolumeHasItsContentAndChecksumWhereverItsHolesAre(t *testing.T) {
	t.Parallel()
	const size = 9<<20 + 4096
	content := map[int64]string{0: "begin", 3<<20 - 2: "across", 5 << 20: "middle", size - 4: "tail"}
	f := fileOf(t, size, content)
	var stream bytes.Buffer
	sum, err := writeContent(t.Context(), f, size, &stream)
	if err != nil {
		t.Fatal(err)
	}
	if stream.Len() > 6<<20 {
		t.Errorf("%d bytes of a volume that is mostly empty", stream.Len())
	}
	to := fileOf(t, 12<<20, nil)
	n, got, err := readContent(t.Context(), bytes.NewReader(stream.Bytes()), to, 12<<20)
	if err != nil || n != size || got != sum {
		t.Fatalf("%d, %s, %v; want %d, %s", n, got, err, int64(size), sum)
	}
	// All of it is written, without a hole, and is the same.
	full := fileOf(t, size, nil)
	b := make([]byte, size)
	if _, err := to.ReadAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := full.WriteAt(b, 0); err != nil {
		t.Fatal(err)
	}
	if again, err := checksum(t.Context(), full, size); err != nil || again != sum {
		t.Errorf("%s, %v of what was restored; want %s", again, err, sum)
	}
	if other, err := checksum(t.Context(), fileOf(t, size, map[int64]string{1 << 20: "x"}), size); err != nil || other == sum {
		t.Errorf("another content has the same checksum, %v", err)
	}
}

func TestACopyThatIsCutOffOrForgedIsRefused(t *testing.T) {
	t.Parallel()
	var stream bytes.Buffer
	if _, err := writeContent(t.Context(), fileOf(t, 4<<20, map[int64]string{0: "a", 2 << 20: "b"}), 4<<20, &stream); err != nil {
		t.Fatal(err)
	}
	whole := stream.Bytes()
	read := func(b []byte, most int64) string {
		_, _, err := readContent(t.Context(), bytes.NewReader(b), fileOf(t, 4<<20, nil), most)
		return CodeOf(err)
	}
	for _, n := range []int{0, 5, 24, 31, 40, len(whole) - 8, len(whole) - 1} {
		if code := read(whole[:n], 4<<20); code != "snapshot_damaged" {
			t.Errorf("the first %d bytes: %q", n, code)
		}
	}
	beyond := bytes.Clone(whole)
	beyond[24+7] = 99
	backwards := bytes.Clone(whole)
	backwards[24+8+copyBlock+7] = 1
	for name, b := range map[string][]byte{"beyond the end": beyond, "backwards": backwards, "something else": bytes.Repeat([]byte("x"), 100)} {
		if code := read(b, 4<<20); code != "snapshot_damaged" {
			t.Errorf("%s: %q", name, code)
		}
	}
	if code := read(whole, 3<<20); code != "bad_spec" {
		t.Errorf("a copy that is larger than the volume: %q", code)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := writeContent(ended, fileOf(t, 4<<20, map[int64]string{0: "a"}), 4<<20, &stream); err == nil {
		t.Error("a copy goes on after it was given up")
	}
}
