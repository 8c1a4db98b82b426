package agent

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/objectstore"
	"suanli.dev/internal/protocol"
)

// maxPartMiB bounds a part, which is in memory while it is put.
const maxPartMiB = 128

// transferTries is how often in a row a part is put, or an object read on, without a
// byte of success before the transfer fails.
const transferTries = 8

// transfers are the copies of volumes that go on, or have ended and were not forgotten.
type transfers struct {
	mu   sync.Mutex
	byID map[string]*transfer
}

// transfer is one copy of a volume to object storage or from it.
type transfer struct {
	volume string
	cancel context.CancelFunc
	done   chan struct{}

	mu     sync.Mutex
	urls   map[int]string // of parts that are to be put
	at     int            // the part that is put, or is put next
	url    string         // where the object is read
	fresh  chan struct{}  // closed when URLs come
	status protocol.TransferStatus
	code   string
	reason string
}

// TransferCommand begins a transfer, or hands it URLs, and says how it stands.
func (a *Agent) TransferCommand(c protocol.TransferCommand) protocol.CommandResult {
	copier, can := a.driver.(runtime.Copier)
	switch {
	case !leaseIDPattern.MatchString(c.ID) || !runtime.ValidVolumeID(c.VolumeID):
		return protocol.CommandResult{Code: "bad_spec", Message: fmt.Sprintf("a transfer %q of volume %q: want identifiers of a-z, 0-9 and -", c.ID, c.VolumeID)}
	case c.Want == protocol.TransferStop:
		a.stopTransfers(func(id string, _ *transfer) bool { return id == c.ID })
		return protocol.CommandResult{Accepted: true}
	case !can:
		return protocol.CommandResult{Code: "engine", Message: "volumes of this host's container engine cannot be copied"}
	case c.Want == protocol.TransferSave && (c.PartMiB < objectstore.MinPartBytes>>20 || c.PartMiB > maxPartMiB):
		return protocol.CommandResult{Code: "bad_spec", Message: fmt.Sprintf("parts of %d MiB: want %d to %d", c.PartMiB, objectstore.MinPartBytes>>20, maxPartMiB)}
	case c.Want == protocol.TransferFill && (c.SizeMiB < 16 || c.SizeMiB > maxMiB || c.Bytes < 1):
		return protocol.CommandResult{Code: "bad_spec", Message: fmt.Sprintf("a volume of %d MiB from %d bytes: want 16 to %d MiB and at least 1 byte", c.SizeMiB, c.Bytes, maxMiB)}
	case c.Want != protocol.TransferSave && c.Want != protocol.TransferFill:
		return protocol.CommandResult{Code: "bad_spec", Message: fmt.Sprintf("a transfer that wants %q: want save, fill or stop", c.Want)}
	}
	t, ok := a.beginTransfer(c, copier)
	if !ok {
		return protocol.CommandResult{Code: "not_ready", Message: "the agent has not heard from its container engine yet; send the command again"}
	}
	return t.hand(c)
}

// beginTransfer returns the transfer of a command, which is begun unless it goes on.
func (a *Agent) beginTransfer(c protocol.TransferCommand, copier runtime.Copier) (*transfer, bool) {
	a.copies.mu.Lock()
	defer a.copies.mu.Unlock()
	if t := a.copies.byID[c.ID]; t != nil {
		return t, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.adopted || a.ctx == nil || a.ctx.Err() != nil {
		return nil, false
	}
	ctx, cancel := context.WithCancel(a.ctx)
	t := &transfer{volume: c.VolumeID, cancel: cancel, done: make(chan struct{}), urls: map[int]string{}, at: 1, fresh: make(chan struct{}), status: protocol.TransferStatus{State: protocol.TransferRunning}}
	if a.copies.byID == nil {
		a.copies.byID = map[string]*transfer{}
	}
	a.copies.byID[c.ID] = t
	a.wg.Add(1)
	go func() {
		defer a.wg.Done()
		defer close(t.done)
		defer cancel()
		var err error
		if c.Want == protocol.TransferSave {
			err = t.save(ctx, copier, c)
		} else {
			err = t.fill(ctx, copier, c)
		}
		t.end(err)
		if err != nil && ctx.Err() == nil {
			a.log.Warn("a copy of a volume failed", "volume", c.VolumeID, "want", c.Want, "error", err)
		}
		a.poke() // free disk has changed
	}()
	return t, true
}

// stopTransfers gives up those transfers that which selects, forgets them, and returns
// when nothing of them goes on.
func (a *Agent) stopTransfers(which func(id string, t *transfer) bool) {
	var stopped []*transfer
	a.copies.mu.Lock()
	for id, t := range a.copies.byID {
		if which(id, t) {
			delete(a.copies.byID, id)
			stopped = append(stopped, t)
		}
	}
	a.copies.mu.Unlock()
	for _, t := range stopped {
		t.cancel()
		<-t.done
	}
}

// hand takes URLs in, and says how the transfer stands.
func (t *transfer) hand(c protocol.TransferCommand) protocol.CommandResult {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range c.Parts {
		if p.Number >= t.at {
			t.urls[p.Number] = p.URL
		}
	}
	if c.URL != "" {
		t.url = c.URL
	}
	close(t.fresh)
	t.fresh = make(chan struct{})
	s := t.status
	if s.State == protocol.TransferRunning && c.Want == protocol.TransferSave {
		s.NextPart = t.at
		for t.urls[s.NextPart] != "" {
			s.NextPart++
		}
	}
	return protocol.CommandResult{Accepted: true, Code: t.code, Message: t.reason, Transfer: &s}
}

func (t *transfer) end(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		t.status.State = protocol.TransferDone
		return
	}
	t.status.State, t.code, t.reason = protocol.TransferFailed, runtime.CodeOf(err), err.Error()
	if t.code == "" {
		t.code = "copy_failed"
	}
}

