package agent

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/moby/moby/client"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/ident"
	"suanli.dev/internal/protocol"
)

// dockerWorld is an agent on a real engine. SUANLI_TEST_DOCKER names the engine's
// socket; the test has to run in the engine's network namespace.
func dockerWorld(t *testing.T, change func(*Config)) *world {
	t.Helper()
	host := os.Getenv("SUANLI_TEST_DOCKER")
	if host == "" {
		t.Skip("SUANLI_TEST_DOCKER does not name a container engine, such as unix:///var/run/docker.sock")
	}
	if os.Geteuid() != 0 {
		t.Skip("the agent mounts disks and writes firewall rules, which needs root")
	}
	hostID := ident.New(ident.Host)
	w := &world{t: t, c: newControl(), cfg: Config{
		Dir: t.TempDir(), HostID: hostID, DockerHost: host, SkipSelfTest: true, Binary: staticBinary(t), Simulate: "2x3090",
		CleanWait: time.Second, StopGrace: 3 * time.Second, PullStall: 5 * time.Second, poll: 200 * time.Millisecond, Table: "suanli-test-" + hostID[len(hostID)-8:], Log: testLog(t),
	}}
	if change != nil {
		change(&w.cfg)
	}
	w.start()
	t.Cleanup(func() {
		w.eraseAll()
		w.kill()
		if out, err := exec.Command("nft", "delete", "table", "inet", w.cfg.Table).CombinedOutput(); err != nil {
			t.Logf("the test's firewall table stays behind: %s", out)
		}
		mounts, _ := os.ReadFile("/proc/self/mounts")
		if strings.Contains(string(mounts), w.cfg.Dir) {
			t.Errorf("mounts are left behind in %s", w.cfg.Dir)
		}
	})
	return w
}

// staticBinary is the test binary, provided that it needs nothing of an image.
func staticBinary(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := exec.Command("file", "-L", exe).Output(); bytes.Contains(out, []byte("dynamically linked")) {
		t.Skip("the test binary has to be static; run go test with CGO_ENABLED=0")
	}
	return exe
}

// eraseAll ends every lease that a test left.
func (w *world) eraseAll() {
	w.a.mu.Lock()
	left := map[string]int64{}
	for id, l := range w.a.leases {
		if l.rec.Phase != protocol.PhaseAbsent {
			left[id] = l.rec.Generation + 1
		}
	}
	w.a.mu.Unlock()
	for id, g := range left {
		w.send(protocol.Command{LeaseID: id, Generation: g, Want: protocol.WantAbsent})
		w.reach(id, g, protocol.PhaseAbsent)
	}
}

// busybox is an image with a shell, made on the engine from the host's busybox.
func busybox(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed (busybox-static)")
	}
	api, err := client.New(client.WithHost(os.Getenv("SUANLI_TEST_DOCKER")))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	const ref = "suanli-test-busybox:1"
	if _, err := api.ImageInspect(t.Context(), ref); err == nil {
		return ref
	}
	r, err := api.ImageImport(t.Context(), client.ImageImportSource{Source: bytes.NewReader(busyboxTar(t, path)), SourceName: "-"}, ref,
		client.ImageImportOptions{Changes: []string{"CMD [\"/bin/sh\"]", "ENV NVIDIA_VISIBLE_DEVICES=all", "VOLUME /data"}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); err != nil {
		t.Fatal(err)
	}
	return ref
}

