package kubernetes

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// The users of the test's API server. The agent is the service account of the chart.
const (
	adminToken = "admin-of-the-test"
	agentToken = "agent-of-the-test"
	agentUser  = "system:serviceaccount:suanli-system:suanli"
)

// cluster is a real API server and scheduler over a real etcd, with nodes whose kubelet
// is the test.
type cluster struct {
	dir     string
	server  string
	admin   *clientset.Clientset
	kubelet *httptest.Server

	mu     sync.Mutex
	frozen map[string]bool // nodes whose kubelet does nothing
	ran    [][]string      // what was run inside of pods
}

// program finds one of Kubernetes' programs, or skips the test.
func program(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv("SUANLI_TEST_KUBERNETES")
	if dir == "" {
		t.Skip("SUANLI_TEST_KUBERNETES names no folder with kube-apiserver and kube-scheduler: make test-kubernetes builds them")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("%s is not there: make test-kubernetes builds it", path)
	}
	return path
}

// start runs a program until the test ends; what it printed is shown if it failed.
func start(t *testing.T, dir, path string, args ...string) {
	t.Helper()
	log, err := os.CreateTemp(dir, filepath.Base(path)+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr, cmd.Dir = log, log, dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if b, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Logf("%s ended with:\n%s", filepath.Base(path), b[max(0, len(b)-4000):])
		}
	})
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	apiserver, scheduler := program(t, "kube-apiserver"), program(t, "kube-scheduler")
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		t.Skip("etcd is not installed (Debian's package etcd-server)")
	}
	c := &cluster{dir: t.TempDir(), frozen: map[string]bool{}}
	store, peer, port := freePort(t), freePort(t), freePort(t)
	c.server = fmt.Sprintf("https://127.0.0.1:%d", port)
	at := func(p int) string { return fmt.Sprintf("http://127.0.0.1:%d", p) }
	start(t, c.dir, etcd, "--data-dir", filepath.Join(c.dir, "etcd"), "--listen-client-urls", at(store), "--advertise-client-urls", at(store), "--listen-peer-urls", at(peer), "--initial-advertise-peer-urls", at(peer), "--initial-cluster", "default="+at(peer), "--unsafe-no-fsync")
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keyFile := write(t, filepath.Join(c.dir, "sa.key"), string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})))
	tokens := write(t, filepath.Join(c.dir, "tokens"), fmt.Sprintf("%s,admin,1,system:masters\n%s,%s,2,system:serviceaccounts\n", adminToken, agentToken, agentUser))
	start(t, c.dir, apiserver, "--etcd-servers", at(store), "--token-auth-file", tokens, "--authorization-mode", "RBAC",
		"--service-account-issuer", "https://kubernetes.default.svc", "--service-account-key-file", keyFile, "--service-account-signing-key-file", keyFile,
		"--service-cluster-ip-range", "10.96.0.0/16", "--secure-port", strconv.Itoa(port), "--bind-address", "0.0.0.0", "--cert-dir", filepath.Join(c.dir, "certs"),
		"--endpoint-reconciler-type", "none", "--kubelet-preferred-address-types", "InternalIP", "--advertise-address", "203.0.113.9",
		// Nothing makes service accounts here, or takes the taints of new nodes away.
		"--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition")
	c.admin = clientset.NewForConfigOrDie(c.as(adminToken))
	eventuallyIn(t, 2*time.Minute, "the API server is ready", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, err := c.admin.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil
	})
	config := write(t, filepath.Join(c.dir, "kubeconfig"), fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],"users":[{"name":"c","user":{"token":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, c.server, adminToken))
	start(t, c.dir, scheduler, "--kubeconfig", config, "--leader-elect=false", "--secure-port", strconv.Itoa(freePort(t)), "--bind-address", "127.0.0.1", "--authentication-kubeconfig", config, "--authorization-kubeconfig", config, "--cert-dir", filepath.Join(c.dir, "scheduler"))
	c.make(t)
	c.kubelet = httptest.NewTLSServer(http.HandlerFunc(c.serve))
	t.Cleanup(c.kubelet.Close)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var done sync.WaitGroup
	done.Go(func() { c.beKubelet(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	return c
}

func (c *cluster) as(token string) *rest.Config {
	return &rest.Config{Host: c.server, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 100, Burst: 200}
}

func eventuallyIn(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-deadline:
			t.Fatalf("not within %s: %s", limit, what)
		}
	}
}

// make makes what a cluster has before an agent comes.
func (c *cluster) make(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	port, name, tcp := int32(6443), "https", corev1.ProtocolTCP
	for _, err := range []error{
		second(c.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "suanli-system"}}, metav1.CreateOptions{})),
		second(c.admin.DiscoveryV1().EndpointSlices("default").Create(ctx, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"}}, AddressType: discoveryv1.AddressTypeIPv4,
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.9"}}}, Ports: []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &tcp}},
		}, metav1.CreateOptions{})),
	} {
		if err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	c.chart(t)
}

