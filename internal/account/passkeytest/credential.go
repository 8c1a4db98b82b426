package passkeytest

import (
	"crypto/ecdsa"
	"crypto/x509"

	"github.com/descope/virtualwebauthn"
)

// NewCredential returns a passkey on the curve P-256, as most authenticators make. The
// library writes a coordinate that begins with a zero byte shorter than it must be, as one
// of 128 keys has one, and no server takes such a key; so keys are made until one has none.
func NewCredential() virtualwebauthn.Credential {
	for {
		c := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2)
		parsed, err := x509.ParsePKCS8PrivateKey(c.Key.Data)
		if err != nil {
			panic(err) // the library has just written it
		}
		point, err := parsed.(*ecdsa.PrivateKey).PublicKey.Bytes()
		if err != nil {
			panic(err)
		}
		// 4, X, Y: SEC 1, section 2.3.3.
		if point[1] != 0 && point[33] != 0 {
			return c
		}
	}
}