func busyboxTar(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(h *tar.Header, body []byte) {
		h.Size = int64(len(body))
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	put(&tar.Header{Typeflag: tar.TypeDir, Name: "bin/", Mode: 0o755}, nil)
	put(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, nil)
	put(&tar.Header{Typeflag: tar.TypeDir, Name: "data/", Mode: 0o755}, nil)
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "data/seed", Mode: 0o644}, []byte("from the image\n"))
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, b)
	for _, tool := range []string{"sh", "cat", "echo", "dd", "sleep", "ls", "id", "env", "nc", "wget", "df", "mount", "rm", "touch", "seq", "yes", "head", "true", "false", "httpd"} {
		put(&tar.Header{Typeflag: tar.TypeLink, Name: "bin/" + tool, Linkname: "bin/busybox", Mode: 0o755}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func (w *world) run(id string, generation int64, s *protocol.InstanceSpec) {
	w.t.Helper()
	if r := w.send(protocol.Command{LeaseID: id, Generation: generation, Want: protocol.WantRunning, Spec: s}); !r.Accepted {
		w.t.Fatalf("the command was refused: %+v", r)
	}
}

func shell(image, script string) *protocol.InstanceSpec {
	s := spec()
	s.Image, s.StartScript = image, script
	return s
}

func TestDockerDiskIsLimitedAndKeptOverStopAndStart(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	id := ident.New(ident.Lease)
	w.run(id, 1, shell(image, `cat /data/seed; echo kept > /root.txt; echo more >> /data/seed; dd if=/dev/zero of=/big bs=1M count=400; rm /big; echo wrote; sleep 600`))
	w.until("the script has written", func() bool { return strings.Contains(w.logs(id), "wrote\n") })
	out := w.logs(id)
	if !strings.Contains(out, "No space left on device") || !strings.Contains(out, "from the image") {
		t.Fatalf("output: %s", out)
	}
	w.send(protocol.Command{LeaseID: id, Generation: 2, Want: protocol.WantStopped})
	s := w.reach(id, 2, protocol.PhaseStopped)
	if s.Code != "commanded" || s.Stopped == nil || s.Started == nil || s.Stopped.Nanos < s.Started.Nanos {
		t.Fatalf("stopped: %+v", s)
	}
	if !strings.Contains(w.logs(id), "wrote\n") {
		t.Fatal("the output is gone with the container")
	}
	w.run(id, 3, shell(image, `cat /root.txt /data/seed; echo again; sleep 600`))
	w.reach(id, 3, protocol.PhaseRunning)
	w.until("the second run has printed", func() bool { return strings.Contains(w.logs(id), "again\n") })
	if out := w.logs(id); !strings.Contains(out, "kept\nfrom the image\nmore\nagain") {
		t.Fatalf("the disk was not kept: %s", out)
	}
	w.send(protocol.Command{LeaseID: id, Generation: 4, Want: protocol.WantAbsent})
	w.reach(id, 4, protocol.PhaseAbsent)
	if _, err := os.Stat(filepath.Join(w.cfg.Dir, "leases", id)); err == nil {
		t.Error("the lease's folder is still there")
	}
	if !strings.Contains(w.logs(id), "again\n") {
		t.Error("what the instance printed cannot be read after its end")
	}
}

func TestDockerSelfTestPassesAndProvesEachLimit(t *testing.T) {
	w := dockerWorld(t, func(c *Config) { c.SkipSelfTest = false })
	var st protocol.SelfTest
	w.until("the self-test is done", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		st = w.c.inv.SelfTest
		return len(st.Checks) > 0
	})
	for _, c := range st.Checks {
		t.Logf("%-20s passed=%-5t skipped=%-5t %s", c.Name, c.Passed, c.Skipped, c.Detail)
	}
	if !st.Passed {
		t.Error("the self-test failed")
	}
	for _, name := range []string{"disk_quota", "memory_limit", "process_limit", "metadata_address", "private_ranges", "host_address", "neighbour_direct", "neighbour_published", "gpus", "gpu_environment", "firewall_counts", "privileges", "system_calls"} {
		found := false
		for _, c := range st.Checks {
			found = found || c.Name == name && c.Passed
		}
		if !found {
			t.Errorf("the check %s did not pass", name)
		}
	}
}

func TestDockerAgentAdoptsWhatRanWhileItWasDead(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	stays, ends := ident.New(ident.Lease), ident.New(ident.Lease)
	w.run(stays, 1, shell(image, "echo one; sleep 600"))
	w.run(ends, 1, shell(image, "sleep 3; exit 5"))
	first := w.reach(stays, 1, protocol.PhaseRunning)
	w.reach(ends, 1, protocol.PhaseRunning)
	w.kill()
	api, err := client.New(client.WithHost(w.cfg.DockerHost))
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	wait := api.ContainerWait(t.Context(), "suanli-"+ends, client.ContainerWaitOptions{})
	select {
	case <-wait.Result:
	case err := <-wait.Error:
		t.Fatal(err)
	}
	w.start()
	s := w.reach(ends, 1, protocol.PhaseStopped)
	if s.Code != "exited" || s.ExitCode == nil || *s.ExitCode != 5 {
		t.Fatalf("ended: %+v", s)
	}
	again := w.reach(stays, 1, protocol.PhaseRunning)
	if *again.Started != *first.Started {
		t.Errorf("the run's begin moved from %+v to %+v", first.Started, again.Started)
	}
	// The same command again must not start the ended run anew.
	w.run(ends, 1, shell(image, "sleep 3; exit 5"))
	w.reach(ends, 1, protocol.PhaseStopped)
	states, err := w.a.driver.List(t.Context())
	if err != nil || len(states) != 1 {
		t.Fatalf("containers: %+v %v", states, err)
	}
}

func TestDockerAgentWithoutItsStateAdoptsByLabels(t *testing.T) {
	w := dockerWorld(t, nil)
	id := ident.New(ident.Lease)
	w.run(id, 7, shell(busybox(t), "sleep 600"))
	w.reach(id, 7, protocol.PhaseRunning)
	w.kill()
	if err := os.Remove(filepath.Join(w.cfg.Dir, "leases", id, "lease.json")); err != nil {
		t.Fatal(err)
	}
	w.start()
	w.reach(id, 7, protocol.PhaseRunning)
	if r := w.send(protocol.Command{LeaseID: id, Generation: 6, Want: protocol.WantAbsent}); r.Code != "stale_generation" || r.Generation != 7 {
		t.Errorf("an older generation was answered %+v", r)
	}
}

func TestDockerImagesThatCannotRunSayWhy(t *testing.T) {
	pushed := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer pushed.Close()
	host := strings.TrimPrefix(pushed.URL, "http://")
	w := dockerWorld(t, func(c *Config) { c.InnerRegistries = []runtime.InnerRegistry{{Host: host, HTTP: true}} })
	push := func(tag, arch string, mib int) string {
		layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
			var buf bytes.Buffer
			tw := tar.NewWriter(&buf)
			_ = tw.WriteHeader(&tar.Header{Name: "fat", Mode: 0o644, Size: int64(mib) << 20, Typeflag: tar.TypeReg})
			_, _ = tw.Write(make([]byte, mib<<20))
			_ = tw.Close()
			return io.NopCloser(&buf), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		img, err := mutate.AppendLayers(empty.Image, layer)
		if err != nil {
			t.Fatal(err)
		}
		img, err = mutate.ConfigFile(img, &v1.ConfigFile{Architecture: arch, OS: "linux", RootFS: mustConfig(img).RootFS, History: mustConfig(img).History})
		if err != nil {
			t.Fatal(err)
		}
		ref, err := name.ParseReference(host+"/"+tag, name.Insecure)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, img); err != nil {
			t.Fatal(err)
		}
		return ref.Name()
	}
	for _, c := range []struct{ image, code string }{
		{host + "/absent:1", "image_not_found"},
		{push("other:1", "s390x", 1), "image_architecture"},
		{push("fat:1", goArch, 300), "image_too_big"},
		{"No/Such Image", "bad_spec"},
	} {
		id := ident.New(ident.Lease)
		r := w.send(protocol.Command{LeaseID: id, Generation: 1, Want: protocol.WantRunning, Spec: shell(c.image, "")})
		if c.code == "bad_spec" {
			if r.Code != "bad_spec" {
				t.Errorf("%s: %+v", c.image, r)
			}
			continue
		}
		s := w.reach(id, 1, protocol.PhaseFailed)
		if s.Code != c.code || s.Started != nil {
			t.Errorf("%s: %+v, want the code %s and no run", c.image, s, c.code)
		}
	}
}