func second[T any](_ T, err error) error { return err }

// chart installs what the Helm chart makes, so that the agent has the permissions that
// it gives and no others. Without helm it makes the namespace only, and the agent may
// do all.
func (c *cluster) chart(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	helm := filepath.Join(os.Getenv("SUANLI_TEST_KUBERNETES"), "helm")
	if _, err := os.Stat(helm); err != nil {
		t.Log("helm is not there: the permissions of the chart are not tried")
		_, err := c.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "suanli-leases", Labels: map[string]string{"pod-security.kubernetes.io/enforce": Restricted}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}, Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: agentUser}}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	for _, o := range render(t) {
		var err error
		switch o := o.(type) {
		case *corev1.Namespace:
			_, err = c.admin.CoreV1().Namespaces().Create(ctx, o, metav1.CreateOptions{})
		case *corev1.ServiceAccount:
			_, err = c.admin.CoreV1().ServiceAccounts(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = c.admin.RbacV1().Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			_, err = c.admin.RbacV1().RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRole:
			_, err = c.admin.RbacV1().ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			_, err = c.admin.RbacV1().ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// join adds a node with GPUs. Its kubelet is the test's.
func (c *cluster) join(t *testing.T, name string, gpus int64) {
	t.Helper()
	n := node(name, gpus, map[string]string{corev1.LabelHostname: name, corev1.LabelArchStable: "amd64", corev1.LabelOSStable: "linux"})
	n.UID = ""
	status := n.Status
	made, err := c.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	made.Status = status
	host, port, _ := net.SplitHostPort(c.kubelet.Listener.Addr().String())
	number, _ := strconv.Atoi(port)
	made.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	made.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	made.Status.Conditions[0].LastHeartbeatTime, made.Status.Conditions[0].LastTransitionTime = metav1.Now(), metav1.Now()
	if _, err := c.admin.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// beKubelet does to pods what the kubelets of their nodes would.
func (c *cluster) beKubelet(ctx context.Context) {
	for {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return
		}
		pods, err := c.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
		if err != nil {
			continue
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			c.mu.Lock()
			frozen := c.frozen[pod.Spec.NodeName]
			c.mu.Unlock()
			if pod.Spec.NodeName == "" || pod.Spec.NodeName == "real" || frozen {
				continue
			}
			api := c.admin.CoreV1().Pods(pod.Namespace)
			switch {
			case pod.DeletionTimestamp != nil:
				now := int64(0)
				_ = api.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &now})
			case pod.Status.Phase == corev1.PodPending:
				started := metav1.Now()
				pod.Status.Phase, pod.Status.StartTime, pod.Status.PodIP = corev1.PodRunning, &started, "127.0.0.1"
				pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: mainContainer, ContainerID: "test://" + string(pod.UID), Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}}}
				_, _ = api.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
			case pod.Spec.ActiveDeadlineSeconds != nil && pod.Status.Phase == corev1.PodRunning:
				c.end(ctx, pod, 143, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline")
			}
		}
	}
}

