package reach

import (
	"net/netip"
	"testing"
)

func TestAddressesInsideAreToldFromPublicOnes(t *testing.T) {
	t.Parallel()
	own := []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	for _, a := range []string{
		"127.0.0.1", "127.8.8.8", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "100.100.100.200", "0.0.0.0", "255.255.255.255", "224.0.0.1",
		"::1", "::", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::7f00:1", "fe80::1", "fe80::1%eth0", "fd00:ec2::254", "fec0::1", "ff02::1",
		"64:ff9b::7f00:1", "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "203.0.113.9", "::ffff:203.0.113.9",
	} {
		if !Inside(netip.MustParseAddr(a), own) {
			t.Errorf("%s may be connected to", a)
		}
	}
	for _, a := range []string{"1.1.1.1", "203.0.113.10", "100.128.0.1", "172.32.0.1", "2606:4700::1", "2a00::1"} {
		if Inside(netip.MustParseAddr(a), own) {
			t.Errorf("%s may not be connected to", a)
		}
	}
}
