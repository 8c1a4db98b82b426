package gateway

import (
	"encoding/binary"
	"slices"
	"testing"
)

// offerOf is a KEXINIT packet after a version line.
func offerOf(lists ...string) []byte {
	packet := append([]byte{4, msgKexInit}, make([]byte, 16)...)
	for _, l := range lists {
		packet = append(binary.BigEndian.AppendUint32(packet, uint32(len(l))), l...)
	}
	packet = append(packet, make([]byte, 4)...)
	return append([]byte("a line before\r\nSSH-2.0-x\r\n"), append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)...)
}

func TestOfferIsReadOnceItIsCompleteAndNeverBefore(t *testing.T) {
	t.Parallel()
	whole := offerOf("kex", "key", "a,b,c", "c,b")
	for n := range whole {
		if c, complete := readOffer(whole[:n]); complete {
			t.Fatalf("complete after %d of %d bytes: %v", n, len(whole), c)
		}
	}
	c, complete := readOffer(whole)
	if !complete || !slices.Equal(c, []string{"b", "c"}) {
		t.Errorf("got %v, %v", c, complete)
	}
}

func FuzzOfferOfAnyBytesIsReadWithoutHarm(f *testing.F) {
	f.Add(offerOf("kex", "key", "a", "a"))
	f.Add(offerOf("kex", "key"))
	f.Add([]byte("SSH-2.0-x\n\xff\xff\xff\xff"))
	f.Add([]byte("SSH-2.0-x\n\x00\x00\x00\x00"))
	f.Fuzz(func(_ *testing.T, b []byte) { readOffer(b) })
}
