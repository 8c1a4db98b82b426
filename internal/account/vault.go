package account

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// Vault seals secrets that must be read again, such as an instance's
// environment, with AES-256-GCM under a key derived from the cloud's master
// key. It is safe for concurrent use.
type Vault struct{ aead cipher.AEAD }

// NewVault returns the vault of a master key of 32 bytes.
func NewVault(secret []byte) (*Vault, error) {
	if len(secret) != 32 {
		return nil, fmt.Errorf("master key: want 32 bytes, found %d; make one with `openssl rand -out secret.key 32`", len(secret))
	}
	// The master key itself encrypts nothing, so that other uses can be derived
	// from it later without meeting this one.
	key, err := hkdf.Key(sha256.New, secret, nil, "suanli vault 1", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &Vault{aead}, nil
}

// Seal encrypts plain. Each call gives other bytes.
func (v *Vault) Seal(plain []byte) ([]byte, error) {
	return v.aead.Seal(nil, nil, plain, nil), nil
}

// ErrSealed is returned by Open for bytes that Seal of this master key did not
// make: they were altered, or the cloud runs with another key.
var ErrSealed = errors.New("the secret cannot be opened: it was altered, or sealed with another master key")

// Open decrypts what Seal returned.
func (v *Vault) Open(sealed []byte) ([]byte, error) {
	plain, err := v.aead.Open(nil, nil, sealed, nil)
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"

// randomText returns n random characters of 5 bits each.
func randomText(n int) string {
	b := make([]byte, n)
	rand.Read(b) // never fails: crypto/rand ends the process instead
	for i := range b {
		b[i] = alphabet[b[i]&31]
	}
	return string(b)
}
