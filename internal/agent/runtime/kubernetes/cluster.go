package kubernetes

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"suanli.dev/internal/agent/runtime"
)

// Config says which part of a cluster is a host, and how leases run there. Only HostID
// and Image are required.
type Config struct {
	HostID    string
	Namespace string // of leases' pods and nothing else; empty: suanli-leases
	// Image has this binary, and is where instances get theirs from.
	Image  string
	Binary string // where it is in the image; empty: /suanli
	// OwnBinary is this binary on the agent's machine: what is mounted from there comes
	// out of Image in a pod.
	OwnBinary    string
	Security     string            // Restricted or Baseline; empty: Restricted
	StorageClass string            // of disks and volumes; empty: disks end with their pod, and there are no volumes
	Nodes        map[string]string // labels of the nodes that are rented out; empty: all
	Queue        string            // Kueue's, in Namespace; empty: none
	Isolation    string            // RuntimeClass of instances that ask for none; empty: the nodes' default
	DNS          []string          // name servers of instances, public ones; empty: two that are
	// AgentNamespace is where the agent itself is a pod, which may then reach instances
	// directly; empty: it is outside, and reaches them through the API server.
	AgentNamespace string
	// Simulated says that GPUs are made up, and no devices are asked for.
	Simulated bool
	// KubeletCA is a PEM file of the authority of the kubelets' certificates; empty: the
	// cluster's own.
	KubeletCA       string
	InnerRegistries []runtime.InnerRegistry
	StopGrace       time.Duration // between asking an instance to stop and killing it; 0: 10 s
	// RoomWait is how long a pod may find no room before its lease is refused; 0: one
	// minute. In a queue it is QueueWait: others go first there; 0: an hour.
	RoomWait, QueueWait time.Duration
	Log                 *slog.Logger

	// lookUp replaces runtime.LookUp in tests.
	lookUp func(context.Context, runtime.PullRequest) (runtime.Image, error)
}

func (c *Config) graceSeconds() int64 { return int64(c.StopGrace / time.Second) }

// defaultDNS are public resolvers: an instance must not ask the cluster's own.
var defaultDNS = []string{"1.1.1.1", "8.8.8.8"}

// Driver runs leases as pods. It is safe for concurrent use.
type Driver struct {
	cfg  Config
	api  clientset.Interface
	rest *rest.Config // nil in tests without an API server
	http *http.Client // to kubelets

	mu        sync.Mutex
	problems  map[string]string // by what they are about
	own       []netip.Addr      // addresses of the cluster that are not private ones
	ready     bool              // the namespace and its policy are there
	reports   map[string]report
	summaries map[string]summary // of nodes' use, by node
}

var _ runtime.Driver = (*Driver)(nil)

// Connect reads how the API server is reached: from a kubeconfig file, or, where the
// path is empty, as the pod that this process is in, or else as kubectl would.
func Connect(kubeconfig string) (c *rest.Config, inside string, err error) {
	if kubeconfig == "" {
		if c, err = rest.InClusterConfig(); err == nil {
			b, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
			return c, strings.TrimSpace(string(b)), err
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("reach the API server as this pod: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	c, err = clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read how the cluster is reached (kubeconfig %q): %w", kubeconfig, err)
	}
	return c, "", nil
}

// New returns a driver; it does not need the API server to answer yet.
func New(cfg Config, at *rest.Config) (*Driver, error) {
	at = rest.CopyConfig(at)
	// One lease makes a handful of requests; a burst of leases must not wait for a
	// client that was made for people.
	at.QPS, at.Burst = 50, 200
	at.UserAgent = "suanli-agent"
	api, err := clientset.NewForConfig(at)
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster's API server: %w", err)
	}
	d, err := newDriver(cfg, api)
	if err != nil {
		return nil, err
	}
	d.rest = at
	return d, d.kubeletClient()
}

