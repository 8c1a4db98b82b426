package server

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/objectstore"
)

// openObjectStore opens object storage as the operator has set it; nil: there is none.
func openObjectStore(cfg *config.Config) (*objectstore.Store, error) {
	if cfg.S3Endpoint == "" {
		return nil, nil
	}
	secret, err := os.ReadFile(cfg.S3SecretKeyFile)
	if err != nil {
		return nil, fmt.Errorf("s3_secret_key_file: %w", err)
	}
	return objectstore.New(objectstore.Config{
		Endpoint: cfg.S3Endpoint, Bucket: cfg.S3Bucket, Region: cfg.S3Region, Prefix: cfg.S3Prefix, HostStyle: cfg.S3Addressing == "host",
		AccessKey: cfg.S3AccessKey, SecretKey: strings.TrimSpace(string(secret)),
	})
}

// TryObjectStore writes, reads and removes a small object where the operator has set
// object storage up, and says as a fault what does not work.
func TryObjectStore(ctx context.Context, cfg *config.Config) error {
	s, err := openObjectStore(cfg)
	if err != nil {
		return err
	}
	if s == nil {
		return fault.New(fault.Invalid, "object_store_off", "there is no object storage to try: set s3_endpoint, s3_bucket, s3_access_key and s3_secret_key_file")
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	return s.Check(ctx)
}

// checkObjectStore tries object storage at the start. What does not work is said, and
// stops nobody: leases run without it, and it may come back.
func (c *Cloud) checkObjectStore(ctx context.Context) {
	if c.objects == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := c.objects.Check(ctx); err != nil && ctx.Err() == nil {
		c.log.ErrorContext(ctx, "object storage does not work, and snapshots with it; see suanli config check --try-s3", "bucket", c.objects.Bucket(), "error", err)
	}
}
