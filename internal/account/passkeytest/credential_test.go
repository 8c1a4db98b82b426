package passkeytest

import (
	"bytes"
	"testing"
)

func TestEveryCoordinateIsWrittenWhole(t *testing.T) {
	t.Parallel()
	for range 2000 {
		c := NewCredential()
		data := c.Key.AttestationData()
		// CBOR of a COSE key: -2 and -3 are byte strings of 32 bytes, RFC 9053, section 7.1.1.
		if !bytes.Contains(data, []byte{0x21, 0x58, 32}) || !bytes.Contains(data, []byte{0x22, 0x58, 32}) {
			t.Fatalf("a key is written as % x", data)
		}
	}
}