func mustConfig(img v1.Image) *v1.ConfigFile {
	c, err := img.ConfigFile()
	if err != nil {
		panic(err)
	}
	return c
}

func TestDockerPullWithoutProgressIsGivenUp(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w := dockerWorld(t, func(c *Config) {
		c.PullStall, c.InnerRegistries = 2*time.Second, []runtime.InnerRegistry{{Host: l.Addr().String(), HTTP: true}}
	})
	hold := make(chan struct{})
	defer close(hold)
	go func() {
		_ = http.Serve(l, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
	}()
	id := ident.New(ident.Lease)
	w.run(id, 1, shell(l.Addr().String()+"/silent:1", ""))
	if s := w.reach(id, 1, protocol.PhaseFailed); s.Code != "pull_stalled" {
		t.Errorf("status: %+v", s)
	}
}

func TestDockerRunsImagesOfTheCloudsOwnRegistry(t *testing.T) {
	w := dockerWorld(t, nil)
	path, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is not installed (busybox-static)")
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	w.c.open = func(h protocol.StreamHeader) (net.Conn, error) {
		if h.Kind != protocol.StreamRegistry {
			return nil, fmt.Errorf("kind %s", h.Kind)
		}
		return net.Dial("tcp", server.Listener.Addr().String())
	}
	body := busyboxTar(t, path)
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{Architecture: goArch, OS: "linux", RootFS: mustConfig(img).RootFS, Config: v1.Config{Cmd: []string{"/bin/sh", "-c", "echo from the cloud; sleep 600"}}})
	if err != nil {
		t.Fatal(err)
	}
	ref, err := name.ParseReference(server.Listener.Addr().String()+"/digits:"+ident.New(ident.Request), name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, img); err != nil {
		t.Fatal(err)
	}
	id := ident.New(ident.Lease)
	s := spec()
	s.Image = "cloud://digits:" + ref.Identifier()
	w.run(id, 1, s)
	w.reach(id, 1, protocol.PhaseRunning)
	w.until("it prints", func() bool { return strings.Contains(w.logs(id), "from the cloud") })
}

