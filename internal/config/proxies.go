package config

import (
	"net/netip"
	"strings"
)

// Proxies returns the networks of TrustedProxies.
func (c *Config) Proxies() []netip.Prefix {
	list, _ := parseProxies(c.TrustedProxies) // was checked when it was set
	return list
}

func proxyList(v string) error {
	_, err := parseProxies(v)
	return err
}

func parseProxies(v string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for part := range strings.SplitSeq(v, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		if a, err := netip.ParseAddr(part); err == nil {
			out = append(out, netip.PrefixFrom(a, a.BitLen()))
			continue
		}
		p, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, note("%q is neither an address nor a network, such as 10.0.0.0/8", part)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}
