package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"suanli.dev/internal/placement"
	"suanli.dev/internal/placement/queue"
)

// Sizes of the comparison with kube-scheduler and Slurm.
const (
	kubeNodes, kubePods      = 1_000, 3_000
	slurmNodes, slurmCPUs    = 16, 8
	slurmJobs                = 500
	kubeToken                = "of-the-benchmark"
	kubePort, kubeStore      = 16443, 12379
	schedulerGoal            = 20
	schedulerRepeats         = 5
	slurmPort, slurmNodePort = 16817, 17000
	slurmAddress             = "192.0.2.16"
)

// ownTime is the processor time that this process has used.
func ownTime() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// compared is a result of a processor time each decision.
func compared(ours, peer time.Duration) result {
	return result{fmt.Sprintf("%.1fus", float64(ours.Nanoseconds())/1e3), micro(peer), float64(ours) / float64(peer), ours*schedulerGoal <= peer}
}

// benchKubeScheduler gives kube-scheduler 3,000 pods of one GPU, 4 CPUs and 8 GiB each,
// on 1,000 nodes of 8 GPUs that stand in a real API server over etcd and are said to be
// ready, and takes the processor time of the scheduler's own process until all have a
// node: what the API server and etcd use is not counted. Ours places the same requests on
// the same hosts, in this process, with what is observed and taken, the slowest of five
// times. Both decide; neither starts anything. SUANLI_BENCH_KUBERNETES is a folder with
// kube-apiserver and kube-scheduler, and etcd is Debian's.
func benchKubeScheduler(ctx context.Context, w *world) (result, error) {
	dir := os.Getenv("SUANLI_BENCH_KUBERNETES")
	etcd, err := exec.LookPath("etcd")
	if dir == "" || err != nil {
		return result{}, errors.Join(err, errors.New("SUANLI_BENCH_KUBERNETES has to name a folder with kube-apiserver and kube-scheduler, and etcd has to be installed"))
	}
	peer, err := kubeTime(ctx, w, dir, etcd)
	if err != nil {
		return result{}, err
	}
	runtime.GC()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ours := time.Duration(0)
	for range schedulerRepeats {
		f := placement.NewFleet(placement.Standard())
		for i := range kubeNodes {
			h := queueHost(fmt.Sprint("node-", i), "leaf", "rack")
			h.CPUMillis, h.MemoryMiB = 128_000, 1<<20
			f.Set(h)
		}
		began := ownTime()
		for range kubePods {
			q := placement.Request{Count: 1, CPUMillis: 4_000, MemoryMiB: 8 << 10}
			f.Observe(q)
			p, fits := f.Place(q)
			if !fits {
				return result{}, errors.New("ours found no place for a pod")
			}
			f.Take(q, p)
		}
		ours = max(ours, (ownTime()-began)/kubePods)
	}
	return compared(ours, peer), nil
}

