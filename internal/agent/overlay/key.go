package overlay

import (
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Key is a node's private key. It never leaves its host.
type Key [32]byte

const keyFile = "overlay_key"

// KeepKey returns the key of a lease, which it makes the first time. It is kept in the
// lease's folder, and erased with it.
func KeepKey(dir string) (Key, error) {
	path := filepath.Join(dir, keyFile)
	b, err := os.ReadFile(path)
	if err == nil && len(b) == len(Key{}) {
		return Key(b), nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Key{}, fmt.Errorf("read the key of a private network: %w", err)
	}
	k, err := NewKey()
	if err != nil {
		return k, err
	}
	// One that was written halfway is replaced: its peers are told of the new one.
	if err := os.WriteFile(path, k[:], 0o600); err != nil {
		return Key{}, fmt.Errorf("keep the key of a private network: %w", err)
	}
	return k, nil
}

// EraseKey removes the key of a lease. It may be repeated.
func EraseKey(dir string) error { return os.RemoveAll(filepath.Join(dir, keyFile)) }

// NewKey makes a key.
func NewKey() (Key, error) {
	k, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return Key{}, err
	}
	return Key(k.Bytes()), nil
}

// Public is the public half, in base 64.
func (k Key) Public() string {
	private, err := ecdh.X25519().NewPrivateKey(k[:])
	if err != nil {
		panic("a key of 32 bytes: " + err.Error())
	}
	return base64.StdEncoding.EncodeToString(private.PublicKey().Bytes())
}

func parseKey(text string) (k [32]byte, err error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != len(k) {
		return k, errors.New("want a key of 32 bytes in base 64")
	}
	return [32]byte(b), nil
}
