package server

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
	"suanli.dev/internal/account"
	"suanli.dev/internal/fault"
)

const (
	// maxFile is the size, in bytes, of what passes through the API in one piece.
	maxFile = 256 << 20
	// maxListing bounds what an instance says of one folder, in bytes; some twenty
	// thousand entries.
	maxListing = 4 << 20
	// filePatience is how long an instance may take for an answer.
	filePatience = 30 * time.Second
	// bodyPatience is for the next piece of an upload: the request's body has a
	// patience of its own, which is over before.
	bodyPatience = 10 * time.Minute
	maxPath      = 4096
)

// FilePath is embedded in the input of operations on one file.
type FilePath struct {
	Path string `query:"path" maxLength:"4096" doc:"Absolute, or from the home of the instance's user"`
}

func (a *API) registerFiles() {
	const about = "It is done in the instance, by SFTP, as its user: what that user may not see is not seen here either."
	register(a, operation{
		ID: "listLeaseFiles", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/files", Summary: "List a folder in a running lease", Tag: tagLease, Action: account.EnterLeases,
		Description: about,
	}, a.listFiles)
	registerStream(a, operation{
		ID: "getLeaseFile", Method: http.MethodGet, Path: "/v1/leases/{lease_id}/files/content", Summary: "Fetch a file from a running lease", Tag: tagLease, Action: account.EnterLeases,
		Description: about + " Files of more than 256 MiB are copied with scp or `suanli cp`.",
	}, "application/octet-stream", a.getFile)
	registerStream(a, operation{
		ID: "putLeaseFile", Method: http.MethodPut, Path: "/v1/leases/{lease_id}/files/content", Summary: "Put a file into a running lease", Tag: tagLease, Action: account.EnterLeases, Upload: true,
		Description: about + " The file is there when it is whole, and not before. A link that is overwritten becomes a file; what it pointed to stays. Files of more than 256 MiB are copied with scp or `suanli cp`.",
	}, "application/json", a.putFile)
}

// within is a session of SFTP with an instance.
type within struct {
	*sftp.Client
	shell *ssh.Client
	stall *stall
	leave func()
}

func (w *within) close() {
	w.stall.stop()
	w.shell.Close() // ends the session of SFTP as well, whatever it waits for
	if w.Client != nil {
		_ = w.Client.Close()
	}
	w.leave()
}

// within opens the files of a lease, until close is called or an answer does not
// come. most bounds the bytes that the instance may send; 0: no bound. by is what
// is written into the audit log; "": nothing.
func (a *API) within(ctx context.Context, p account.Principal, nameOrID, by string, most int64) (*within, error) {
	l, err := a.enterable(ctx, p, nameOrID)
	if err != nil {
		return nil, err
	}
	leave, err := a.inside.take(p.UserID, "transfers", userTransfers)
	if err != nil {
		return nil, err
	}
	shell, err := a.enter(ctx, p, l, by)
	if err != nil {
		leave()
		return nil, err
	}
	w := &within{shell: shell, stall: newStall(func() { shell.Close() }), leave: leave}
	w.stall.wait(filePatience)
	notReady := func(err error) (*within, error) {
		w.close()
		return nil, fault.New(fault.Unavailable, "instance_not_ready", "the files of lease %s cannot be reached now: %w", nameOrID, err)
	}
	s, err := shell.NewSession()
	if err != nil {
		return notReady(err)
	}
	input, err := s.StdinPipe()
	if err != nil {
		return notReady(err)
	}
	output, err := s.StdoutPipe()
	if err == nil {
		err = s.RequestSubsystem("sftp")
	}
	if err != nil {
		return notReady(err)
	}
	if most > 0 {
		output = io.LimitReader(output, most)
	}
	if w.Client, err = sftp.NewClientPipe(output, input); err != nil {
		return notReady(err)
	}
	return w, nil
}