// kubeTime is the processor time of kube-scheduler for a pod.
func kubeTime(ctx context.Context, w *world, dir, etcd string) (time.Duration, error) {
	home := filepath.Join(w.dir, "kubernetes")
	if err := os.MkdirAll(home, 0o700); err != nil {
		return 0, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return 0, err
	}
	keyFile, tokens, config := filepath.Join(home, "sa.key"), filepath.Join(home, "tokens"), filepath.Join(home, "kubeconfig")
	server := fmt.Sprintf("https://127.0.0.1:%d", kubePort)
	for name, text := range map[string]string{
		keyFile: string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})),
		tokens:  kubeToken + ",admin,1,system:masters\n",
		config: fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"c","cluster":{"server":%q,"insecure-skip-tls-verify":true}}],`+
			`"users":[{"name":"c","user":{"token":%q}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"c"}}]}`, server, kubeToken),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return 0, err
		}
	}
	store, peer := fmt.Sprintf("http://127.0.0.1:%d", kubeStore), fmt.Sprintf("http://127.0.0.1:%d", kubeStore+1)
	for _, p := range [][]string{
		{etcd, "--data-dir", filepath.Join(home, "etcd"), "--listen-client-urls", store, "--advertise-client-urls", store, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer, "--unsafe-no-fsync"},
		{filepath.Join(dir, "kube-apiserver"), "--etcd-servers", store, "--token-auth-file", tokens, "--authorization-mode", "RBAC", "--service-account-issuer", "https://kubernetes.default.svc",
			"--service-account-key-file", keyFile, "--service-account-signing-key-file", keyFile, "--service-cluster-ip-range", "10.96.0.0/16", "--secure-port", fmt.Sprint(kubePort), "--bind-address", "127.0.0.1",
			"--cert-dir", filepath.Join(home, "certs"), "--endpoint-reconciler-type", "none", "--advertise-address", "203.0.113.9", "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition,Priority"},
	} {
		child, err := w.spawn(filepath.Base(p[0]), nil, p...)
		if err != nil {
			return 0, err
		}
		defer child.stop()
	}
	c := kubeClient{server, &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 16}}} //nolint:gosec // it is this process' own child on loopback
	if err := poll(ctx, "the API server is ready", 2*time.Minute, 200*time.Millisecond, func() (bool, error) { _, err := c.do(ctx, http.MethodGet, "/readyz", nil); return err == nil, err }); err != nil {
		return 0, err
	}
	amounts := map[string]string{"cpu": "128", "memory": "1024Gi", "pods": "200", "nvidia.com/gpu": "8"}
	if err := c.many(ctx, kubeNodes, "/api/v1/nodes", func(i int) any {
		return map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": fmt.Sprint("node-", i)},
			"status": map[string]any{"capacity": amounts, "allocatable": amounts, "conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "KubeletReady"}}}}
	}); err != nil {
		return 0, err
	}
	scheduler, err := w.spawn("kube-scheduler", nil, filepath.Join(dir, "kube-scheduler"), "--kubeconfig", config, "--leader-elect=false", "--secure-port", fmt.Sprint(kubePort+1), "--bind-address", "127.0.0.1",
		"--authentication-kubeconfig", config, "--authorization-kubeconfig", config, "--cert-dir", filepath.Join(home, "scheduler"))
	if err != nil {
		return 0, err
	}
	defer scheduler.stop()
	pods := func(n int, first int) error {
		wants := map[string]string{"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"}
		err := c.many(ctx, n, "/api/v1/namespaces/default/pods", func(i int) any {
			return map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": fmt.Sprint("pod-", first+i)},
				"spec": map[string]any{"containers": []any{map[string]any{"name": "c", "image": "example.invalid/pause", "resources": map[string]any{"requests": wants, "limits": wants}}}}}
		})
		if err != nil {
			return err
		}
		return poll(ctx, "every pod has a node", 5*time.Minute, 100*time.Millisecond, func() (bool, error) {
			b, err := c.do(ctx, http.MethodGet, "/api/v1/pods?limit=1&fieldSelector=spec.nodeName%3D", nil)
			var list struct{ Items []json.RawMessage }
			return err == nil && json.Unmarshal(b, &list) == nil && len(list.Items) == 0, err
		})
	}
	if err := pods(100, 0); err != nil { // it has its caches by then
		return 0, err
	}
	began, err := cpu(scheduler.pid())
	if err != nil {
		return 0, err
	}
	at := time.Now()
	if err := pods(kubePods, 100); err != nil {
		return 0, err
	}
	ended, err := cpu(scheduler.pid())
	fmt.Printf("  kube-scheduler: %d pods on %d nodes in %s, %s of its processor time\n", kubePods, kubeNodes, time.Since(at).Round(time.Millisecond), ended-began)
	return (ended - began) / kubePods, err
}

// kubeClient speaks to an API server.
type kubeClient struct {
	server string
	http   *http.Client
}

func (c kubeClient) do(ctx context.Context, method, path string, body any) ([]byte, error) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.server+path, in)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+kubeToken)
	r.Header.Set("Content-Type", "application/json")
	res, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %.300s", method, path, res.Status, b)
	}
	return b, err
}

// many makes n objects, eight at a time.
func (c kubeClient) many(ctx context.Context, n int, path string, object func(i int) any) error {
	var all sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for k := range 8 {
		all.Go(func() {
			for i := k; i < n; i += 8 {
				if _, err := c.do(ctx, http.MethodPost, path, object(i)); err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
					return
				}
			}
		})
	}
	all.Wait()
	return failed
}

// benchSlurm gives Slurm's controller an array of 500 jobs of one processor each, which
// stands for a GPU, on 16 nodes of 8, each with a slurmd of its own on this machine, and
// takes the processor time of slurmctld until all are over. Ours takes the same jobs
// through the product's queue and placement, a cycle for each second. Slurm's time is more
// than that of deciding: its controller also tells nodes to start a job and hears of its
// end, which cannot be taken apart from outside. The packages are Debian's slurmctld,
// slurmd, slurm-client and munge.
func benchSlurm(ctx context.Context, w *world) (result, error) {
	for _, p := range []string{"slurmctld", "slurmd", "sbatch", "squeue", "munged"} {
		if _, err := exec.LookPath(p); err != nil {
			return result{}, fmt.Errorf("install Slurm first (Debian: slurmctld slurmd slurm-client munge): %w", err)
		}
	}
	peer, err := slurmTime(ctx, w)
	if err != nil {
		return result{}, err
	}
	runtime.GC()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	ours := time.Duration(0)
	for range schedulerRepeats {
		f := placement.NewFleet(placement.Standard())
		for i := range slurmNodes {
			f.Set(queueHost(fmt.Sprint("n", i), "leaf", "rack"))
		}
		began, now := ownTime(), time.Unix(0, 0)
		var waiting []queue.Job
		var running []queue.Running
		for i := range slurmJobs {
			q := placement.Request{Count: 1}
			f.Observe(q)
			waiting = append(waiting, queue.Job{ID: fmt.Sprintf("%03d", i), Owner: "a", Request: q, Submitted: now, Estimate: time.Minute})
		}
		for len(waiting) > 0 {
			now = now.Add(time.Second)
			starts, _ := queue.Cycle(f, queue.Standard(), waiting, running, now)
			started := map[string]bool{}
			for _, s := range starts {
				started[s.Job.ID] = true
				running = append(running, queue.Running{Job: s.Job, Placement: s.Placement, Started: now})
			}
			waiting = slices.DeleteFunc(waiting, func(j queue.Job) bool { return started[j.ID] })
			for _, r := range running { // they do nothing, and are over before the next second, as Slurm's are
				f.Release(r.Request, r.Placement)
			}
			running = nil
		}
		ours = max(ours, (ownTime()-began)/slurmJobs)
	}
	return compared(ours, peer), nil
}

// slurmTime is the processor time of slurmctld for a job.
func slurmTime(ctx context.Context, w *world) (time.Duration, error) {
	home := filepath.Join(w.dir, "slurm")
	for _, d := range []string{"state", "munge"} {
		if err := os.MkdirAll(filepath.Join(home, d), 0o755); err != nil {
			return 0, err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	// Slurm asks for addresses only of kinds that an interface beside the loopback has.
	for _, line := range []string{"ip link add slurm0 type veth peer name slurm1", "ip link set slurm1 up", "ip addr add " + slurmAddress + "/32 dev slurm0", "ip link set slurm0 up"} {
		args := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
			return 0, fmt.Errorf("%s: %w: %s", line, err, out)
		}
	}
	key := make([]byte, 1024)
	_, _ = rand.Read(key)
	keyFile, socket := filepath.Join(home, "munge", "key"), filepath.Join(home, "munge", "socket")
	if err := os.WriteFile(keyFile, key, 0o600); err != nil {
		return 0, err
	}
	var conf strings.Builder
	fmt.Fprintf(&conf, `ClusterName=bench