func newDriver(cfg Config, api clientset.Interface) (*Driver, error) {
	if cfg.HostID == "" || cfg.Image == "" {
		return nil, errors.New("a cluster needs a host id, and kubernetes_image: an image with this binary, which instances get theirs from")
	}
	def := func(s *string, value string) {
		if *s == "" {
			*s = value
		}
	}
	def(&cfg.Namespace, "suanli-leases")
	def(&cfg.Binary, "/suanli")
	def(&cfg.Security, Restricted)
	if cfg.Security != Restricted && cfg.Security != Baseline {
		return nil, fmt.Errorf("kubernetes_security is %q; want %s or %s", cfg.Security, Restricted, Baseline)
	}
	if len(cfg.DNS) == 0 {
		cfg.DNS = defaultDNS
	}
	for _, d := range []struct {
		at *time.Duration
		is time.Duration
	}{{&cfg.StopGrace, 10 * time.Second}, {&cfg.RoomWait, time.Minute}, {&cfg.QueueWait, time.Hour}} {
		if *d.at <= 0 {
			*d.at = d.is
		}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Driver{cfg: cfg, api: api, problems: map[string]string{}, reports: map[string]report{}, summaries: map[string]summary{}}, nil
}

// kubeletClient reaches kubelets with the token of the API server and never sends it
// to one that cannot prove itself.
func (d *Driver) kubeletClient() error {
	pool := x509.NewCertPool()
	pem := d.rest.CAData
	file := firstOf(d.cfg.KubeletCA, d.rest.CAFile)
	if d.cfg.KubeletCA != "" || len(pem) == 0 && file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read the authority of the kubelets: %w", err)
		}
		pem = b
	}
	pool.AppendCertsFromPEM(pem)
	at := rest.AnonymousClientConfig(d.rest)
	at.BearerToken, at.BearerTokenFile = d.rest.BearerToken, d.rest.BearerTokenFile
	at.TLSClientConfig = rest.TLSClientConfig{}
	at.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, IdleConnTimeout: time.Minute}
	c, err := rest.HTTPClientFor(at)
	if err != nil {
		return err
	}
	c.Timeout = 10 * time.Second
	d.http = c
	return nil
}

func (d *Driver) note(about, problem string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.problems[about] = problem
}

func (d *Driver) mine() string {
	return labels.SelectorFromSet(labels.Set{labelHost: d.cfg.HostID}).String()
}

// nodes are those that are rented out, by name.
func (d *Driver) nodes(ctx context.Context) ([]corev1.Node, error) {
	list, err := d.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(d.cfg.Nodes).String()})
	if err != nil {
		return nil, fmt.Errorf("list the cluster's nodes: %w", err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Node) int { return strings.Compare(a.Name, b.Name) })
	return list.Items, nil
}

func (d *Driver) pods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := d.api.CoreV1().Pods(d.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: d.mine()})
	if err != nil {
		return nil, fmt.Errorf("list the pods of leases: %w", err)
	}
	return list.Items, nil
}

// taken are the identifiers of GPUs that pods have.
func (d *Driver) taken(ctx context.Context) (map[string]bool, error) {
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for i := range pods {
		if !over(&pods[i]) {
			for _, u := range stateOf(&pods[i]).GPUs {
				all[u] = true
			}
		}
	}
	return all, nil
}

// quota is how many GPUs the resource quotas of the namespace allow in all.
func (d *Driver) quota(ctx context.Context) (allowed int64, limited bool, err error) {
	list, err := d.api.CoreV1().ResourceQuotas(d.cfg.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, false, fmt.Errorf("read the resource quotas of the namespace %s: %w", d.cfg.Namespace, err)
	}
	for _, q := range list.Items {
		if hard, ok := q.Spec.Hard["requests."+GPUResource]; ok && (!limited || hard.Value() < allowed) {
			allowed, limited = hard.Value(), true
		}
	}
	return allowed, limited, nil
}