// place is the absolute path that a client means.
func (w *within) place(name string) (string, error) {
	if len(name) > maxPath || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return "", fault.New(fault.Invalid, "bad_path", "a path has up to %d bytes of UTF-8 and no zero byte", maxPath).At("query.path")
	}
	if !path.IsAbs(name) {
		home, err := w.Getwd()
		if err != nil {
			return "", sftpFault("the home folder", err)
		}
		name = path.Join("/", home, name)
	}
	return path.Clean(name), nil
}

// sftpFault says what an instance refused.
func sftpFault(name string, err error) error {
	var status *sftp.StatusError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.NotFound, "file_not_found", "there is no %s in this instance", name)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Conflict, "file_refused", "the instance's user may not do this with %s", name)
	case errors.As(err, &status):
		return fault.New(fault.Conflict, "file_refused", "the instance refuses this for %s: %s", name, err.Error())
	}
	return fault.New(fault.Unavailable, "instance_lost", "the connection to the instance has ended, at %s: %w", name, err)
}

func (a *API) listFiles(ctx context.Context, p account.Principal, in *struct {
	LeasePath
	FilePath
}) (*body[api.LeaseFolder], error) {
	w, err := a.within(ctx, p, in.LeaseID, "", maxListing)
	if err != nil {
		return nil, err
	}
	defer w.close()
	defer context.AfterFunc(ctx, func() { w.shell.Close() })()
	name, err := w.place(in.Path)
	if err != nil {
		return nil, err
	}
	about, err := w.Stat(name)
	if err != nil {
		return nil, sftpFault(name, err)
	}
	if !about.IsDir() {
		return nil, fault.New(fault.Conflict, "not_a_folder", "%s is not a folder", name).At("query.path")
	}
	list, err := w.ReadDirContext(ctx, name)
	if err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) || errors.Is(err, sftp.ErrSSHFxConnectionLost) {
			return nil, fault.New(fault.Conflict, "folder_too_large", "%s has more entries than can be listed here; use the terminal", name)
		}
		return nil, sftpFault(name, err)
	}
	out := &body[api.LeaseFolder]{api.LeaseFolder{Path: name, Items: make([]api.LeaseFile, 0, len(list))}}
	for _, f := range list {
		out.Body.Items = append(out.Body.Items, api.LeaseFile{Name: f.Name(), Kind: kindOf(f.Mode()), SizeBytes: f.Size(), ModifiedAt: f.ModTime().UTC(), Mode: f.Mode().String()})
	}
	slices.SortFunc(out.Body.Items, func(x, y api.LeaseFile) int {
		return cmp.Or(-cmp.Compare(b2i(x.Kind == "folder"), b2i(y.Kind == "folder")), cmp.Compare(x.Name, y.Name))
	})
	return out, nil
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func kindOf(m fs.FileMode) string {
	switch m.Type() {
	case 0:
		return "file"
	case fs.ModeDir:
		return "folder"
	case fs.ModeSymlink:
		return "link"
	}
	return "other"
}

func (a *API) getFile(rw http.ResponseWriter, r *http.Request, p account.Principal, in *struct {
	LeasePath
	FilePath
}) error {
	w, err := a.within(r.Context(), p, in.LeaseID, "download", 0)
	if err != nil {
		return err
	}
	defer w.close()
	defer context.AfterFunc(r.Context(), func() { w.shell.Close() })()
	name, err := w.place(in.Path)
	if err != nil {
		return err
	}
	about, err := w.Stat(name)
	if err != nil {
		return sftpFault(name, err)
	}
	// A pipe would be waited for, and a device has no end.
	if !about.Mode().IsRegular() {
		return fault.New(fault.Conflict, "not_a_file", "%s is not a file", name).At("query.path")
	}
	if about.Size() > a.maxFile {
		return fault.New(fault.Conflict, "file_too_large", "%s has %d bytes; files of more than %d MiB are copied with scp or suanli cp", name, about.Size(), a.maxFile>>20)
	}
	f, err := w.Open(name)
	if err != nil {
		return sftpFault(name, err)
	}
	h := rw.Header()
	h.Set("Content-Type", "application/octet-stream")
	// A browser must never show what a tenant's file holds as a page of this origin.
	h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}))
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	control := http.NewResponseController(rw)
	_ = control.SetWriteDeadline(time.Time{})
	sent := int64(0)
	buf := make([]byte, 256<<10)
	for {
		w.stall.wait(filePatience)
		n, rerr := f.Read(buf)
		if sent += int64(n); sent > a.maxFile {
			rerr = errors.New("it grew beyond what is sent") // a file of /proc has no size to be asked for
		}
		if n > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(filePatience))
			if _, err := rw.Write(buf[:n]); err != nil {
				return nil // the reader has gone
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			return nil
		case rerr != nil && sent == 0:
			return sftpFault(name, rerr)
		case rerr != nil:
			// Half a file must not look like a whole one.
			panic(http.ErrAbortHandler)
		}
	}
}

