package objectstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"suanli.dev/internal/fault"
)

// MaxParts is how many parts an object can have, and MinPartBytes the least that each
// but the last has: the limits of S3.
const (
	MaxParts     = 10_000
	MinPartBytes = 5 << 20
)

// ErrNotFound is returned of objects and uploads that are not there.
var ErrNotFound = errors.New("not in the bucket")

// Config is where the bucket is, and the keys to it.
type Config struct {
	Endpoint  string // http:// or https://, host and port
	Bucket    string
	Region    string // empty: us-east-1
	Prefix    string // of all keys
	AccessKey string
	SecretKey string
	// HostStyle puts the bucket in front of the endpoint's host name, which some
	// services want; otherwise it is in the path.
	HostStyle bool
	Transport http.RoundTripper // nil: the standard one
}

// Store is a bucket, or the part of it under a prefix. It is safe for concurrent use.
type Store struct {
	core   *minio.Core
	c      Config
	secret []string // what no error may show
}

// New returns a Store, and reads nothing yet.
func New(c Config) (*Store, error) {
	u, err := url.Parse(c.Endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return nil, fault.New(fault.Invalid, "object_store_endpoint", "s3_endpoint: want http://HOST[:PORT] or https://HOST[:PORT], without a path or keys in it")
	}
	if c.Bucket == "" || c.AccessKey == "" || c.SecretKey == "" {
		return nil, fault.New(fault.Invalid, "object_store_incomplete", "object storage wants an endpoint, a bucket and both keys")
	}
	if c.Region == "" {
		c.Region = "us-east-1"
	}
	lookup := minio.BucketLookupPath
	if c.HostStyle {
		lookup = minio.BucketLookupDNS
	}
	core, err := minio.NewCore(u.Host, &minio.Options{
		Creds: credentials.NewStaticV4(c.AccessKey, c.SecretKey, ""), Secure: u.Scheme == "https", Region: c.Region,
		BucketLookup: lookup, Transport: c.Transport, MaxRetries: 3,
	})
	if err != nil {
		return nil, fmt.Errorf("object storage: %w", err)
	}
	return &Store{core: core, c: c, secret: []string{c.SecretKey, c.AccessKey}}, nil
}

// Bucket is the bucket's name and endpoint, for people.
func (s *Store) Bucket() string { return s.c.Bucket + " at " + s.c.Endpoint }

// Check writes a small object, reads it and removes it, and says which of these the
// keys do not let it do: an error here is found before somebody's data depends on it.
func (s *Store) Check(ctx context.Context) error {
	const key, text = "suanli-check", "suanli"
	if ok, err := s.core.BucketExists(ctx, s.c.Bucket); err != nil {
		return s.say("look at the bucket", err)
	} else if !ok {
		return fault.New(fault.Invalid, "object_store_bucket", "there is no bucket %s; make it, or set s3_bucket and s3_region", s.Bucket())
	}
	if _, err := s.core.Client.PutObject(ctx, s.c.Bucket, s.c.Prefix+key, strings.NewReader(text), int64(len(text)), minio.PutObjectOptions{}); err != nil {
		return s.say("write to the bucket", err)
	}
	r, _, _, err := s.core.GetObject(ctx, s.c.Bucket, s.c.Prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return s.say("read from the bucket", err)
	}
	defer r.Close()
	if b, err := io.ReadAll(io.LimitReader(r, 100)); err != nil || string(b) != text {
		return s.say("read from the bucket", fmt.Errorf("what was written is read as %q: %w", b, err))
	}
	if err := s.Remove(ctx, key); err != nil {
		return err
	}
	_, err = s.Uploads(ctx, key)
	return err
}

// say makes a fault of an error of the service's, without keys in it.
func (s *Store) say(what string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	r := minio.ToErrorResponse(err)
	switch r.Code {
	case minio.NoSuchKey, minio.NoSuchUpload, "NotFound":
		return fmt.Errorf("%s: %w", what, ErrNotFound)
	}
	text := err.Error()
	for _, secret := range s.secret {
		text = strings.ReplaceAll(text, secret, "***")
	}
	switch r.Code {
	case minio.NoSuchBucket:
		return fault.New(fault.Invalid, "object_store_bucket", "there is no bucket %s; make it, or set s3_bucket and s3_region", s.Bucket())
	case minio.AccessDenied, "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return fault.New(fault.Unavailable, "object_store_refused", "object storage refuses to %s %s (%s: %s); check s3_access_key, s3_secret_key_file, and what they may do", what, s.Bucket(), r.Code, text)
	}
	return fault.New(fault.Unavailable, "object_store_unreachable", "object storage did not %s %s: %s; it is tried again where it can be", what, s.Bucket(), text)
}

// Begin begins an upload in parts, and returns its identifier.
func (s *Store) Begin(ctx context.Context, key string) (string, error) {
	id, err := s.core.NewMultipartUpload(ctx, s.c.Bucket, s.c.Prefix+key, minio.PutObjectOptions{ContentType: "application/octet-stream"})
	return id, s.say("begin an upload to", err)
}

// PartURL signs a URL by which one part of an upload can be put, until it expires.
// Signing asks nobody.
func (s *Store) PartURL(ctx context.Context, key, upload string, number int, expires time.Duration) (string, error) {
	u, err := s.core.Presign(ctx, http.MethodPut, s.c.Bucket, s.c.Prefix+key, expires, url.Values{"partNumber": {strconv.Itoa(number)}, "uploadId": {upload}})
	if err != nil {
		return "", s.say("sign a URL of", err)
	}
	return u.String(), nil
}

