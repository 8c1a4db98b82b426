package account

import (
	"crypto/hmac"
	"crypto/sha1" // what RFC 6238 and every authenticator app mean by default
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"
)

var totpEncoding = base32.StdEncoding.WithPadding(base32.NoPadding)

const (
	totpPeriod = 30 // seconds
	totpSkew   = 1  // steps accepted before and after the server's own
)

// totpCode is RFC 6238 with six digits.
func totpCode(secret []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step))
	mac := hmac.New(sha1.New, secret)
	mac.Write(counter[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[at:at+4])&0x7fffffff)%1_000_000)
}

// TOTP returns the six-digit code of a secret in base 32, as EnrolTOTP gave it,
// at a time; "" if the secret is not base 32. It is what an authenticator app
// computes.
func TOTP(secret string, at time.Time) string {
	raw, err := totpEncoding.DecodeString(secret)
	if err != nil {
		return ""
	}
	return totpCode(raw, at.Unix()/totpPeriod)
}

// totpMatch returns the step whose code is code, near now and after last, so
// that a code seen over a shoulder is worth nothing once used.
func totpMatch(secret []byte, code string, now time.Time, last int64) (int64, bool) {
	current := now.Unix() / totpPeriod
	for step := current - totpSkew; step <= current+totpSkew; step++ {
		if step > last && subtle.ConstantTimeCompare([]byte(totpCode(secret, step)), []byte(code)) == 1 {
			return step, true
		}
	}
	return 0, false
}
