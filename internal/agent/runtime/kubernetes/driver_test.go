package kubernetes

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// world is a driver of a cluster that is only a memory, with two nodes.
func world(t *testing.T, change ...func(*Config)) (*Driver, *fake.Clientset) {
	t.Helper()
	port := int32(6443)
	api := fake.NewClientset(
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "leases", Labels: map[string]string{"pod-security.kubernetes.io/enforce": Restricted}}},
		&discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default", Labels: map[string]string{"kubernetes.io/service-name": "kubernetes"}},
			Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"203.0.113.9"}}}, Ports: []discoveryv1.EndpointPort{{Port: &port}}},
		node("n1", 8, nil), node("n2", 8, nil),
	)
	c := config(change...)
	c.RoomWait, c.QueueWait = 300*time.Millisecond, 300*time.Millisecond
	d, err := newDriver(*c, api)
	if err != nil {
		t.Fatal(err)
	}
	return d, api
}

// lease is a container with GPUs of a cluster.
func lease(t *testing.T, d *Driver, id string, from, count int) runtime.Container {
	t.Helper()
	gpus, err := d.GPUs().List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c := container()
	c.LeaseID, c.GPUUUIDs = id, nil
	for _, g := range gpus[from : from+count] {
		c.GPUUUIDs = append(c.GPUUUIDs, g.UUID)
	}
	return c
}

// be sets a pod's status as its node would.
func be(t *testing.T, api *fake.Clientset, id string, status corev1.PodStatus) {
	t.Helper()
	pod, err := api.CoreV1().Pods("leases").Get(t.Context(), podName(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pod.Status, pod.Spec.NodeName = status, "n1"
	if _, err := api.CoreV1().Pods("leases").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func runs() corev1.PodStatus {
	return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: mainContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}}}}
}

func TestALeaseIsMadeClosedAndStartsWhenItIsTold(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	c := lease(t, d, "lease-1", 8, 2)
	if err := d.Create(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, a := range api.Actions() {
		if a.GetVerb() == "create" {
			order = append(order, a.GetResource().Resource)
		}
	}
	if got := strings.Join(order, " "); got != "networkpolicies networkpolicies secrets pods" {
		t.Fatalf("made in the order %s: what closes the network has to come first", got)
	}
	pod, err := api.CoreV1().Pods("leases").Get(t.Context(), "suanli-lease-1", metav1.GetOptions{})
	if err != nil || len(pod.Spec.SchedulingGates) != 1 {
		t.Fatalf("%v, gates %v", err, pod.Spec.SchedulingGates)
	}
	if at := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]; at != "n2" {
		t.Fatalf("GPUs of n2 lead to %s", at)
	}
	if err := d.Create(t.Context(), c); err == nil {
		t.Fatal("a lease has two pods")
	}
	started := make(chan error, 1)
	go func() { started <- d.Start(t.Context(), "lease-1") }()
	eventually(t, func() bool {
		pod, err = api.CoreV1().Pods("leases").Get(t.Context(), "suanli-lease-1", metav1.GetOptions{})
		return err == nil && len(pod.Spec.SchedulingGates) == 0
	})
	be(t, api, "lease-1", runs())
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	if s, err := d.Inspect(t.Context(), "lease-1"); err != nil || !s.Running || s.Generation != 3 {
		t.Fatalf("%+v, %v", s, err)
	}
	list, err := d.List(t.Context())
	if err != nil || len(list) != 1 || list[0].LeaseID != "lease-1" || len(list[0].GPUs) != 2 {
		t.Fatalf("after a restart it would know %+v, %v", list, err)
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !ok() {
		select {
		case <-time.After(20 * time.Millisecond):
		case <-deadline:
			t.Fatal("it did not come to that in 20 s")
		}
	}
}

func TestAQuotaIsARefusalThatNamesIt(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	api.PrependReactor("create", "pods", func(ktesting.Action) (bool, kruntime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "suanli-lease-1", errQuota)
	})
	err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1))
	if runtime.CodeOf(err) != "host_quota" || !strings.Contains(err.Error(), "gpu-quota, requested: requests.nvidia.com/gpu=1") {
		t.Fatalf("%v (%s)", err, runtime.CodeOf(err))
	}
}

