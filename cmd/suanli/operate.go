package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	engine "github.com/moby/moby/client"
	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"suanli.dev/internal/config"
	"suanli.dev/internal/server"
	"suanli.dev/internal/store"
)

func openapiCommand() *cobra.Command {
	return &cobra.Command{
		Use: "openapi", Short: tr("Print the OpenAPI document of the API"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := server.Document(version)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(b)
			return err
		},
	}
}

// finding is one thing that doctor looked at.
type finding struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
	Advice string `json:"advice,omitempty"`
}

func doctorCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "doctor", Short: tr("Look for what would keep this machine from working"), Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			found := examine(cmd.Context(), cfg)
			bad := 0
			t := newTable(tr("CHECK"), tr("RESULT"), tr("WHAT WAS FOUND"))
			for _, f := range found {
				result := tr("good")
				if !f.OK {
					bad++
					result = tr("bad")
				}
				t.add(f.Name, result, strings.Join(slices.DeleteFunc([]string{f.Detail, f.Advice}, func(s string) bool { return s == "" }), "; "))
			}
			if wantsJSON(cmd) {
				if err := printJSON(cmd, found); err != nil {
					return err
				}
			} else {
				t.print(cmd.OutOrStdout())
			}
			if bad > 0 {
				return errors.New(tr("%d of %d checks are bad", bad, len(found)))
			}
			return nil
		},
	}
	settingFlags(cmd)
	return cmd
}

func examine(ctx context.Context, cfg *config.Config) []finding {
	var list []finding
	add := func(name string, err error, detail, advice string) {
		f := finding{Name: name, OK: err == nil, Detail: detail}
		if err != nil {
			f.Detail, f.Advice = err.Error(), advice
		}
		list = append(list, f)
	}
	var notRoot error
	if os.Geteuid() != 0 {
		notRoot = errors.New(tr("not root"))
	}
	add(tr("root"), notRoot, "", tr("an agent needs root; a control plane alone does not"))

	address := engineAddress(cfg)
	engine, err := engineVersion(ctx, address)
	if err == nil && address != "" {
		engine = tr("%s at %s", engine, address)
	}
	add(tr("container engine"), err, engine, tr("start Docker or Podman's API service, or name its address with --docker"))
	for _, program := range []string{"mkfs.ext4", "losetup"} {
		path, err := exec.LookPath(program)
		add(program, err, path, tr("install e2fsprogs and mount: instances' disks are limited with it"))
	}
	var st unix.Statfs_t
	dir := cfg.DataDir
	for unix.Statfs(dir, &st) != nil && dir != "/" {
		dir = filepath.Dir(dir)
	}
	free := int64(st.Bavail) * st.Bsize >> 30
	var full error
	if free < 10 {
		full = errors.New(tr("%d GiB free", free))
	}
	add(tr("disk at %s", cfg.DataDir), full, tr("%d GiB free", free), tr("images and instances' disks need room; choose another --data-dir"))

	url := cfg.APIURL() + "/readyz"
	probe, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if up, clock, err := cloudAnswers(probe, url); up || err != nil {
		add(tr("cloud at %s", cfg.APIURL()), err, tr("ready; %s", clock), tr("look at its log"))
	} else {
		for _, a := range []string{cfg.Listen, cfg.AgentListen, cfg.SSHListen} {
			ln, err := net.Listen("tcp", a)
			if err == nil {
				ln.Close()
			}
			add(tr("address %s", a), err, tr("free"), tr("another program has it; choose another address"))
		}
	}
	return list
}