func TestDockerLimitsEnvironmentAndCountsTraffic(t *testing.T) {
	w := dockerWorld(t, nil)
	gpus, err := w.a.gpus.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	id := ident.New(ident.Lease)
	s := shell(busybox(t), `env; /usr/bin/nvidia-smi -L; head -c 3000000 /dev/zero > /tmp/f; echo ready; while true; do nc -l -p 9000 < /tmp/f; done`)
	s.GPUs = []string{gpus[1].UUID}
	s.Environment = map[string]string{"NVIDIA_VISIBLE_DEVICES": "all", "SECRET": "s3cret"}
	w.run(id, 1, s)
	w.reach(id, 1, protocol.PhaseRunning)
	w.until("it is ready", func() bool { return strings.Contains(w.logs(id), "ready") })
	out := w.logs(id)
	if !strings.Contains(out, "NVIDIA_VISIBLE_DEVICES=void") || strings.Contains(out, "NVIDIA_VISIBLE_DEVICES=all") || !strings.Contains(out, "SECRET=s3cret") {
		t.Errorf("environment: %s", out)
	}
	if !strings.Contains(out, gpus[1].UUID) || strings.Contains(out, gpus[0].UUID) {
		t.Errorf("GPUs seen: %s", out)
	}
	var c net.Conn
	w.until("the port answers", func() bool {
		var err error
		c, err = w.stream(protocol.StreamHeader{Kind: protocol.StreamPort, LeaseID: id, Port: 9000})
		return err == nil
	})
	n, _ := io.CopyN(io.Discard, c, 3000000)
	c.Close()
	if n != 3000000 {
		t.Fatalf("got %d bytes", n)
	}
	w.until("the bytes are counted", func() bool { s, _ := w.status(id); return s.EgressBytes > 3000000 })
	counted, _ := w.status(id)
	if counted.EgressBytes > 3300000 {
		t.Errorf("%d bytes were counted for 3000000", counted.EgressBytes)
	}
	// Rules that somebody flushes come back.
	if out, err := exec.Command("nft", "delete", "table", "inet", w.cfg.Table).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	w.until("the rules are back", func() bool {
		return exec.Command("nft", "list", "table", "inet", w.cfg.Table).Run() == nil
	})
	if after, _ := w.status(id); after.EgressBytes < counted.EgressBytes {
		t.Errorf("the count went down from %d to %d", counted.EgressBytes, after.EgressBytes)
	}
}

func TestDockerOutOfMemoryAndExitCodesAreTold(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	oom, fails := ident.New(ident.Lease), ident.New(ident.Lease)
	s := shell(image, `x=$(head -c 400000000 /dev/zero | while true; do dd bs=1M count=100 2>/dev/null; done | busybox tr '\0' x); echo survived`)
	s.MemoryMiB = 48
	w.run(oom, 1, s)
	w.run(fails, 1, shell(image, "echo no; exit 1"))
	if st := w.reach(fails, 1, protocol.PhaseStopped); st.Code != "exited" || st.ExitCode == nil || *st.ExitCode != 1 {
		t.Errorf("exit 1: %+v", st)
	}
	st := w.reach(oom, 1, protocol.PhaseStopped)
	if st.Code != "oom_killed" {
		t.Errorf("out of memory: %+v", st)
	}
}

func TestDockerDirectPortThatIsTakenIsToldAndLeavesNothing(t *testing.T) {
	w := dockerWorld(t, nil)
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	id := ident.New(ident.Lease)
	s := shell(busybox(t), "sleep 600")
	s.DirectPorts = map[int]int{80: l.Addr().(*net.TCPAddr).Port}
	w.run(id, 1, s)
	if st := w.reach(id, 1, protocol.PhaseFailed); st.Code != "port_taken" {
		t.Errorf("status: %+v", st)
	}
	states, err := w.a.driver.List(t.Context())
	if err != nil || len(states) != 0 {
		t.Errorf("left behind: %+v %v", states, err)
	}
}

const goArch = goruntime.GOARCH

