package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
)

// images remembers what the agent has put into the engine, and when it was last
// used: only that may be removed again. It is a file, so that it survives the agent;
// losing it means that images stay, and no more.
type images struct {
	path string

	mu     sync.Mutex
	known  map[string]*imageUse // by the engine's identifier
	pinned map[string]int       // being pulled, or pulled and not started yet
}

// imageUse is one image of ours in the engine.
type imageUse struct {
	References []string  `json:"references"` // by which it was asked for
	SizeBytes  int64     `json:"size_bytes"`
	UsedAt     time.Time `json:"used_at"`
	// CopyOf is the image whose layers this one has without its volumes.
	CopyOf string `json:"copy_of,omitempty"`
}

// freshFor protects an image between its pull and the container that is made
// from it.
const freshFor = 10 * time.Minute

func readImages(path string) (*images, error) {
	s := &images{path: path, known: map[string]*imageUse{}, pinned: map[string]int{}}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &s.known); err != nil {
		s.known = map[string]*imageUse{} // half a file after a crash of the host
	}
	return s, nil
}

// save writes the file. The caller holds s.mu. A failure costs at worst that an
// image is kept for longer than it had to be.
func (s *images) save() {
	b, err := json.Marshal(s.known)
	if err == nil {
		err = os.WriteFile(s.path+".new", b, 0o600)
	}
	if err == nil {
		_ = os.Rename(s.path+".new", s.path)
	}
}

// find returns the image that a reference was pulled as.
func (s *images) find(ref string) (id string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, u := range s.known {
		if slices.Contains(u.References, ref) {
			return id, true
		}
	}
	return "", false
}

// used notes that an image is ours and in use now; size 0 leaves what is known.
func (s *images) used(id, ref string, size int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, u := range s.known { // a tag has moved
		if other != id {
			u.References = slices.DeleteFunc(u.References, func(r string) bool { return r == ref })
		}
	}
	u := s.known[id]
	if u == nil {
		if size == 0 {
			return // somebody else's
		}
		u = &imageUse{}
		s.known[id] = u
	}
	if size > 0 {
		u.SizeBytes = size
	}
	if !slices.Contains(u.References, ref) {
		u.References = append(u.References, ref)
	}
	u.UsedAt = time.Now().UTC()
	s.save()
}

// touch notes that an image is used, if it is ours.
func (s *images) touch(id, ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for known, u := range s.known {
		if known == id || slices.Contains(u.References, ref) {
			u.UsedAt = time.Now().UTC()
			s.save()
		}
	}
}

func (s *images) copied(id, of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = &imageUse{UsedAt: time.Now().UTC(), CopyOf: of}
	s.save()
}

func (s *images) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, id)
	s.save()
}

// pin keeps an image from being removed until the function that it returns is
// called.
func (s *images) pin(id string) func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned[id]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.pinned[id]--; s.pinned[id] == 0 {
			delete(s.pinned, id)
		}
	}
}

func (s *images) totalMiB() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	var sum int64
	for _, u := range s.known {
		sum += u.SizeBytes
	}
	return sum >> 20
}

// unused lists our images that neither used names nor anything is about to start,
// the longest unused first. A copy comes with its original: it has no size.
func (s *images) unused(used map[string]bool, fresh time.Duration) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := func(id string) bool {
		u := s.known[id]
		return used[id] || s.pinned[id] > 0 || u != nil && time.Since(u.UsedAt) < fresh
	}
	var list []string
	for id, u := range s.known {
		if u.CopyOf != "" || busy(id) {
			continue
		}
		copyBusy := false
		for other, o := range s.known {
			copyBusy = copyBusy || o.CopyOf == id && busy(other)
		}
		if !copyBusy {
			list = append(list, id)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return s.known[a].UsedAt.Compare(s.known[b].UsedAt) })
	return list
}

func (s *images) copiesOf(id string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []string
	for other, u := range s.known {
		if u.CopyOf == id {
			list = append(list, other)
		}
	}
	return list
}