// withoutURL is an error of HTTP without the URL, which is a secret.
func withoutURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

// pause waits before the next try.
func pause(ctx context.Context, try int) error {
	timer := time.NewTimer(min(time.Second<<try, 30*time.Second))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// save writes a volume to object storage, in parts.
func (t *transfer) save(ctx context.Context, copier runtime.Copier, c protocol.TransferCommand) error {
	parts := &partWriter{t: t, size: int(c.PartMiB) << 20, sum: sha256.New()}
	var enc *zstd.Encoder
	var failed error
	sum, err := copier.SaveVolume(ctx, c.VolumeID, func(ctx context.Context) io.Writer {
		parts.ctx = ctx
		// Two at a time: leases on the host come first.
		enc, failed = zstd.NewWriter(parts, zstd.WithEncoderConcurrency(2), zstd.WithEncoderCRC(true))
		if failed != nil {
			return failing{failed}
		}
		return enc
	})
	if err != nil {
		if enc != nil {
			_ = enc.Close()
		}
		return err
	}
	parts.ctx = ctx
	if err := enc.Close(); err != nil {
		return err
	}
	if err := parts.flush(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.Parts, t.status.PartsDigest = t.at-1, parts.digest.String()
	t.status.ObjectSHA256, t.status.ContentSHA256 = hex.EncodeToString(parts.sum.Sum(nil)), sum
	return nil
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// partWriter collects parts and puts them, one after the other.
type partWriter struct {
	ctx    context.Context
	t      *transfer
	size   int
	buf    bytes.Buffer
	sum    hash.Hash
	digest objectstore.Digest
}

func (p *partWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		k := min(len(b), p.size-p.buf.Len())
		p.buf.Write(b[:k])
		b = b[k:]
		if p.buf.Len() == p.size {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// flush puts what is collected as the next part.
func (p *partWriter) flush() error {
	if p.buf.Len() == 0 {
		return nil
	}
	p.t.mu.Lock()
	number := p.t.at
	p.t.mu.Unlock()
	if number > objectstore.MaxParts {
		return &runtime.Error{Code: "volume_too_big", Reason: fmt.Sprintf("the copy has more than %d parts", objectstore.MaxParts)}
	}
	tag, err := p.t.put(p.ctx, number, p.buf.Bytes())
	if err != nil {
		return err
	}
	p.sum.Write(p.buf.Bytes())
	p.digest.Add(tag)
	p.t.mu.Lock()
	p.t.status.Bytes += int64(p.buf.Len())
	delete(p.t.urls, number)
	p.t.at++
	p.t.mu.Unlock()
	p.buf.Reset()
	return nil
}

// put puts one part, again while that may help, and returns its entity tag.
func (t *transfer) put(ctx context.Context, number int, b []byte) (string, error) {
	sum := md5.Sum(b) // what S3 compares what it got with
	for try := 0; ; try++ {
		to, err := t.partURL(ctx, number)
		if err != nil {
			return "", err
		}
		tag, expired, err := t.putOnce(ctx, to, b, sum[:])
		if err == nil {
			return tag, nil
		}
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		if expired {
			t.mu.Lock()
			if t.urls[number] == to {
				delete(t.urls, number) // it is asked for again
			}
			t.mu.Unlock()
		}
		if try+1 >= transferTries {
			return "", fmt.Errorf("object storage did not take part %d in %d tries: %w", number, transferTries, err)
		}
		if err := pause(ctx, try); err != nil {
			return "", err
		}
	}
}

func (t *transfer) putOnce(ctx context.Context, to string, b, sum []byte) (tag string, expired bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, to, bytes.NewReader(b))
	if err != nil {
		return "", false, withoutURL(err)
	}
	req.Header.Set("Content-MD5", base64.StdEncoding.EncodeToString(sum))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", false, withoutURL(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	if res.StatusCode != http.StatusOK || res.Header.Get("ETag") == "" {
		return "", res.StatusCode == http.StatusForbidden, fmt.Errorf("it answered %s", res.Status)
	}
	return res.Header.Get("ETag"), false, nil
}

// partURL waits for the URL of a part.
func (t *transfer) partURL(ctx context.Context, number int) (string, error) {
	for {
		t.mu.Lock()
		u, fresh := t.urls[number], t.fresh
		t.mu.Unlock()
		if u != "" {
			return u, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-fresh:
		}
	}
}

// fill makes a volume of an object.
func (t *transfer) fill(ctx context.Context, copier runtime.Copier, c protocol.TransferCommand) error {
	object := &objectReader{ctx: ctx, t: t, size: c.Bytes, sum: sha256.New()}
	defer object.close()
	dec, err := zstd.NewReader(object, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return err
	}
	defer dec.Close()
	if err := copier.FillVolume(ctx, c.VolumeID, c.SizeMiB, c.ContentSHA256, damagedIsFinal{dec}); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.status.ContentSHA256 = c.ContentSHA256
	return nil
}

// damagedIsFinal tells apart an object that is damaged from one that cannot be read now.
type damagedIsFinal struct{ from io.Reader }

func (d damagedIsFinal) Read(b []byte) (int, error) {
	n, err := d.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.As(err, new(*readError)) && !errors.Is(err, context.Canceled) {
		return n, &runtime.Error{Code: "snapshot_damaged", Reason: "what object storage has is not a whole copy of a volume: " + err.Error()}
	}
	return n, err
}

// readError is of an object that could not be read to its end.
type readError struct{ err error }

func (e *readError) Error() string { return "object storage did not send the object: " + e.err.Error() }
func (e *readError) Unwrap() error { return e.err }

// objectReader reads an object, and reads on where it was cut off.
type objectReader struct {
	ctx  context.Context
	t    *transfer
	size int64
	at   int64
	body io.ReadCloser
	sum  hash.Hash
	try  int
}

func (o *objectReader) close() {
	if o.body != nil {
		o.body.Close()
		o.body = nil
	}
}

func (o *objectReader) Read(b []byte) (int, error) {
	for {
		if o.at >= o.size {
			return 0, io.EOF
		}
		err := o.open()
		if err == nil {
			var n int
			if n, err = o.body.Read(b[:min(int64(len(b)), o.size-o.at)]); n > 0 {
				o.sum.Write(b[:n])
				o.at += int64(n)
				o.try = 0
				o.t.mu.Lock()
				o.t.status.Bytes = o.at
				o.t.mu.Unlock()
				return n, nil
			}
			if err == nil {
				continue
			}
		}
		o.close()
		if o.ctx.Err() != nil {
			return 0, o.ctx.Err()
		}
		if o.try++; o.try >= transferTries {
			return 0, &readError{withoutURL(err)}
		}
		if err := pause(o.ctx, o.try-1); err != nil {
			return 0, err
		}
	}
}

// open asks for the rest of the object.
func (o *objectReader) open() error {
	if o.body != nil {
		return nil
	}
	o.t.mu.Lock()
	from := o.t.url
	o.t.mu.Unlock()
	req, err := http.NewRequestWithContext(o.ctx, http.MethodGet, from, nil)
	if err != nil {
		return withoutURL(err)
	}
	if o.at > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(o.at, 10)+"-")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return withoutURL(err)
	}
	want := http.StatusOK
	if o.at > 0 {
		want = http.StatusPartialContent
	}
	if res.StatusCode != want {
		res.Body.Close()
		return fmt.Errorf("it answered %s", res.Status)
	}
	o.body = res.Body
	return nil
}