// Info implements runtime.Driver.
func (d *Driver) Info(ctx context.Context) (runtime.Info, error) {
	version, err := d.api.Discovery().ServerVersion()
	if err != nil {
		return runtime.Info{}, fmt.Errorf("ask the cluster's API server: %w", err)
	}
	if err := d.prepare(ctx); err != nil {
		return runtime.Info{}, err
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return runtime.Info{}, err
	}
	info := runtime.Info{
		Name: "kubernetes " + strings.TrimPrefix(version.GitVersion, "v"), DiskQuota: "ephemeral-storage",
		Isolation: []string{firstOf(d.cfg.Isolation, defaultRuntime)}, Machine: &runtime.Machine{Hostname: d.cfg.Namespace},
	}
	if d.cfg.StorageClass != "" {
		info.DiskQuota = "storage-class"
	}
	var own []netip.Addr
	for _, n := range nodes {
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				own = append(own, ip)
			}
		}
		if n.Spec.Unschedulable || unready(&n) != "" {
			continue
		}
		m := info.Machine
		m.OS, m.Kernel, m.Architecture = n.Status.NodeInfo.OSImage, n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.Architecture
		m.CPUs += int(n.Status.Allocatable.Cpu().Value())
		m.MemoryMiB += n.Status.Allocatable.Memory().Value() >> 20
		info.DiskMiB += max(0, n.Status.Allocatable.StorageEphemeral().Value()>>20-ownMiB)
	}
	if err := d.learnOwn(ctx, own); err != nil {
		return runtime.Info{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var problems []string
	for _, p := range d.problems {
		if p != "" {
			problems = append(problems, p)
		}
	}
	slices.Sort(problems)
	info.Problem = strings.Join(problems, "; ")
	return info, nil
}

// prepare looks after the namespace of leases: that it is there, that the cluster
// itself refuses what a lease must not be, and that what has no policy reaches
// nothing. A chart makes the first two; the agent need not be allowed to.
func (d *Driver) prepare(ctx context.Context) error {
	ns, err := d.api.CoreV1().Namespaces().Get(ctx, d.cfg.Namespace, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("look at the namespace of leases, %s (the Helm chart makes it): %w", d.cfg.Namespace, err)
	}
	const enforce = "pod-security.kubernetes.io/enforce"
	level, problem := ns.Labels[enforce], ""
	if level != Restricted && level != d.cfg.Security {
		problem = fmt.Sprintf("the namespace %s has the label %s=%q, so that the cluster does not hold leases to what they are to be; set it to %s", ns.Name, enforce, level, d.cfg.Security)
	}
	d.note("namespace", problem)
	policies := d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace)
	want := d.cfg.denyFor()
	have, err := policies.Get(ctx, want.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = policies.Create(ctx, want, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = nil
		}
	case err == nil && (len(have.Spec.Ingress) > 0 || len(have.Spec.Egress) > 0 || len(have.Spec.PolicyTypes) != 2 || len(have.Spec.PodSelector.MatchLabels)+len(have.Spec.PodSelector.MatchExpressions) > 0):
		have.Spec = want.Spec // somebody opened it
		_, err = policies.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("close the network of the namespace %s: %w", d.cfg.Namespace, err)
	}
	return nil
}

// learnOwn notes the addresses of the cluster that renters must not reach although
// they are public, and writes the policies of leases again when they change.
func (d *Driver) learnOwn(ctx context.Context, own []netip.Addr) error {
	slicesOf, err := d.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return fmt.Errorf("look up the addresses of the API server, which renters must not reach: %w", err)
	}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			for _, a := range e.Addresses {
				if ip, err := netip.ParseAddr(a); err == nil {
					own = append(own, ip)
				}
			}
		}
	}
	slices.SortFunc(own, netip.Addr.Compare)
	own = slices.Compact(own)
	d.mu.Lock()
	same := d.ready && slices.Equal(own, d.own)
	d.own = own
	d.mu.Unlock()
	if same {
		return nil
	}
	list, err := d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace).List(ctx, metav1.ListOptions{LabelSelector: d.mine()})
	if err != nil {
		return fmt.Errorf("list the network policies of leases: %w", err)
	}
	for i := range list.Items {
		p := &list.Items[i]
		want := d.cfg.policyFor(p.Labels[labelLease], portsOf(p), own)
		p.Spec = want.Spec
		if _, err := d.api.NetworkingV1().NetworkPolicies(d.cfg.Namespace).Update(ctx, p, metav1.UpdateOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("write the network policy of lease %s again: %w", p.Labels[labelLease], err)
		}
	}
	d.mu.Lock()
	d.ready = true
	d.mu.Unlock()
	return nil
}

func (d *Driver) ownAddresses() []netip.Addr {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.own)
}

// Close implements runtime.Driver. Pods run on.
func (d *Driver) Close() error { return nil }