// imageBudgetMiB is what images may take of the host's disk: unless it is set, a
// fifth of what leases and images have together. What else is on the disk does
// not count, or a disk that is mostly full of other things would offer nothing.
func (d *Docker) imageBudgetMiB() int64 {
	if d.cfg.ImageMiB > 0 {
		return d.cfg.ImageMiB
	}
	free, err := freeMiB(d.cfg.Dir)
	if err != nil {
		return 0
	}
	return (max(0, free-hostReserveMiB) + d.reservedMiB() + d.images.totalMiB()) / 5
}

// makeRoom removes images that nothing uses until need more MiB are within the
// budget and on the disk, or none is left that may go.
func (d *Docker) makeRoom(ctx context.Context, need int64) {
	enough := func() bool {
		free, err := freeMiB(d.cfg.Dir)
		return d.images.totalMiB()+need <= d.imageBudgetMiB() && (err != nil || free >= need+hostReserveMiB)
	}
	if enough() {
		return
	}
	d.pruning.Lock()
	defer d.pruning.Unlock()
	used, err := d.usedImages(ctx)
	if err != nil {
		d.log().Warn("unused images cannot be told from used ones, and stay", "error", err)
		return
	}
	for _, id := range d.images.unused(used, d.fresh) {
		if enough() || ctx.Err() != nil {
			return
		}
		if err := d.removeImage(ctx, id); err != nil {
			d.log().Warn("an unused image could not be removed", "image", id, "error", err)
			continue
		}
		d.log().Info("an unused image was removed to make room", "image", id)
	}
}

// usedImages are those of containers, whoever made them, and of leases on this
// host that are stopped: what a renter has changed lies on top of just that image.
func (d *Docker) usedImages(ctx context.Context) (map[string]bool, error) {
	list, err := d.api.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", err)
	}
	used := map[string]bool{}
	for _, c := range list.Items {
		used[c.ImageID] = true
	}
	files, err := filepath.Glob(filepath.Join(d.cfg.Dir, "leases", "*", "image"))
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		used[strings.TrimSpace(string(b))] = true
	}
	return used, nil
}

// removeImage removes an image of ours with its copies, unless somebody else has
// given it a name, too.
func (d *Docker) removeImage(ctx context.Context, id string) error {
	for _, each := range append(d.images.copiesOf(id), id) {
		in, err := d.api.ImageInspect(ctx, each)
		if cerrdefs.IsNotFound(err) {
			d.images.forget(each)
			continue
		}
		if err != nil {
			return err
		}
		// By its names and without force: the engine itself refuses what is in use.
		names := in.RepoTags
		if len(names) == 0 {
			names = []string{each}
		}
		if !d.ours(each, names) {
			d.images.forget(each)
			continue
		}
		for _, n := range names {
			if _, err := d.api.ImageRemove(ctx, n, client.ImageRemoveOptions{PruneChildren: true}); err != nil && !cerrdefs.IsNotFound(err) {
				return err
			}
		}
		d.images.forget(each)
	}
	return nil
}

func (d *Docker) ours(id string, names []string) bool {
	d.images.mu.Lock()
	defer d.images.mu.Unlock()
	u := d.images.known[id]
	if u == nil {
		return false
	}
	tags := map[string]bool{}
	for _, r := range u.References {
		tags[shortName(engineTag(r))] = true
	}
	for _, n := range names {
		if n != id && !strings.HasPrefix(n, copyTag) && !strings.HasPrefix(n, "localhost/"+copyTag) && !tags[shortName(n)] {
			return false
		}
	}
	return true
}

// engineTag is the name in the engine's list for a reference that a lease gives:
// one with a digest cannot be a name there.
func engineTag(ref string) string {
	if rest, ok := strings.CutPrefix(ref, cloudScheme); ok {
		ref = cloudHost + "/" + rest
	}
	if _, digest, ok := strings.Cut(ref, "@sha256:"); ok {
		return "suanli-pulled:" + digest[:min(24, len(digest))]
	}
	if !strings.Contains(ref[strings.LastIndexByte(ref, '/')+1:], ":") {
		ref += ":latest"
	}
	return ref
}

// shortName leaves out of an image's name what some engines put in front of it.
func shortName(n string) string {
	for _, p := range []string{"localhost/", "index.docker.io/", "docker.io/", "library/"} {
		n = strings.TrimPrefix(n, p)
	}
	return n
}
