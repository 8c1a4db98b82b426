package server

import (
	"os"
	"path/filepath"
	"testing"

	"suanli.dev/internal/config"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/objectstore/s3test"
)

func TestObjectStorageIsTriedAsItIsConfigured(t *testing.T) {
	t.Parallel()
	try := func(c *config.Config) string {
		f, _ := fault.As(TryObjectStore(t.Context(), c))
		if f == nil {
			return ""
		}
		return f.Code
	}
	if code := try(&config.Config{}); code != "object_store_off" {
		t.Errorf("without any: %q", code)
	}
	s3 := s3test.Start(t)
	secret := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(secret, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(s3.SecretKey + "\n")
	c := &config.Config{S3Endpoint: s3.Endpoint, S3Bucket: s3.Bucket, S3Region: s3.Region, S3Addressing: "path", S3AccessKey: s3.AccessKey, S3SecretKeyFile: secret}
	if code := try(c); code != "" {
		t.Errorf("as it is: %q", code)
	}
	write("another")
	if code := try(c); code != "object_store_refused" {
		t.Errorf("with another secret: %q", code)
	}
	c.S3SecretKeyFile = filepath.Join(t.TempDir(), "none")
	if err := TryObjectStore(t.Context(), c); err == nil {
		t.Error("without the file of the secret")
	}
}
