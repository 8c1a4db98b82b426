package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// The test's node is in a network of its own, so that nothing of it is in the machine's.
const (
	nodeSpace   = "suanli-kube"
	nodeLink    = "slkube0"
	outsideNode = "10.231.77.1"
	insideNode  = "10.231.77.2"
	podRange    = "10.231.78.0/24"
)

// realNode runs a kubelet and containerd as the node "real" of a cluster, and returns
// the image that this test binary is in.
func realNode(t *testing.T, c *cluster) string {
	t.Helper()
	kubelet, containerd := program(t, "kubelet"), program(t, "containerd")
	program(t, "containerd-shim-runc-v2")
	program(t, "bridge")
	if os.Geteuid() != 0 {
		t.Skip("a kubelet needs root")
	}
	for _, p := range []string{"ip", "nsenter", "iptables", "runc"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("%s is not installed", p)
		}
	}
	do := func(args ...string) {
		t.Helper()
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", strings.Join(args, " "), err, out)
		}
	}
	_ = exec.Command("ip", "netns", "delete", nodeSpace).Run()
	_ = exec.Command("ip", "link", "delete", nodeLink).Run()
	do("ip", "netns", "add", nodeSpace)
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "delete", nodeLink).Run()
		_ = exec.Command("ip", "netns", "delete", nodeSpace).Run()
	})
	do("ip", "link", "add", nodeLink, "type", "veth", "peer", "name", "eth0", "netns", nodeSpace)
	do("ip", "addr", "add", outsideNode+"/30", "dev", nodeLink)
	do("ip", "link", "set", nodeLink, "up")
	for _, args := range [][]string{{"link", "set", "lo", "up"}, {"addr", "add", insideNode + "/30", "dev", "eth0"}, {"link", "set", "eth0", "up"}, {"route", "add", "default", "via", outsideNode}} {
		do(append([]string{"ip", "-n", nodeSpace}, args...)...)
	}

	images := &http.Server{Handler: registry.New(registry.Logger(log.New(io.Discard, "", 0))), ReadHeaderTimeout: time.Minute}
	listener, err := net.Listen("tcp", outsideNode+":0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = images.Serve(listener) }()
	t.Cleanup(func() { _ = images.Close() })
	where := listener.Addr().String()
	image := pushOwn(t, where+"/suanli:1")

	dir := t.TempDir()
	hosts := filepath.Join(dir, "certs.d", where)
	network := filepath.Join(dir, "net.d")
	for _, d := range []string{hosts, network} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(hosts, "hosts.toml"), fmt.Sprintf("server = \"http://%s\"\n", where))
	write(t, filepath.Join(network, "10-test.conflist"), fmt.Sprintf(`{"cniVersion":"1.0.0","name":"test","plugins":[{"type":"bridge","bridge":"slpods0","isGateway":true,"ipMasq":false,"ipam":{"type":"host-local","ranges":[[{"subnet":%q}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":%q}}]}`, podRange, filepath.Join(dir, "ipam")))
	programs := os.Getenv("SUANLI_TEST_KUBERNETES")
	socket := filepath.Join(dir, "c.sock")
	config := write(t, filepath.Join(dir, "containerd.toml"), fmt.Sprintf(`version = 3
root = %q
state = %q
[grpc]
address = %q
[ttrpc]
address = %q
[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = %q
[plugins."io.containerd.cri.v1.images".registry]
config_path = %q
[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = [%q]
conf_dir = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "state"), socket, socket+".ttrpc", image, filepath.Join(dir, "certs.d"), programs, network))
	t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
	inside := []string{"--net=/run/netns/" + nodeSpace, "--"}
	start(t, dir, nsenter(t), append(inside, containerd, "--config", config)...)
	t.Cleanup(func() { sweepNode(t, dir) })
	eventuallyIn(t, time.Minute, "containerd listens", func() bool {
		conn, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		_ = conn.Close()
		return true
	})
	_, port, _ := strings.Cut(strings.TrimPrefix(c.server, "https://"), ":")
	kubeconfig := write(t, filepath.Join(dir, "kubeconfig"), fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":"https://%s:%s","insecure-skip-tls-verify":true}}],"users":[{"name":"c","user":{"token":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, outsideNode, port, adminToken))
	settings := write(t, filepath.Join(dir, "kubelet.yaml"), fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix://%s
address: %s
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
oomScoreAdj: 0
localStorageCapacityIsolation: true
evictionHard: {memory.available: "1Mi"}
imageGCHighThresholdPercent: 100
readOnlyPort: 0
healthzPort: 0
nodeStatusUpdateFrequency: 2s
podLogsDir: %s
staticPodPath: ""
volumePluginDir: %s
`, socket, insideNode, filepath.Join(dir, "logs"), filepath.Join(dir, "plugins")))
	start(t, dir, nsenter(t), append(inside, kubelet, "--config", settings, "--kubeconfig", kubeconfig, "--root-dir", filepath.Join(dir, "kubelet"), "--cert-dir", filepath.Join(dir, "pki"), "--hostname-override", "real", "--node-ip", insideNode, "--v", "2")...)
	eventuallyIn(t, time.Minute, "the node is ready", func() bool {
		n, err := c.admin.CoreV1().Nodes().Get(t.Context(), "real", metav1.GetOptions{})
		return err == nil && unready(n) == "" && len(n.Status.Conditions) > 0
	})
	return image
}