func (a *API) putFile(rw http.ResponseWriter, r *http.Request, p account.Principal, in *struct {
	LeasePath
	FilePath
	Overwrite bool `query:"overwrite" doc:"Replace a file that is there"`
}) error {
	if r.ContentLength > a.maxFile {
		return a.tooLargeFile()
	}
	ctx := r.Context()
	w, err := a.within(ctx, p, in.LeaseID, "upload", 0)
	if err != nil {
		return err
	}
	defer w.close() // and not when ctx ends: what came by then is yet to be removed
	name, err := w.place(in.Path)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	switch about, err := w.Lstat(name); {
	case err == nil && about.IsDir():
		return fault.New(fault.Conflict, "not_a_file", "%s is a folder; name the file in it", name).At("query.path")
	case err == nil && !in.Overwrite:
		return fault.New(fault.Conflict, "file_exists", "there is already a %s; send overwrite=true to replace it", name).At("query.path")
	case err == nil && about.Mode().IsRegular():
		mode = about.Mode().Perm()
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return sftpFault(name, err)
	}
	// Beside its place, so that it can be renamed into it; of a name that nobody
	// has, so that it is no link that somebody has laid.
	part := path.Join(path.Dir(name), "."+rand.Text()+".part")
	f, err := w.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return sftpFault(name, err)
	}
	size, err := w.fill(ctx, f, http.MaxBytesReader(rw, r.Body, a.maxFile))
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Close())
	}
	if err == nil {
		if in.Overwrite {
			err = w.PosixRename(part, name)
		} else if err = w.Link(part, name); err == nil { // which fails where a file came meanwhile
			err = w.Remove(part)
		}
	}
	if err != nil {
		f.Close()
		_ = w.Remove(part)
		var large *http.MaxBytesError
		switch {
		case errors.As(err, &large):
			return a.tooLargeFile()
		case errors.Is(err, errBody):
			return fault.New(fault.Invalid, "upload_incomplete", "the file did not arrive whole, so that nothing was kept: %w", err)
		}
		return sftpFault(name, err)
	}
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(api.LeaseFileStored{Path: name, SizeBytes: size}) // or the client has gone
	return nil
}

func (a *API) tooLargeFile() error {
	return fault.New(fault.Invalid, "file_too_large", "files of more than %d MiB are copied with scp or suanli cp", a.maxFile>>20)
}

// errBody is of a body that broke off, as opposed to an instance that did.
var errBody = errors.New("the body broke off")

// fill writes what comes into a file.
func (w *within) fill(ctx context.Context, f *sftp.File, from io.Reader) (size int64, err error) {
	buf := make([]byte, 256<<10)
	for {
		w.stall.wait(bodyPatience)
		n, rerr := 0, error(nil)
		for n < len(buf) && rerr == nil {
			var m int
			m, rerr = from.Read(buf[n:])
			n += m
		}
		w.stall.wait(filePatience)
		if n > 0 {
			if _, err := f.Write(buf[:n]); err != nil {
				return size, err
			}
			size += int64(n)
		}
		if errors.Is(rerr, io.EOF) {
			return size, nil
		}
		if rerr == nil {
			rerr = context.Cause(ctx)
		}
		if rerr != nil {
			return size, fmt.Errorf("%w: %w", errBody, rerr)
		}
	}
}