// GetURL signs a URL by which an object can be read, until it expires.
func (s *Store) GetURL(ctx context.Context, key string, expires time.Duration) (string, error) {
	u, err := s.core.Presign(ctx, http.MethodGet, s.c.Bucket, s.c.Prefix+key, expires, nil)
	if err != nil {
		return "", s.say("sign a URL of", err)
	}
	return u.String(), nil
}

// Digest sums up what parts a service has, by their entity tags in order. Whoever put
// the parts makes the same of the tags that it was answered, so that equal digests
// mean that the parts are those and no others.
type Digest struct {
	n   int
	sum [sha256.Size]byte
}

// Add adds the next part's entity tag.
func (d *Digest) Add(tag string) {
	d.n++
	d.sum = sha256.Sum256(append(d.sum[:], strings.Trim(tag, `"`)...))
}

// String is the digest so far.
func (d *Digest) String() string { return strconv.Itoa(d.n) + ":" + hex.EncodeToString(d.sum[:]) }

// Parts are the first n parts of an upload, with their sum.
type Parts struct {
	Bytes  int64
	Digest string
	list   []minio.CompletePart
}

// Parts lists the first n parts that an upload has; it may have fewer. It is
// ErrNotFound if there is no such upload.
func (s *Store) Parts(ctx context.Context, key, upload string, n int) (Parts, error) {
	var p Parts
	var d Digest
	for marker := 0; ; {
		r, err := s.core.ListObjectParts(ctx, s.c.Bucket, s.c.Prefix+key, upload, marker, 1000)
		if err != nil {
			return p, s.say("list the parts of an upload to", err)
		}
		for _, part := range r.ObjectParts {
			if part.PartNumber > n || part.PartNumber != len(p.list)+1 {
				continue // a leftover of an attempt before, or there is a gap, which the digest shows
			}
			p.list = append(p.list, minio.CompletePart{PartNumber: part.PartNumber, ETag: part.ETag})
			p.Bytes += part.Size
			d.Add(part.ETag)
		}
		if !r.IsTruncated || r.NextPartNumberMarker <= marker {
			break
		}
		marker = r.NextPartNumberMarker
	}
	p.Digest = d.String()
	return p, nil
}

// Complete makes an object of the parts of an upload.
func (s *Store) Complete(ctx context.Context, key, upload string, p Parts) error {
	_, err := s.core.CompleteMultipartUpload(ctx, s.c.Bucket, s.c.Prefix+key, upload, p.list, minio.PutObjectOptions{})
	return s.say("complete an upload to", err)
}

// Abort gives an upload up with all parts that it has. One that is not there is no
// error.
func (s *Store) Abort(ctx context.Context, key, upload string) error {
	err := s.say("abort an upload to", s.core.AbortMultipartUpload(ctx, s.c.Bucket, s.c.Prefix+key, upload))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Upload is one that was begun, and neither completed nor given up.
type Upload struct {
	Key, ID string
	Begun   time.Time
}

// Uploads lists the uploads that are begun to keys with a prefix.
func (s *Store) Uploads(ctx context.Context, prefix string) ([]Upload, error) {
	var out []Upload
	key, id := "", ""
	for {
		r, err := s.core.ListMultipartUploads(ctx, s.c.Bucket, s.c.Prefix+prefix, key, id, "", 1000)
		if err != nil {
			return nil, s.say("list the uploads to", err)
		}
		for _, u := range r.Uploads {
			out = append(out, Upload{Key: strings.TrimPrefix(u.Key, s.c.Prefix), ID: u.UploadID, Begun: u.Initiated})
		}
		if !r.IsTruncated || r.NextKeyMarker == key && r.NextUploadIDMarker == id {
			return out, nil
		}
		key, id = r.NextKeyMarker, r.NextUploadIDMarker
	}
}

// Size returns the bytes of an object, or ErrNotFound.
func (s *Store) Size(ctx context.Context, key string) (int64, error) {
	o, err := s.core.StatObject(ctx, s.c.Bucket, s.c.Prefix+key, minio.StatObjectOptions{})
	return o.Size, s.say("look at an object of", err)
}

// Remove removes an object, and gives up all uploads to its key. That nothing is there
// is no error.
func (s *Store) Remove(ctx context.Context, key string) error {
	list, err := s.Uploads(ctx, key)
	if err != nil {
		return err
	}
	for _, u := range list {
		if u.Key != key {
			continue
		}
		if err := s.Abort(ctx, key, u.ID); err != nil {
			return err
		}
	}
	err = s.say("remove an object of", s.core.RemoveObject(ctx, s.c.Bucket, s.c.Prefix+key, minio.RemoveObjectOptions{}))
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Keys lists the objects whose keys have a prefix.
func (s *Store) Keys(ctx context.Context, prefix string) ([]string, error) {
	var out []string
	for o := range s.core.Client.ListObjects(ctx, s.c.Bucket, minio.ListObjectsOptions{Prefix: s.c.Prefix + prefix, Recursive: true}) {
		if o.Err != nil {
			return nil, s.say("list the objects of", o.Err)
		}
		out = append(out, strings.TrimPrefix(o.Key, s.c.Prefix))
	}
	return out, nil
}
