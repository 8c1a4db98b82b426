package kubernetes

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"suanli.dev/internal/reach"
)

// public6 is all that is routed in the public IPv6 internet, and what of it leads back
// into IPv4 networks (Teredo, 6to4).
const public6 = "2000::/3"

var inside6 = []string{"2001::/32", "2002::/16"}

const denyName = "suanli-deny"

// denyFor is the policy that all pods of the namespace are under: nothing in, nothing
// out. The policies of leases open what each may do; a pod whose own policy is missing
// can do nothing.
func (c *Config) denyFor() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: denyName, Namespace: c.Namespace, Labels: map[string]string{labelManager: manager}},
		Spec:       networkingv1.NetworkPolicySpec{PolicyTypes: bothWays},
	}
}

var bothWays = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}

// policyFor opens the public internet to a lease, on these ports only if there are
// any, and the lease to the agent. own are addresses of the cluster itself that the
// ranges of private networks do not cover.
func (c *Config) policyFor(lease string, ports []int, own []netip.Addr) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: policyName(lease), Namespace: c.Namespace, Labels: c.labels(lease)},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{labelHost: c.HostID, labelLease: lease}},
			PolicyTypes: bothWays,
		},
	}
	if c.AgentNamespace != "" {
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: c.AgentNamespace}},
			PodSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{"app.kubernetes.io/name": "suanli-agent"}},
		}}}}
	}
	outside := []networkingv1.NetworkPolicyPeer{
		{IPBlock: &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: append(slices.Clone(reach.Blocked4), single(own, netip.Addr.Is4)...)}},
		{IPBlock: &networkingv1.IPBlock{CIDR: public6, Except: append(slices.Clone(inside6), single(own, public)...)}},
	}
	rule := networkingv1.NetworkPolicyEgressRule{To: outside}
	for _, port := range ports {
		rule.Ports = append(rule.Ports, protocolPorts(port)...)
	}
	p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{rule}
	if len(ports) > 0 {
		dns := networkingv1.NetworkPolicyEgressRule{Ports: protocolPorts(53)}
		for _, s := range c.DNS {
			if a, err := netip.ParseAddr(s); err == nil {
				dns.To = append(dns.To, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: netip.PrefixFrom(a, a.BitLen()).String()}})
			}
		}
		if len(dns.To) > 0 { // no peers would mean all
			p.Spec.Egress = append(p.Spec.Egress, dns)
		}
	}
	return p
}

func protocolPorts(port int) []networkingv1.NetworkPolicyPort {
	tcp, udp, n := corev1.ProtocolTCP, corev1.ProtocolUDP, intstr.FromInt(port)
	return []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: &n}, {Protocol: &udp, Port: &n}}
}

// public reports whether an address is in public6.
func public(a netip.Addr) bool { return a.Is6() && netip.MustParsePrefix(public6).Contains(a) }

// single are the addresses that keep, as networks of one address, in order.
func single(own []netip.Addr, keep func(netip.Addr) bool) []string {
	var list []string
	for _, a := range own {
		if a = a.Unmap(); keep(a) && !slices.ContainsFunc(reach.Blocked4, func(b string) bool { return netip.MustParsePrefix(b).Contains(a) }) {
			list = append(list, netip.PrefixFrom(a, a.BitLen()).String())
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// portsOf are the ports that a lease's policy opens; none: all.
func portsOf(p *networkingv1.NetworkPolicy) []int {
	var ports []int
	if len(p.Spec.Egress) > 0 {
		for _, port := range p.Spec.Egress[0].Ports {
			if port.Port != nil && !slices.Contains(ports, port.Port.IntValue()) {
				ports = append(ports, port.Port.IntValue())
			}
		}
	}
	return ports
}