// nsenter is a copy under a name of its own for each use, by which logs are named.
func nsenter(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("nsenter")
	if err != nil {
		t.Skip("nsenter is not installed")
	}
	link := filepath.Join(t.TempDir(), "nsenter")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// sweepNode ends what containerd left: shims live on without it.
func sweepNode(t *testing.T, dir string) {
	t.Helper()
	ours, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return
	}
	for _, p := range ours {
		b, err := os.ReadFile(p)
		if err != nil || !bytes.Contains(b, []byte(dir)) || !bytes.Contains(b, []byte("containerd-shim")) {
			continue
		}
		var pid int
		if _, err := fmt.Sscanf(p, "/proc/%d/cmdline", &pid); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	for range 3 { // mounts lie on mounts
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			return
		}
		for line := range strings.Lines(string(mounts)) {
			if f := strings.Fields(line); len(f) > 4 && strings.HasPrefix(f[4], dir+"/") {
				_ = syscall.Unmount(f[4], syscall.MNT_DETACH)
			}
		}
	}
}

// pushOwn puts this test binary into an image, as /suanli.
func pushOwn(t *testing.T, reference string) string {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	if err := w.WriteHeader(&tar.Header{Name: "suanli", Mode: 0o755, Size: int64(len(binary))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(binary); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }, tarball.WithCompressionLevel(1))
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64", Config: v1.Config{Entrypoint: []string{"/suanli", "pause"}}, RootFS: configOf(t, img).RootFS})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(reference, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	return reference
}

func configOf(t *testing.T, img v1.Image) *v1.ConfigFile {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARealKubeletRunsALeaseWithoutPrivileges(t *testing.T) {
	c := newCluster(t)
	image := realNode(t, c)
	d := c.driver(t, func(k *Config) { k.Image, k.Simulated = image, true })
	d.cfg.RoomWait = 20 * time.Second
	spec := container()
	spec.GPUUUIDs, spec.Image = nil, runtime.Image{ID: image}
	spec.CPUMillis, spec.MemoryMiB, spec.DiskMiB = 200, 256, 256
	spec.Settings.Command = []string{"/suanli", "instance", "probe", "look", "--", "sleep", "600"}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	spec.Settings.HostKey = string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := d.Create(ctx, spec); err != nil {
		t.Fatal(err)
	}
	if err := d.Start(ctx, spec.LeaseID); err != nil {
		pod := c.pod(t, spec.LeaseID)
		t.Fatalf("%v; %+v", err, pod.Status)
	}

	t.Run("SSH answers through the API server", func(t *testing.T) {
		var banner []byte
		eventuallyIn(t, 30*time.Second, "a banner", func() bool {
			conn, err := d.Dial(t.Context(), spec.LeaseID, protocol.InstanceSSHPort)
			if err != nil {
				return false
			}
			defer conn.Close()
			_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
			banner = make([]byte, 8)
			_, err = io.ReadFull(conn, banner)
			return err == nil
		})
		if string(banner) != "SSH-2.0-" {
			t.Fatalf("%q", banner)
		}
	})
	t.Run("its first process says how it is", func(t *testing.T) {
		eventuallyIn(t, 30*time.Second, "a report", func() bool {
			b, err := d.Exec(t.Context(), spec.LeaseID, []string{"instance", "report"})
			return err == nil && bytes.Contains(b, []byte(`"started":true`))
		})
	})
	t.Run("it has no privileges", func(t *testing.T) {
		b, err := d.Exec(t.Context(), spec.LeaseID, []string{"instance", "probe", "look"})
		if err != nil || !bytes.Contains(b, []byte(`"NoNewPrivs":"1"`)) || !bytes.Contains(b, []byte(`"Seccomp":"2"`)) || !bytes.Contains(b, []byte(`"CapBnd":"0000000000000000"`)) {
			t.Fatalf("%s, %v", b, err)
		}
	})
	t.Run("its own kubelet ends it, and what it printed is kept", func(t *testing.T) {
		if err := d.Stop(t.Context(), spec.LeaseID, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		s, err := d.Inspect(t.Context(), spec.LeaseID)
		if err != nil || !s.Exists || s.Running || s.NeverRan || s.Code != "" || s.FinishedAt.IsZero() {
			t.Fatalf("%+v, %v", s, err)
		}
		var out bytes.Buffer
		if err := d.Logs(t.Context(), spec.LeaseID, protocol.LogOptions{}, &out); err != nil || !strings.Contains(out.String(), `"probe":"look"`) {
			t.Fatalf("%q, %v", out.String(), err)
		}
		if err := d.Erase(t.Context(), spec.LeaseID); err != nil {
			t.Fatal(err)
		}
		c.leftovers(t)
	})
	t.Run("a network that enforces no policy fails the self-test", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		passed := map[string]bool{}
		for _, check := range d.SelfTest(ctx) {
			passed[check.Name] = check.Passed
			t.Logf("%s: %t: %s", check.Name, check.Passed, check.Detail)
		}
		if !passed["engine"] || !passed["pod_security"] || !passed["privileges"] {
			t.Error("pods were not tried")
		}
		if open, tried := passed["neighbour_direct"]; !tried || open {
			t.Error("a neighbour that is reached counts as closed: this network knows no policies")
		}
		c.leftovers(t)
	})
}