func engineVersion(ctx context.Context, address string) (string, error) {
	opts := []engine.Opt{engine.FromEnv}
	if address != "" {
		opts = append(opts, engine.WithHost(address))
	}
	c, err := engine.New(opts...)
	if err != nil {
		return "", err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	v, err := c.ServerVersion(ctx, engine.ServerVersionOptions{})
	if err != nil {
		return "", err
	}
	return v.Version, nil
}

// engineAddress is the container engine to look at: the one that was named, else
// the one that this machine's agent was last started with, which its operator may
// have named to it alone; empty: the usual one.
func engineAddress(cfg *config.Config) string {
	if cfg.Docker != "" || os.Getenv("DOCKER_HOST") != "" {
		return cfg.Docker
	}
	b, err := os.ReadFile(filepath.Join(cfg.DataDir, "agent", engineFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// cloudAnswers asks a running cloud whether it is ready, and compares clocks, in
// words. A cloud that does not run is no error.
func cloudAnswers(ctx context.Context, url string) (up bool, clock string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, "", err
	}
	before := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, "", nil
	}
	defer res.Body.Close()
	took := time.Since(before)
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<16))
	if err != nil {
		return true, "", err
	}
	if res.StatusCode != http.StatusOK {
		return true, "", fmt.Errorf("%s: %s", res.Status, strings.TrimSpace(string(b)))
	}
	var ready struct {
		Time time.Time `json:"time"`
	}
	if json.Unmarshal(b, &ready) != nil || ready.Time.IsZero() {
		return true, tr("it does not tell its time"), nil
	}
	return true, clocks(ready.Time.Sub(before.Add(took/2)), took), nil
}

// clocks says how two clocks differ. What was read after a round trip is known
// to half of the round trip, and no better.
func clocks(ahead, roundTrip time.Duration) string {
	doubt := roundTrip/2 + time.Millisecond
	switch {
	case ahead.Abs() <= doubt:
		return tr("its clock and this one's agree to %d ms", doubt.Milliseconds())
	case ahead < 0:
		return tr("its clock is %d ms behind this one's", -ahead.Milliseconds())
	}
	return tr("its clock is %d ms ahead of this one's", ahead.Milliseconds())
}

// backedUp are the parts of the data folder that a backup has, beside the
// database: keys, without which it cannot be read, and the cloud's images.
var backedUp = []string{"master.key", "authority", "images", "agent/identity.json"}

func backupCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "backup FILE", Short: tr("Write a backup of the embedded store and the keys, while the cloud runs"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if err := backup(cmd.Context(), cfg, args[0], force); err != nil {
				return err
			}
			return done(cmd, map[string]string{"file": args[0]}, "backup written to %s; it holds the master key, so keep it secret", args[0])
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, tr("replace the file if it is there"))
	settingFlags(cmd)
	return cmd
}

func backup(ctx context.Context, cfg *config.Config, file string, force bool) error {
	// An older backup may be the only good one.
	if _, err := os.Lstat(file); err == nil && !force {
		return usageError{errors.New(tr("%s is there already; name another file, or replace it with --force", file))}
	}
	// Opening would make an empty database, and a backup of nothing looks like one.
	if path, embedded := store.File(cfg.DatabaseAddress()); embedded {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			return missing{tr("there is no cloud to back up: %s does not exist; name its folder with --data-dir", path)}
		} else if err != nil {
			return err
		}
	}
	db, err := store.Open(ctx, cfg.DatabaseAddress())
	if err != nil {
		return err
	}
	defer db.Close()
	work, err := os.MkdirTemp(filepath.Dir(file), ".backup-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	copied := filepath.Join(work, "suanli.db")
	if err := db.Backup(ctx, copied); err != nil {
		return err
	}
	out, err := os.OpenFile(filepath.Join(work, "new"), os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	err = addFile(w, copied, "suanli.db")
	for _, part := range backedUp {
		if err == nil {
			err = addTree(w, cfg.DataDir, part)
		}
	}
	if err := errors.Join(err, w.Close(), out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(filepath.Join(work, "new"), file)
}

func addTree(w *tar.Writer, root, part string) error {
	err := filepath.WalkDir(filepath.Join(root, part), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		return addFile(w, path, filepath.ToSlash(rel))
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

func addFile(w *tar.Writer, path, as string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Name: as, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime(), Typeflag: tar.TypeReg}); err != nil {
		return err
	}
	_, err = io.CopyN(w, f, info.Size())
	return err
}

func restoreCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore FILE", Short: tr("Put a backup into an empty data folder"), Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := settings(cmd)
			if err != nil {
				return err
			}
			if err := restore(cfg, args[0]); err != nil {
				return err
			}
			return done(cmd, map[string]string{"data_dir": cfg.DataDir}, "%s is restored; start the cloud with suanli up", cfg.DataDir)
		},
	}
	settingFlags(cmd)
	return cmd
}

