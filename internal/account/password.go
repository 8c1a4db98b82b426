package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"suanli.dev/internal/fault"
)

// PasswordCost is the work of hashing one password with argon2id. Passwords
// hashed at another cost are hashed anew when their user signs in.
type PasswordCost struct {
	MemoryKiB uint32
	Passes    uint32
	Lanes     uint8
}

// defaultCost is the first choice of the OWASP password storage cheat sheet
// for argon2id: 19 MiB, two passes, one lane.
var defaultCost = PasswordCost{MemoryKiB: 19 * 1024, Passes: 2, Lanes: 1}

// MinPasswordCharacters is how short a password can be.
const MinPasswordCharacters = 10

const (
	minPassword = MinPasswordCharacters
	maxPassword = 256 // bytes; longer ones only cost us time
)

func checkPassword(password, email string) error {
	switch {
	case utf8.RuneCountInString(password) < minPassword:
		return fault.New(fault.Invalid, "password_weak", "the password has %d characters; use at least %d",
			utf8.RuneCountInString(password), minPassword).At("body.password")
	case len(password) > maxPassword:
		return fault.New(fault.Invalid, "password_too_long", "the password has %d bytes; use at most %d",
			len(password), maxPassword).At("body.password")
	case strings.EqualFold(password, email):
		return fault.New(fault.Invalid, "password_weak", "the password is the e-mail address; choose another").At("body.password")
	}
	return nil
}

var b64 = base64.RawStdEncoding

// hashPassword returns a PHC string with a fresh salt.
func hashPassword(password string, c PasswordCost) string {
	salt := make([]byte, 16)
	rand.Read(salt)
	sum := argon2.IDKey([]byte(password), salt, c.Passes, c.MemoryKiB, c.Lanes, 32)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.MemoryKiB, c.Passes, c.Lanes,
		b64.EncodeToString(salt), b64.EncodeToString(sum))
}

// verifyPassword reports whether password is the one of the PHC string, and
// the cost it was hashed at.
func verifyPassword(password, phc string) (bool, PasswordCost, error) {
	parts := strings.Split(phc, "$")
	var c PasswordCost
	var version int
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, c, fmt.Errorf("stored password hash: want six parts of argon2id")
	}
	if _, err := fmt.Sscanf(parts[2], "v=%d", &version); err != nil || version != argon2.Version {
		return false, c, fmt.Errorf("stored password hash: version %q, want %d", parts[2], argon2.Version)
	}
	if _, err := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.MemoryKiB, &c.Passes, &c.Lanes); err != nil {
		return false, c, fmt.Errorf("stored password hash: parameters: %w", err)
	}
	salt, err := b64.DecodeString(parts[4])
	if err != nil {
		return false, c, fmt.Errorf("stored password hash: salt: %w", err)
	}
	want, err := b64.DecodeString(parts[5])
	if err != nil || len(want) == 0 {
		return false, c, fmt.Errorf("stored password hash: sum is not base64")
	}
	got := argon2.IDKey([]byte(password), salt, c.Passes, c.MemoryKiB, c.Lanes, uint32(len(want)))
	return subtle.ConstantTimeCompare(got, want) == 1, c, nil
}

// costly runs fn when there is room for one more argon2 computation.
func (s *Service) costly(ctx context.Context, fn func()) error {
	select {
	case s.hashing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-s.hashing }()
	fn()
	return nil
}

func (s *Service) hash(ctx context.Context, password string) (string, error) {
	var phc string
	err := s.costly(ctx, func() { phc = hashPassword(password, s.cost) })
	return phc, err
}

func (s *Service) verify(ctx context.Context, password, phc string) (ok bool, cost PasswordCost, err error) {
	if len(password) > maxPassword {
		password = "" // hashing megabytes for a stranger would be his weapon
	}
	if cerr := s.costly(ctx, func() { ok, cost, err = verifyPassword(password, phc) }); cerr != nil {
		return false, cost, cerr
	}
	return ok, cost, err
}