SlurmctldHost=%s(%s)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=%s
CryptoType=crypto/munge
StateSaveLocation=%s
SlurmdSpoolDir=%s/spool-%%n
SlurmctldPidFile=%s/slurmctld.pid
SlurmdPidFile=%s/slurmd-%%n.pid
SlurmctldPort=%d
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
ReturnToService=2
`, host, slurmAddress, socket, filepath.Join(home, "state"), home, home, home, slurmPort)
	for i := range slurmNodes {
		fmt.Fprintf(&conf, "NodeName=n%d NodeHostname=%s NodeAddr=%s Port=%d CPUs=%d State=UNKNOWN\n", i, host, slurmAddress, slurmNodePort+i, slurmCPUs)
	}
	fmt.Fprintf(&conf, "PartitionName=all Nodes=n[0-%d] Default=YES MaxTime=60 State=UP\n", slurmNodes-1)
	confFile := filepath.Join(home, "slurm.conf")
	if err := os.WriteFile(confFile, []byte(conf.String()), 0o644); err != nil { //nolint:gosec // it holds no secret
		return 0, err
	}
	env := []string{"SLURM_CONF=" + confFile}
	spawn := func(name string, command ...string) (*process, error) { return w.spawn(name, env, command...) }
	munged, err := spawn("munged", "munged", "--foreground", "--force", "--key-file="+keyFile, "--socket="+socket, "--pid-file="+filepath.Join(home, "munge", "pid"), "--seed-file="+filepath.Join(home, "munge", "seed"), "--log-file="+filepath.Join(home, "munge", "log"))
	if err != nil {
		return 0, err
	}
	defer munged.stop()
	if err := poll(ctx, "munged listens", 20*time.Second, 50*time.Millisecond, func() (bool, error) { _, err := os.Stat(socket); return err == nil, nil }); err != nil {
		return 0, err
	}
	controller, err := spawn("slurmctld", "slurmctld", "-D", "-f", confFile)
	if err != nil {
		return 0, err
	}
	defer controller.stop()
	for i := range slurmNodes {
		d, err := spawn(fmt.Sprint("slurmd-n", i), "slurmd", "-D", "-f", confFile, "-N", fmt.Sprint("n", i))
		if err != nil {
			return 0, err
		}
		defer d.stop()
	}
	ask := func(command ...string) (string, error) {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Env, cmd.Dir = append(os.Environ(), env...), home
		out, err := cmd.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %.300s", command[0], err, out)
		}
		return string(out), err
	}
	if err := poll(ctx, "all nodes of Slurm are idle", 2*time.Minute, 500*time.Millisecond, func() (bool, error) {
		out, err := ask("sinfo", "--noheader", "--format=%T %D")
		return strings.TrimSpace(out) == fmt.Sprint("idle ", slurmNodes), err
	}); err != nil {
		return 0, err
	}
	began, err := cpu(controller.pid())
	if err != nil {
		return 0, err
	}
	at := time.Now()
	if _, err := ask("sbatch", "--array=1-"+fmt.Sprint(slurmJobs), "--ntasks=1", "--time=1", "--output=/dev/null", "--wrap=true"); err != nil {
		return 0, err
	}
	if err := poll(ctx, "all jobs of Slurm are over", 10*time.Minute, 2*time.Second, func() (bool, error) {
		out, err := ask("squeue", "--noheader")
		return err == nil && strings.TrimSpace(out) == "", err
	}); err != nil {
		return 0, err
	}
	ended, err := cpu(controller.pid())
	fmt.Printf("  Slurm: %d jobs on %d nodes in %s, %s of its controller's processor time\n", slurmJobs, slurmNodes, time.Since(at).Round(time.Millisecond), ended-began)
	return (ended - began) / slurmJobs, err
}