func TestDockerEngineThatIsKilledComesBackWithTheDiskKept(t *testing.T) {
	restart := os.Getenv("SUANLI_TEST_ENGINE_RESTART")
	if restart == "" {
		t.Skip("SUANLI_TEST_ENGINE_RESTART does not name a command that kills the engine (-9) and starts it again")
	}
	w := dockerWorld(t, nil)
	image := busybox(t)
	id := ident.New(ident.Lease)
	w.run(id, 1, shell(image, "echo kept > /root.txt; echo ready; sleep 600"))
	w.until("it has written", func() bool { return strings.Contains(w.logs(id), "ready") })
	done := make(chan error, 1)
	go func() { done <- exec.Command(restart).Run() }()
	w.until("the host is not ready", func() bool { w.c.mu.Lock(); defer w.c.mu.Unlock(); return !w.c.last.Ready })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	s := w.reach(id, 1, protocol.PhaseStopped)
	if s.Stopped == nil || s.Started == nil || s.Stopped.Nanos < s.Started.Nanos {
		t.Errorf("status: %+v", s)
	}
	w.run(id, 2, shell(image, "cat /root.txt; sleep 600"))
	w.reach(id, 2, protocol.PhaseRunning)
	w.until("the file is there", func() bool { return strings.Contains(w.logs(id), "kept") })
}

// leaky is an engine on a host where somebody empties the firewall's rules.
type leaky struct {
	*runtime.Docker
	table string
}

func (l leaky) Start(ctx context.Context, id string) error {
	for _, chain := range []string{"guard_forward", "guard_input"} {
		if out, err := exec.Command("nft", "flush", "chain", "inet", l.table, chain).CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	return l.Docker.Start(ctx, id)
}

func TestDockerSelfTestFailsWhereIsolationIsMissing(t *testing.T) {
	w := dockerWorld(t, func(c *Config) {
		c.SkipSelfTest = false
		d, err := runtime.NewDocker(runtime.DockerConfig{Host: c.DockerHost, Dir: c.Dir, HostID: c.HostID, Binary: c.Binary, Table: c.Table})
		if err != nil {
			t.Fatal(err)
		}
		c.Driver = leaky{d, c.Table}
	})
	failed := map[string]bool{}
	w.until("the self-test is done", func() bool {
		w.c.mu.Lock()
		defer w.c.mu.Unlock()
		for _, c := range w.c.inv.SelfTest.Checks {
			failed[c.Name] = !c.Passed && !c.Skipped
		}
		return len(failed) > 0
	})
	for _, name := range []string{"host_address", "firewall_counts"} {
		if !failed[name] {
			t.Errorf("the check %s passed without rules: %v", name, failed)
		}
	}
	w.c.mu.Lock()
	defer w.c.mu.Unlock()
	if w.c.inv.SelfTest.Passed {
		t.Error("the self-test passed on a host without isolation")
	}
}

func TestDockerInstanceGetsItsSignalAndCommandWithTheNoticeOnce(t *testing.T) {
	w := dockerWorld(t, nil)
	image := busybox(t)
	id := ident.New(ident.Lease)
	s := spec()
	s.Image = image
	s.Command = []string{"/bin/sh", "-c", "trap 'echo the signal came' USR1; echo ready; while :; do sleep 0.1; done"}
	s.NoticeSignal = "SIGUSR1"
	s.NoticeCommand = `echo "the command runs: $SUANLI_INTERRUPTION"`
	w.run(id, 1, s)
	w.until("the command is ready", func() bool { return strings.Contains(w.logs(id), "ready\n") })
	notice := func(in time.Duration) {
		w.c.mu.Lock()
		w.c.desired[id] = protocol.Desired{LeaseID: id, Generation: 1, Limits: protocol.RunLimits{InterruptIn: in, InterruptReason: "on_demand"}}
		w.c.mu.Unlock()
	}
	notice(time.Hour)
	w.until("both have come", func() bool {
		out := w.logs(id)
		return strings.Contains(out, "the signal came\n") && strings.Contains(out, `"reason":"on_demand"`)
	})
	// The end of the notice moves: that is told in the file, and is no second notice.
	notice(2 * time.Hour)
	w.until("the file says the new end", func() bool {
		w.a.mu.Lock()
		defer w.a.mu.Unlock()
		l := w.a.leases[id]
		return l != nil && time.Until(l.rec.Told) > 90*time.Minute
	})
	if out := w.logs(id); strings.Count(out, "the signal came") != 1 || strings.Count(out, "the command runs") != 1 {
		t.Errorf("one notice came as %s", out)
	}
	w.send(protocol.Command{LeaseID: id, Generation: 2, Want: protocol.WantAbsent})
	w.reach(id, 2, protocol.PhaseAbsent)
}