func restore(cfg *config.Config, file string) error {
	dir := cfg.DataDir
	// A backup has its own database, whatever the configuration says of another.
	database := filepath.Join(dir, "suanli.db")
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	occupied := func() error {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		for _, e := range entries {
			if e.Name() != filepath.Base(store.LockFile(database)) {
				return errors.New(tr("%s is not empty; a restore never overwrites a cloud", dir))
			}
		}
		return err
	}
	// Before a lock is taken as well, which would leave its file in a folder of
	// somebody else's; unless there is one that says who is at work there.
	if err := occupied(); err != nil {
		if _, absent := os.Stat(store.LockFile(database)); absent != nil {
			return err
		}
	}
	// Held until all is there: a cloud that started meanwhile would make its own.
	release, err := store.Lock("sqlite:" + database)
	if err != nil {
		return err
	}
	defer func() { _ = release() }()
	if err := occupied(); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir) // a crafted backup cannot write outside of it
	if err != nil {
		return err
	}
	defer root.Close()
	r := tar.NewReader(in)
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if h.Typeflag != tar.TypeReg {
			return fmt.Errorf("%s: %s is not a regular file; this is no backup of suanli's", file, h.Name)
		}
		if parent := filepath.Dir(h.Name); parent != "." {
			if err := root.MkdirAll(parent, 0o700); err != nil {
				return err
			}
		}
		out, err := root.OpenFile(h.Name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(out, r)
		if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
			return err
		}
	}
}

// hasFile refuses an archive without any file: nothing could run in an image of it.
func hasFile(layer v1.Layer, name string) error {
	content, err := layer.Uncompressed()
	if err != nil {
		return err
	}
	defer content.Close()
	for r := tar.NewReader(content); ; {
		h, err := r.Next()
		switch {
		case err == io.EOF:
			return usageError{errors.New(tr("%s has no file in it; want the tar archive of a root file system", name))}
		case err != nil:
			return fmt.Errorf("%s: %w", name, err)
		case h.Typeflag == tar.TypeReg:
			return nil
		}
	}
}

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: tr("The cloud's own images (operator)")}
	var entrypoint, command []string
	push := &cobra.Command{
		Use: "push NAME:TAG ROOTFS.tar", Short: tr("Make an image of a root file system and keep it in the cloud's registry"), Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := whereTo(cmd)
			if err != nil {
				return err
			}
			u, err := url.Parse(s.Server)
			if err != nil {
				return err
			}
			opts := []name.Option{name.StrictValidation}
			if u.Scheme == "http" {
				opts = append(opts, name.Insecure)
			}
			ref, err := name.ParseReference(u.Host+"/"+args[0], opts...)
			if err != nil {
				return usageError{err}
			}
			layer, err := tarball.LayerFromFile(args[1])
			if err != nil {
				return err
			}
			if err := hasFile(layer, args[1]); err != nil {
				return err
			}
			img, err := mutate.AppendLayers(empty.Image, layer)
			if err != nil {
				return err
			}
			conf, err := img.ConfigFile()
			if err != nil {
				return err
			}
			conf = conf.DeepCopy()
			conf.OS, conf.Architecture = "linux", runtime.GOARCH
			conf.Config.Entrypoint, conf.Config.Cmd = entrypoint, command
			conf.Config.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
			if img, err = mutate.ConfigFile(img, conf); err != nil {
				return err
			}
			err = remote.Write(ref, img, remote.WithContext(cmd.Context()), remote.WithAuth(&authn.Basic{Username: "token", Password: s.Token}))
			if err != nil {
				return err
			}
			digest, err := img.Digest()
			if err != nil {
				return err
			}
			if wantsJSON(cmd) {
				return printJSON(cmd, map[string]string{"image": "cloud://" + args[0], "digest": digest.String()})
			}
			say(cmd, "cloud://%s is in the registry, digest %s", args[0], digest)
			return nil
		},
	}
	push.Flags().StringSliceVar(&entrypoint, "entrypoint", nil, tr("the image's entrypoint"))
	push.Flags().StringSliceVar(&command, "command", nil, tr("the image's command"))
	cmd.AddCommand(push)
	return cmd
}