type quotaError struct{}

func (quotaError) Error() string {
	return "exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=4"
}

var errQuota = quotaError{}

func TestAPodThatFindsNoRoomIsRefusedWithWhatTheSchedulerSays(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	be(t, api, "lease-1", corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: "0/2 nodes are available: 2 Insufficient nvidia.com/gpu."}}})
	err := d.Start(t.Context(), "lease-1")
	if runtime.CodeOf(err) != "host_full" || !strings.Contains(err.Error(), "Insufficient nvidia.com/gpu") {
		t.Fatalf("%v", err)
	}
}

func TestGPUsOfTwoNodesAreNotOneLeases(t *testing.T) {
	t.Parallel()
	d, _ := world(t)
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 7, 2)); runtime.CodeOf(err) != "gpu_missing" || !strings.Contains(err.Error(), "n1 and n2") {
		t.Fatalf("%v", err)
	}
	gone := container()
	gone.GPUUUIDs = []string{"GPU-4b385300-none"}
	if err := d.Create(t.Context(), gone); runtime.CodeOf(err) != "gpu_missing" {
		t.Fatalf("%v", err)
	}
}

func TestAnotherHostsPodIsLeftAlone(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	other := config(func(c *Config) { c.HostID = "host-2" }).podFor(container(), place{}, nil)
	if _, err := api.CoreV1().Pods("leases").Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Erase(t.Context(), "lease-7"); err == nil {
		t.Fatal("it was erased")
	}
	if err := d.Stop(t.Context(), "lease-7", 0); err == nil {
		t.Fatal("it was stopped")
	}
	if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
		t.Fatalf("it is listed: %v, %v", list, err)
	}
	if err := d.Sweep(t.Context(), func(string) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if _, err := api.CoreV1().Pods("leases").Get(t.Context(), other.Name, metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestErasingLeavesNothing(t *testing.T) {
	t.Parallel()
	d, api := world(t, func(c *Config) { c.StorageClass = "fast" })
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	if err := d.Remove(t.Context(), "lease-1"); err != nil {
		t.Fatal(err)
	}
	if claims, _ := api.CoreV1().PersistentVolumeClaims("leases").List(t.Context(), metav1.ListOptions{}); len(claims.Items) != 1 {
		t.Fatalf("the disk does not outlive the pod: %d", len(claims.Items))
	}
	if err := d.Erase(t.Context(), "lease-1"); err != nil {
		t.Fatal(err)
	}
	pods, _ := api.CoreV1().Pods("leases").List(t.Context(), metav1.ListOptions{})
	secrets, _ := api.CoreV1().Secrets("leases").List(t.Context(), metav1.ListOptions{})
	policies, _ := api.NetworkingV1().NetworkPolicies("leases").List(t.Context(), metav1.ListOptions{})
	claims, _ := api.CoreV1().PersistentVolumeClaims("leases").List(t.Context(), metav1.ListOptions{})
	if n := len(pods.Items) + len(secrets.Items) + len(claims.Items); n != 0 || len(policies.Items) != 1 {
		t.Fatalf("%d objects and %d policies are left", n, len(policies.Items))
	}
}

func TestWhatACrashLeftIsSwept(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	for _, id := range []string{"lease-1", "lease-2"} {
		if err := d.Create(t.Context(), lease(t, d, id, 0, 1)); err != nil {
			t.Fatal(err)
		}
		if err := api.CoreV1().Pods("leases").Delete(t.Context(), podName(id), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Sweep(t.Context(), func(id string) bool { return id == "lease-2" }); err != nil {
		t.Fatal(err)
	}
	secrets, _ := api.CoreV1().Secrets("leases").List(t.Context(), metav1.ListOptions{})
	if len(secrets.Items) != 1 || secrets.Items[0].Labels[labelLease] != "lease-2" {
		t.Fatalf("left: %v", secrets.Items)
	}
}

func TestASilentNodeEndsALeaseAtItsLastSignOfLife(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	be(t, api, "lease-1", runs())
	last := time.Now().Add(-10 * time.Minute)
	silent := func(since time.Duration) {
		n := node("n1", 8, nil)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(last), LastTransitionTime: metav1.NewTime(time.Now().Add(-since))}}
		if _, err := api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	silent(time.Minute)
	if _, err := d.Inspect(t.Context(), "lease-1"); err == nil {
		t.Fatal("a node that is silent for a minute is taken for one that runs the lease")
	}
	silent(lostAfter + time.Minute)
	s, err := d.Inspect(t.Context(), "lease-1")
	if err != nil || s.Running || s.Code != "engine" || s.FinishedAt.Sub(last).Abs() > time.Second {
		t.Fatalf("%+v, %v", s, err)
	}
}

func TestAClusterIsOneHost(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	info, err := d.Info(t.Context())
	if err != nil || info.Machine == nil || info.Machine.CPUs != 128 || info.Machine.MemoryMiB != 1<<20 || info.Problem != "" {
		t.Fatalf("%+v (%+v), %v", info, info.Machine, err)
	}
	ns, _ := api.CoreV1().Namespaces().Get(t.Context(), "leases", metav1.GetOptions{})
	ns.Labels = nil
	if _, err := api.CoreV1().Namespaces().Update(t.Context(), ns, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if info, err = d.Info(t.Context()); err != nil || !strings.Contains(info.Problem, "pod-security.kubernetes.io/enforce") {
		t.Fatalf("a namespace that holds nobody to anything: %q, %v", info.Problem, err)
	}
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "leases"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"requests." + GPUResource: resource.MustParse("3")}}}
	if _, err := api.CoreV1().ResourceQuotas("leases").Create(t.Context(), quota, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	gpus, err := d.GPUs().List(t.Context())
	if err != nil || len(gpus) != 16 || healthy(gpus) != 3 {
		t.Fatalf("a quota of 3 offers %d of %d, %v", healthy(gpus), len(gpus), err)
	}
}

func TestAnOpenedNetworkIsClosedAgain(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	policies := api.NetworkingV1().NetworkPolicies("leases")
	p, err := policies.Get(t.Context(), denyName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p.Spec.Ingress = config(func(c *Config) { c.AgentNamespace = "x" }).policyFor("l", nil, nil).Spec.Ingress
	if _, err := policies.Update(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	s, _ := api.DiscoveryV1().EndpointSlices("default").Get(t.Context(), "kubernetes", metav1.GetOptions{})
	s.Endpoints[0].Addresses = []string{"198.51.100.4"}
	if _, err := api.DiscoveryV1().EndpointSlices("default").Update(t.Context(), s, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p, err = policies.Get(t.Context(), denyName, metav1.GetOptions{}); err != nil || len(p.Spec.Ingress) != 0 {
		t.Fatalf("still open: %+v, %v", p.Spec, err)
	}
	if p, err = policies.Get(t.Context(), policyName("lease-1"), metav1.GetOptions{}); err != nil || allows(p, "198.51.100.4") || !allows(p, "203.0.113.9") {
		t.Fatalf("an API server that moved is open: %+v, %v", p.Spec.Egress, err)
	}
}

func TestWatchTellsOfEveryChangeOfALeasesPod(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	seen := map[string]int{}
	done := make(chan error, 1)
	go func() {
		done <- d.Watch(ctx, func(id string) { mu.Lock(); seen[id]++; mu.Unlock() })
	}()
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	count := func() int { mu.Lock(); defer mu.Unlock(); return seen["lease-1"] }
	eventually(t, func() bool { return count() > 0 })
	before := count()
	be(t, api, "lease-1", runs())
	eventually(t, func() bool { return count() > before })
	cancel()
	if err := <-done; err == nil {
		t.Fatal("a watch that ended has no reason")
	}
}

func TestUseAndTrafficComeFromTheKubelet(t *testing.T) {
	t.Parallel()
	kubelet := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/stats/summary" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(`{"pods":[{"podRef":{"name":"suanli-lease-1","namespace":"leases","uid":"u1"},
			"cpu":{"usageCoreNanoSeconds":5000000000},"memory":{"workingSetBytes":1048576},
			"network":{"name":"eth0","rxBytes":7,"txBytes":9,"interfaces":[{"name":"eth0","rxBytes":7,"txBytes":9}]},
			"volume":[{"name":"disk","usedBytes":2097152}],"ephemeral-storage":{"usedBytes":3145728}}]}`))
	}))
	t.Cleanup(kubelet.Close)
	d, api := world(t)
	d.http = kubelet.Client()
	if err := d.Create(t.Context(), lease(t, d, "lease-1", 0, 1)); err != nil {
		t.Fatal(err)
	}
	be(t, api, "lease-1", runs())
	pod, _ := api.CoreV1().Pods("leases").Get(t.Context(), "suanli-lease-1", metav1.GetOptions{})
	pod.UID = "u1"
	if _, err := api.CoreV1().Pods("leases").Update(t.Context(), pod, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	traffic, err := d.Traffic(t.Context())
	if err != nil || len(traffic) != 0 {
		t.Fatalf("a node that does not say where its kubelet is: %v, %v", traffic, err)
	}
	if info, _ := d.Info(t.Context()); !strings.Contains(info.Problem, "traffic is not charged") {
		t.Fatalf("nobody is told: %q", info.Problem)
	}
	host, port, _ := strings.Cut(strings.TrimPrefix(kubelet.URL, "https://"), ":")
	n := node("n1", 8, nil)
	number, _ := strconv.Atoi(port)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: host}}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	if _, err := api.CoreV1().Nodes().Update(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	d.summaries = map[string]summary{}
	if traffic, err = d.Traffic(t.Context()); err != nil || traffic["lease-1"] != (runtime.Traffic{Out: 9, In: 7}) {
		t.Fatalf("%v, %v", traffic, err)
	}
	stats, err := d.Stats(t.Context(), "lease-1")
	if err != nil || stats != (runtime.Stats{CPU: 5 * time.Second, MemoryBytes: 1 << 20, DiskBytes: 2 << 20}) {
		t.Fatalf("%+v, %v", stats, err)
	}
}

func TestWhatAClusterCannotGiveIsRefusedBeforeAnythingIsMade(t *testing.T) {
	t.Parallel()
	d, api := world(t)
	ports, open := lease(t, d, "lease-1", 0, 1), lease(t, d, "lease-1", 0, 1)
	ports.DirectPorts, open.OpenPrivate = map[int]int{80: 8080}, true
	missing := lease(t, d, "lease-1", 0, 1)
	missing.Volumes = []protocol.VolumeMount{{VolumeID: "vol-1", Path: "/data"}}
	for name, c := range map[string]struct {
		spec runtime.Container
		code string
	}{"direct ports": {ports, "engine"}, "private ranges": {open, "engine"}, "a volume that is gone": {missing, "volume_missing"}} {
		if err := d.Create(t.Context(), c.spec); runtime.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := d.MakeVolume(t.Context(), "vol-1", 1024); runtime.CodeOf(err) != "engine" {
		t.Errorf("a volume without a storage class: %v", err)
	}
	if _, err := d.Pull(t.Context(), runtime.PullRequest{Reference: "cloud://app:1"}); runtime.CodeOf(err) != "image_not_found" {
		t.Errorf("an image that nodes cannot reach: %v", err)
	}
	if pods, _ := api.CoreV1().Pods("leases").List(t.Context(), metav1.ListOptions{}); len(pods.Items) != 0 {
		t.Errorf("%d pods were made", len(pods.Items))
	}
}