// end ends a pod as its kubelet would.
func (c *cluster) end(ctx context.Context, pod *corev1.Pod, code int32, reason, message string) {
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, message
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.State.Running != nil {
			s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, ContainerID: s.ContainerID, StartedAt: s.State.Running.StartedAt, FinishedAt: metav1.Now()}}
		}
	}
	_, _ = c.admin.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
}

// serve answers what the API server and the agent ask a kubelet, by the library that
// kubelets do it with.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	switch {
	case parts[0] == "containerLogs" && len(parts) == 4:
		_, _ = io.WriteString(w, "printed by "+parts[2]+"\n")
	case parts[0] == "exec" && len(parts) == 4:
		options, err := remotecommand.NewOptions(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		remotecommand.ServeExec(w, r, c, parts[2], "", parts[3], r.URL.Query()["command"], options, time.Minute, time.Minute, remotecommand.SupportedStreamingProtocols)
	case parts[0] == "portForward" && len(parts) == 3:
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, c, parts[2], "", options, time.Minute, time.Minute, portforward.SupportedProtocols)
	default:
		http.NotFound(w, r)
	}
}

// ExecInContainer answers as an instance's first process would.
func (c *cluster) ExecInContainer(_ context.Context, _, _, _ string, cmd []string, _ io.Reader, out, _ io.WriteCloser, _ bool, _ <-chan remotecommand.TerminalSize, _ time.Duration) error {
	c.mu.Lock()
	c.ran = append(c.ran, cmd)
	c.mu.Unlock()
	_, err := io.WriteString(out, `{"started":true,"sessions":2}`)
	return err
}

// PortForward connects a pod's port to the same port of the test's machine.
func (c *cluster) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(conn, stream) }()
	_, err = io.Copy(stream, conn)
	return err
}

func (c *cluster) freeze(node string, frozen bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen[node] = frozen
}

