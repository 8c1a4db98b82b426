package reach

import (
	"errors"
	"net"
	"net/netip"
	"syscall"
)

// ErrInside is what connecting to an address inside of a network ends with.
var ErrInside = errors.New("the address is inside of a network")

// Blocked4 are the IPv4 ranges that are not of the public internet: private and
// shared ranges, loopback, link-local with the metadata services, multicast and the
// reserved rest (IANA's special-purpose registry).
var Blocked4 = []string{
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
	"172.16.0.0/12", "192.0.0.0/24", "192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/3",
}

var inside4 = prefixes(Blocked4...)

// inside6 are IPv6 ranges that lead inside, or that carry an IPv4 address in them
// which may: NAT64, 6to4, Teredo, IPv4-compatible.
var inside6 = prefixes("::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2002::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8")

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		list[i] = netip.MustParsePrefix(t)
	}
	return list
}

// Inside reports whether an address is not of the public internet: private,
// loopback, link-local with the metadata services, or one of own, those of the
// machine itself, whose services see a call from it as one of their own.
func Inside(a netip.Addr, own []netip.Addr) bool {
	a = a.Unmap().WithZone("")
	list := inside6
	if a.Is4() {
		list = inside4
	}
	for _, p := range list {
		if p.Contains(a) {
			return true
		}
	}
	for _, o := range own {
		if o == a {
			return true
		}
	}
	return !a.IsGlobalUnicast()
}

// Own returns the addresses of this machine's interfaces.
func Own() []netip.Addr {
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var own []netip.Addr
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own
}

// Control is a net.Dialer's Control that lets it connect to public addresses only.
// refused is called when it does not; nil: nobody is told.
func Control(own []netip.Addr, refused func()) func(network, address string, c syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		a, err := netip.ParseAddrPort(address)
		if err != nil || Inside(a.Addr(), own) {
			if refused != nil {
				refused()
			}
			return ErrInside
		}
		return nil
	}
}