func (c *cluster) pod(t *testing.T, lease string) *corev1.Pod {
	t.Helper()
	pod, err := c.admin.CoreV1().Pods("suanli-leases").Get(t.Context(), podName(lease), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

func (c *cluster) driver(t *testing.T, change ...func(*Config)) *Driver {
	t.Helper()
	cfg := config(change...)
	cfg.Namespace, cfg.RoomWait, cfg.StopGrace = "suanli-leases", 3*time.Second, 2*time.Second
	d, err := New(*cfg, c.as(agentToken))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	return d
}

func begin(t *testing.T, d *Driver, spec runtime.Container) {
	t.Helper()
	if err := d.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(t.Context(), spec.LeaseID); err != nil {
		t.Fatal(err)
	}
}

// TestARealClusterRunsLeases is one test with parts, since an API server takes a while.
func TestARealClusterRunsLeases(t *testing.T) {
	c := newCluster(t)
	c.join(t, "n1", 8)
	c.join(t, "n2", 8)

	t.Run("A lease goes to the node of its GPUs and is reached there", func(t *testing.T) {
		d := c.driver(t)
		spec := lease(t, d, "lease-1", 8, 2)
		if err := d.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		if s, err := d.Inspect(t.Context(), "lease-1"); err != nil || !s.NeverRan || s.Running || c.pod(t, "lease-1").Spec.NodeName != "" {
			t.Fatalf("it runs before it is started: %+v, %v", s, err)
		}
		if err := d.Start(t.Context(), "lease-1"); err != nil {
			t.Fatal(err)
		}
		if pod := c.pod(t, "lease-1"); pod.Spec.NodeName != "n2" || pod.Status.QOSClass != corev1.PodQOSGuaranteed {
			t.Fatalf("on %s as %s", pod.Spec.NodeName, pod.Status.QOSClass)
		}
		var out bytes.Buffer
		if err := d.Logs(t.Context(), "lease-1", protocol.LogOptions{Tail: 10}, &out); err != nil || out.String() != "printed by suanli-lease-1\n" {
			t.Fatalf("output %q, %v", out.String(), err)
		}
		if b, err := d.Exec(t.Context(), "lease-1", []string{"instance", "report"}); err != nil || string(b) != `{"started":true,"sessions":2}` {
			t.Fatalf("%s, %v", b, err)
		}
		if _, err := d.Stats(t.Context(), "lease-1"); err != nil {
			t.Fatal(err)
		}
		if r, fresh := d.Report("lease-1"); !fresh || r.Sessions != 2 {
			t.Fatalf("%+v, %t", r, fresh)
		}
		echo, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer echo.Close()
		go func() {
			for {
				conn, err := echo.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
			}
		}()
		conn, err := d.Dial(t.Context(), "lease-1", echo.Addr().(*net.TCPAddr).Port)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		want := bytes.Repeat([]byte("x"), 1<<20)
		go func() { _, _ = conn.Write(want) }()
		got := make([]byte, len(want))
		if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("through the API server: %v", err)
		}
		closed, err := d.Dial(t.Context(), "lease-1", freePort(t))
		if err == nil {
			_ = closed.SetDeadline(time.Now().Add(20 * time.Second))
			if n, err := closed.Read(got); err == nil || n > 0 {
				t.Fatalf("a port where nobody listens gave %d bytes, %v", n, err)
			}
		}
	})

	t.Run("A driver that is made anew adopts what runs, and stops it with its output kept", func(t *testing.T) {
		d := c.driver(t)
		list, err := d.List(t.Context())
		if err != nil || len(list) != 1 || !list[0].Running || list[0].LeaseID != "lease-1" || list[0].Generation != 3 || len(list[0].GPUs) != 2 {
			t.Fatalf("%+v, %v", list, err)
		}
		if err := d.Remove(t.Context(), "lease-1"); err == nil {
			t.Fatal("a pod that runs was removed")
		}
		if err := d.Stop(t.Context(), "lease-1", 2*time.Second); err != nil {
			t.Fatal(err)
		}
		s, err := d.Inspect(t.Context(), "lease-1")
		if err != nil || !s.Exists || s.Running || s.NeverRan || s.Code != "" {
			t.Fatalf("%+v, %v", s, err)
		}
		var out bytes.Buffer
		if err := d.Logs(t.Context(), "lease-1", protocol.LogOptions{}, &out); err != nil || out.Len() == 0 {
			t.Fatalf("what it printed is lost: %v", err)
		}
		if err := d.Erase(t.Context(), "lease-1"); err != nil {
			t.Fatal(err)
		}
		if s, err = d.Inspect(t.Context(), "lease-1"); err != nil || s.Exists {
			t.Fatalf("%+v, %v", s, err)
		}
		c.leftovers(t)
	})

	t.Run("The cluster itself refuses what no lease may be", func(t *testing.T) {
		d := c.driver(t)
		if refused, err := d.refusesPrivileges(t.Context()); err != nil || !refused {
			t.Fatalf("refused %t, %v", refused, err)
		}
		root := c.driver(t, func(c *Config) { c.Security = Baseline })
		if info, err := root.Info(t.Context()); err != nil || info.Problem != "" {
			t.Fatalf("a namespace that is stricter than its leases: %q, %v", info.Problem, err)
		}
		if err := root.Create(t.Context(), lease(t, d, "lease-root", 0, 1)); runtime.CodeOf(err) != "engine" || !strings.Contains(err.Error(), "PodSecurity") {
			t.Fatalf("root in a restricted namespace: %v", err)
		}
		if err := root.Erase(t.Context(), "lease-root"); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("A quota is told as what it is", func(t *testing.T) {
		d := c.driver(t)
		hard := corev1.ResourceList{"requests." + GPUResource: resource.MustParse("2")}
		quotas := c.admin.CoreV1().ResourceQuotas("suanli-leases")
		q, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "gpus"}, Spec: corev1.ResourceQuotaSpec{Hard: hard}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = quotas.Delete(context.WithoutCancel(t.Context()), "gpus", metav1.DeleteOptions{}) }()
		q.Status = corev1.ResourceQuotaStatus{Hard: hard, Used: corev1.ResourceList{"requests." + GPUResource: resource.MustParse("0")}}
		if _, err := quotas.UpdateStatus(t.Context(), q, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if gpus, err := d.GPUs().List(t.Context()); err != nil || healthy(gpus) != 2 {
			t.Fatalf("%d are offered, %v", healthy(gpus), err)
		}
		var refused error
		eventuallyIn(t, 30*time.Second, "the quota holds", func() bool {
			refused = d.Create(t.Context(), lease(t, d, "lease-3", 0, 3))
			if refused == nil {
				_ = d.Erase(t.Context(), "lease-3")
			}
			return refused != nil
		})
		if runtime.CodeOf(refused) != "host_quota" || !strings.Contains(refused.Error(), "gpus, requested: requests.nvidia.com/gpu=3") {
			t.Fatalf("%v (%s)", refused, runtime.CodeOf(refused))
		}
		if err := d.Erase(t.Context(), "lease-3"); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("A pod that finds no room is refused with the scheduler's words", func(t *testing.T) {
		d := c.driver(t)
		begin(t, d, lease(t, d, "lease-4", 0, 8))
		other := lease(t, d, "lease-5", 0, 1)
		if err := d.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		err := d.Start(t.Context(), "lease-5")
		if runtime.CodeOf(err) != "host_full" || !strings.Contains(err.Error(), "Insufficient nvidia.com/gpu") {
			t.Fatalf("%v", err)
		}
		for _, id := range []string{"lease-4", "lease-5"} {
			if err := d.Stop(t.Context(), id, time.Second); err != nil {
				t.Fatal(err)
			}
			if err := d.Erase(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		c.leftovers(t)
	})

	t.Run("Evicted and deleted pods are seen, and by whom they ended", func(t *testing.T) {
		d := c.driver(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		woken := make(chan string, 1000)
		go func() {
			_ = d.Watch(ctx, func(id string) {
				select {
				case woken <- id:
				default:
				}
			})
		}()
		begin(t, d, lease(t, d, "lease-6", 0, 1))
		for len(woken) > 0 {
			<-woken
		}
		c.end(t.Context(), c.pod(t, "lease-6"), 137, "Evicted", "Pod ephemeral local storage usage exceeds the total limit of containers 21Gi. ")
		eventuallyIn(t, 20*time.Second, "the lease is woken", func() bool { return len(woken) > 0 })
		s, err := d.Inspect(t.Context(), "lease-6")
		if err != nil || s.Running || s.NeverRan || s.Code != "disk_full" || !strings.Contains(s.Reason, "21Gi") {
			t.Fatalf("%+v, %v", s, err)
		}
		if err := d.Erase(t.Context(), "lease-6"); err != nil {
			t.Fatal(err)
		}
		begin(t, d, lease(t, d, "lease-7", 0, 1))
		if err := c.admin.CoreV1().Pods("suanli-leases").Delete(t.Context(), podName("lease-7"), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventuallyIn(t, 30*time.Second, "a pod that somebody deleted is gone", func() bool {
			s, err := d.Inspect(t.Context(), "lease-7")
			return err == nil && !s.Exists
		})
		if err := d.Sweep(t.Context(), func(string) bool { return false }); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("A pod whose node does not answer is not called stopped", func(t *testing.T) {
		d := c.driver(t)
		begin(t, d, lease(t, d, "lease-8", 0, 1))
		c.freeze("n1", true)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if err := d.Stop(ctx, "lease-8", time.Second); err == nil {
			t.Fatal("nobody stopped it")
		}
		if err := d.Erase(ctx, "lease-8"); err == nil {
			t.Fatal("what runs on a node that does not answer was erased")
		}
		c.freeze("n1", false)
		if err := d.Stop(t.Context(), "lease-8", time.Second); err != nil {
			t.Fatal(err)
		}
		if err := d.Erase(t.Context(), "lease-8"); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("Policies and disks are taken by the cluster as they are written", func(t *testing.T) {
		d := c.driver(t, func(c *Config) { c.StorageClass, c.AgentNamespace = "fast", "suanli-system" })
		d.mu.Lock()
		d.own = append(d.own, netip.MustParseAddr("2600:1f00::7"))
		d.mu.Unlock()
		spec := lease(t, d, "lease-9", 0, 1)
		spec.EgressPorts = []int{443}
		if err := d.MakeVolume(t.Context(), "vol-1", 1024); err != nil {
			t.Fatal(err)
		}
		spec.Volumes = []protocol.VolumeMount{{VolumeID: "vol-1", Path: "/data"}}
		if err := d.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		p, err := c.admin.NetworkingV1().NetworkPolicies("suanli-leases").Get(t.Context(), policyName("lease-9"), metav1.GetOptions{})
		if err != nil || allows(p, "203.0.113.9") || allows(p, "10.96.0.1") || !allows(p, "8.8.8.8") || !slices.Equal(p.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}) {
			t.Fatalf("%+v, %v", p, err)
		}
		if err := d.EraseVolume(t.Context(), "vol-1"); runtime.CodeOf(err) != "volume_in_use" {
			t.Fatalf("%v", err)
		}
		// No provisioner and no controller is here: what protects claims in use is left out.
		c.unprotect(t)
		if err := d.Erase(t.Context(), "lease-9"); err != nil {
			t.Fatal(err)
		}
		if err := d.EraseVolume(t.Context(), "vol-1"); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("What waits in a queue is not called refused", func(t *testing.T) {
		d := c.driver(t, func(c *Config) { c.Queue, c.QueueWait = "rent", time.Hour })
		spec := lease(t, d, "lease-10", 0, 1)
		spec.Settings.Cluster = &protocol.Cluster{ID: "gang-1", Nodes: make([]protocol.ClusterNode, 2)}
		if err := d.Create(t.Context(), spec); err != nil {
			t.Fatal(err)
		}
		pod := c.pod(t, "lease-10")
		if pod.Labels[kueueQueue] != "rent" || pod.Labels[kueueGroup] != "gang-1" || pod.Annotations[kueueTotal] != "2" {
			t.Fatalf("%v, %v", pod.Labels, pod.Annotations)
		}
		if err := d.Erase(t.Context(), "lease-10"); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})

	t.Run("An agent tells what the cluster does to its leases, and adopts them when it is started anew", func(t *testing.T) {
		agentKeepsLeases(t, c)
	})
}

// unprotect takes the finalizer of claims away, which a controller would when no pod
// has them.
func (c *cluster) unprotect(t *testing.T) {
	t.Helper()
	claims, err := c.admin.CoreV1().PersistentVolumeClaims("suanli-leases").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(claims.Items) != 2 {
		t.Fatalf("%d disks, %v", len(claims.Items), err)
	}
	for i := range claims.Items {
		claims.Items[i].Finalizers = nil
		if _, err := c.admin.CoreV1().PersistentVolumeClaims("suanli-leases").Update(t.Context(), &claims.Items[i], metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// leftovers fails if anything of a lease is still in the cluster.
func (c *cluster) leftovers(t *testing.T) {
	t.Helper()
	mine := metav1.ListOptions{LabelSelector: labelHost}
	pods, err1 := c.admin.CoreV1().Pods("suanli-leases").List(t.Context(), mine)
	secrets, err2 := c.admin.CoreV1().Secrets("suanli-leases").List(t.Context(), mine)
	policies, err3 := c.admin.NetworkingV1().NetworkPolicies("suanli-leases").List(t.Context(), mine)
	claims, err4 := c.admin.CoreV1().PersistentVolumeClaims("suanli-leases").List(t.Context(), mine)
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n := len(pods.Items) + len(secrets.Items) + len(policies.Items) + len(claims.Items); n != 0 {
		t.Fatalf("%d pods, %d secrets, %d policies and %d disks are left", len(pods.Items), len(secrets.Items), len(policies.Items), len(claims.Items))
	}
}
