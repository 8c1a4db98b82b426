package kubernetes

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

func config(change ...func(*Config)) *Config {
	c := &Config{HostID: "host-1", Namespace: "leases", Image: "registry.test/suanli:1", Binary: "/suanli", OwnBinary: "/usr/bin/suanli", Security: Restricted, DNS: []string{"9.9.9.9"}, StopGrace: 10 * time.Second}
	for _, f := range change {
		f(c)
	}
	return c
}

func container() runtime.Container {
	return runtime.Container{
		LeaseID: "lease-7", Generation: 3, Image: runtime.Image{ID: "registry.test/app@sha256:00"},
		Settings:  protocol.InstanceSettings{LeaseID: "lease-7", Generation: 3, HostKey: "private", Environment: map[string]string{"A": "b"}},
		GPUUUIDs:  []string{"GPU-4b385300-1", "GPU-4b385300-2"},
		CPUMillis: 4000, MemoryMiB: 8192, DiskMiB: 20480, ShmMiB: 64,
	}
}

func TestAPodHasNoPrivileges(t *testing.T) {
	t.Parallel()
	for _, security := range []string{Restricted, Baseline} {
		pod := config(func(c *Config) { c.Security = security }).podFor(container(), place{node: "n1", gpus: 2}, nil)
		spec := pod.Spec
		if spec.HostNetwork || spec.HostPID || spec.HostIPC || spec.AutomountServiceAccountToken == nil || *spec.AutomountServiceAccountToken || *spec.EnableServiceLinks {
			t.Fatalf("%s: the pod shares its node's namespaces or knows the cluster: %+v", security, spec)
		}
		if spec.SecurityContext.SeccompProfile == nil || spec.SecurityContext.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Fatalf("%s: no seccomp profile", security)
		}
		for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
			s := c.SecurityContext
			if s == nil || *s.Privileged || *s.AllowPrivilegeEscalation || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Fatalf("%s: container %s: %+v", security, c.Name, s)
			}
			if security == Restricted && len(s.Capabilities.Add) > 0 {
				t.Fatalf("capabilities are given back: %v", s.Capabilities.Add)
			}
			for _, bad := range []corev1.Capability{"NET_RAW", "NET_ADMIN", "SYS_ADMIN", "SYS_PTRACE", "MKNOD"} {
				if slices.Contains(s.Capabilities.Add, bad) {
					t.Fatalf("%s gives %s", security, bad)
				}
			}
			for _, p := range c.Ports {
				if p.HostPort != 0 {
					t.Fatal("a port of the node is taken")
				}
			}
		}
		for _, v := range spec.Volumes {
			if v.HostPath != nil {
				t.Fatalf("%s is a folder of the node", v.Name)
			}
		}
		if security == Restricted && (spec.SecurityContext.RunAsNonRoot == nil || !*spec.SecurityContext.RunAsNonRoot) {
			t.Fatal("a restricted pod may be root")
		}
	}
}

func TestLimitsAreRequestsAndBoundAllThatAPodTakes(t *testing.T) {
	t.Parallel()
	pod := config().podFor(container(), place{node: "n1", gpus: 2}, nil)
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			limit, request := c.Resources.Limits[r], c.Resources.Requests[r]
			if limit.IsZero() || !limit.Equal(request) {
				t.Fatalf("%s of %s: limit %s, request %s", r, c.Name, limit.String(), request.String())
			}
		}
	}
	main := pod.Spec.Containers[0]
	gpus, disk := main.Resources.Limits[GPUResource], main.Resources.Limits[corev1.ResourceEphemeralStorage]
	if gpus.Value() != 2 || disk.Value()>>20 != 20480+ownMiB {
		t.Fatalf("GPUs %s, disk %s", gpus.String(), disk.String())
	}
	if _, asked := pod.Spec.InitContainers[0].Resources.Limits[GPUResource]; asked {
		t.Fatal("the container that brings the first process asks for GPUs")
	}
	for _, v := range pod.Spec.Volumes {
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit == nil {
			t.Fatalf("the volume %s has no limit", v.Name)
		}
	}
}

func TestAPodWaitsBehindItsGateForItsNode(t *testing.T) {
	t.Parallel()
	pod := config(func(c *Config) { c.Nodes = map[string]string{"rent": "yes"} }).podFor(container(), place{node: "n1", gpus: 2}, nil)
	if len(pod.Spec.SchedulingGates) != 1 || pod.Spec.SchedulingGates[0].Name != startGate {
		t.Fatalf("gates %v", pod.Spec.SchedulingGates)
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || terms[0].MatchFields[0].Values[0] != "n1" || pod.Spec.NodeSelector["rent"] != "yes" {
		t.Fatalf("it may go elsewhere: %v, %v", terms, pod.Spec.NodeSelector)
	}
	if s := stateOf(pod); s.LeaseID != "lease-7" || s.Generation != 3 || s.DiskMiB != 20480 || !slices.Equal(s.GPUs, container().GPUUUIDs) || !s.NeverRan || s.Running {
		t.Fatalf("its labels say %+v", s)
	}
}

func TestASecretTellsARestrictedInstanceThatItIsNotRoot(t *testing.T) {
	t.Parallel()
	spec := container()
	spec.Settings.User = "root"
	secret, err := config().secretFor(spec, map[string][]byte{"file-0": []byte("x")})
	if err != nil {
		t.Fatal(err)
	}
	var told protocol.InstanceSettings
	if err := json.Unmarshal(secret.Data["instance.json"], &told); err != nil {
		t.Fatal(err)
	}
	if told.User != "1000:1000" || told.Environment["HOME"] != DiskPath || told.Environment["A"] != "b" || told.HostKey != "private" {
		t.Fatalf("told %+v", told)
	}
	if spec.Settings.Environment["HOME"] != "" {
		t.Fatal("the caller's settings were changed")
	}
	if secret, err = config(func(c *Config) { c.Security = Baseline }).secretFor(spec, nil); err != nil || !strings.Contains(string(secret.Data["instance.json"]), `"user":"root"`) {
		t.Fatalf("root inside is told %s, %v", secret.Data["instance.json"], err)
	}
	spec.Settings.StartScript = strings.Repeat("x", corev1.MaxSecretSize)
	if _, err := config().secretFor(spec, nil); runtime.CodeOf(err) != "engine" {
		t.Fatalf("settings that no secret holds: %v", err)
	}
}

func TestFilesOfSimulatedGPUsComeFromTheSecretAndTheImage(t *testing.T) {
	t.Parallel()
	spec := container()
	spec.GPUs.Mounts = []runtime.Mount{{Source: "/usr/bin/suanli", Target: "/usr/bin/nvidia-smi"}, {Source: "/var/lib/gpus.json", Target: protocol.InstanceGPUs}}
	spec.GPUs.Env = map[string]string{"SUANLI_SIMULATED_GPU": "1"}
	pod := config().podFor(spec, place{}, map[string]string{protocol.InstanceGPUs: "file-0"})
	from := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		from[m.MountPath] = m.Name + "/" + m.SubPath
	}
	for path, want := range map[string]string{"/usr/bin/nvidia-smi": "tools/suanli", protocol.InstanceBinary: "tools/suanli", protocol.InstanceGPUs: "settings/file-0", protocol.InstanceConfig: "settings/instance.json", DiskPath: "disk/", protocol.InstanceRunDir: "run/"} {
		if from[path] != want {
			t.Errorf("%s is %q, want %q", path, from[path], want)
		}
	}
	limits := pod.Spec.Containers[0].Resources.Limits
	if _, asked := limits[GPUResource]; asked {
		t.Error("devices are asked for where GPUs are simulated")
	}
	env := map[string]string{}
	for _, e := range pod.Spec.Containers[0].Env {
		env[e.Name] = e.Value
	}
	if env["NVIDIA_VISIBLE_DEVICES"] != "void" || env["SUANLI_SIMULATED_GPU"] != "1" {
		t.Errorf("environment %v", env)
	}
}

func TestADiskIsAVolumeWhereThereIsAStorageClass(t *testing.T) {
	t.Parallel()
	spec := container()
	spec.Volumes = []protocol.VolumeMount{{VolumeID: "vol-1", Path: "/data", ReadOnly: true}}
	c := config(func(c *Config) { c.StorageClass = "fast" })
	pod := c.podFor(spec, place{node: "n1", gpus: 2}, nil)
	claims := map[string]string{}
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			claims[v.Name] = v.PersistentVolumeClaim.ClaimName
		}
	}
	if !maps.Equal(claims, map[string]string{"disk": "suanli-disk-lease-7", "volume-0": "suanli-volume-vol-1"}) {
		t.Fatalf("claims %v", claims)
	}
	disk := c.claimFor("d", nil, 1024)
	if size := disk.Spec.Resources.Requests[corev1.ResourceStorage]; size.Value() != 1<<30 || *disk.Spec.StorageClassName != "fast" {
		t.Fatalf("a claim of %s in %s", size.String(), *disk.Spec.StorageClassName)
	}
}

func TestAQueueHoldsClustersTogether(t *testing.T) {
	t.Parallel()
	spec := container()
	c := config(func(c *Config) { c.Queue = "rent" })
	if pod := c.podFor(spec, place{}, nil); pod.Labels[kueueQueue] != "rent" || pod.Labels[kueueGroup] != "" {
		t.Fatalf("alone: %v", pod.Labels)
	}
	spec.Settings.Cluster = &protocol.Cluster{ID: "cluster-1", Nodes: make([]protocol.ClusterNode, 4)}
	pod := c.podFor(spec, place{}, nil)
	if pod.Labels[kueueGroup] != "cluster-1" || pod.Annotations[kueueTotal] != "4" {
		t.Fatalf("in a cluster: %v %v", pod.Labels, pod.Annotations)
	}
	pod.Spec.SchedulingGates = append(pod.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: kueueGate})
	if !queued(pod) {
		t.Fatal("a pod that waits in the queue counts as one without room")
	}
}

// blocked reports whether a policy lets its pods reach an address.
func allows(p *networkingv1.NetworkPolicy, address string) bool {
	a := netip.MustParseAddr(address)
	for _, rule := range p.Spec.Egress {
		if len(rule.To) == 0 {
			return true
		}
		for _, to := range rule.To {
			if to.IPBlock == nil {
				return true
			}
			in := netip.MustParsePrefix(to.IPBlock.CIDR).Contains(a)
			for _, except := range to.IPBlock.Except {
				in = in && !netip.MustParsePrefix(except).Contains(a)
			}
			if in {
				return true
			}
		}
	}
	return false
}

func TestALeaseReachesThePublicInternetAndNothingElse(t *testing.T) {
	t.Parallel()
	own := []netip.Addr{netip.MustParseAddr("203.0.113.7"), netip.MustParseAddr("10.0.0.4"), netip.MustParseAddr("2600:1f00::7")}
	p := config().policyFor("lease-7", nil, own)
	for address, want := range map[string]bool{
		"8.8.8.8": true, "203.0.113.8": true, "2600:1f00::8": true,
		"10.96.0.1": false, "172.20.0.10": false, "192.168.1.1": false, "169.254.169.254": false, "100.100.100.200": false, "127.0.0.1": false,
		"203.0.113.7": false, "2600:1f00::7": false, "fd00:ec2::254": false, "fe80::1": false, "2002:a9fe:a9fe::": false,
	} {
		if got := allows(p, address); got != want {
			t.Errorf("%s: reached %t, want %t", address, got, want)
		}
	}
	if len(p.Spec.Ingress) != 0 || !slices.Equal(p.Spec.PolicyTypes, bothWays) {
		t.Errorf("somebody may come in: %+v", p.Spec.Ingress)
	}
	// An exception has to lie within its block, or the API server refuses the policy.
	for _, to := range p.Spec.Egress[0].To {
		block := netip.MustParsePrefix(to.IPBlock.CIDR)
		for _, e := range to.IPBlock.Except {
			if x := netip.MustParsePrefix(e); !block.Contains(x.Addr()) || x.Bits() <= block.Bits() {
				t.Errorf("%s is not within %s", e, block)
			}
		}
	}
	if p := config(func(c *Config) { c.AgentNamespace = "suanli" }).policyFor("lease-7", nil, own); len(p.Spec.Ingress) != 1 || len(p.Spec.Ingress[0].From) != 1 || p.Spec.Ingress[0].From[0].NamespaceSelector == nil || p.Spec.Ingress[0].From[0].PodSelector == nil {
		t.Errorf("who comes in besides the agent: %+v", p.Spec.Ingress)
	}
}

func TestPortsOfATrialAreAllThatItReachesButNames(t *testing.T) {
	t.Parallel()
	p := config().policyFor("lease-7", []int{80, 443}, nil)
	if got := portsOf(p); !slices.Equal(got, []int{80, 443}) {
		t.Fatalf("ports %v", got)
	}
	if len(p.Spec.Egress) != 2 || len(p.Spec.Egress[1].To) != 1 || p.Spec.Egress[1].To[0].IPBlock.CIDR != "9.9.9.9/32" {
		t.Fatalf("names: %+v", p.Spec.Egress)
	}
}

func TestWhatNoPolicyOpensIsClosed(t *testing.T) {
	t.Parallel()
	p := config().denyFor()
	if len(p.Spec.PodSelector.MatchLabels) != 0 || len(p.Spec.Ingress) != 0 || len(p.Spec.Egress) != 0 || !slices.Equal(p.Spec.PolicyTypes, bothWays) {
		t.Fatalf("%+v", p.Spec)
	}
}

func node(name string, gpus int64, labels map[string]string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), Labels: map[string]string{
		labelProduct: "NVIDIA-H100-80GB-HBM3", labelCount: "8", labelMemory: "81559",
		"nvidia.com/cuda.driver.major": "550", "nvidia.com/cuda.driver.minor": "54", "nvidia.com/cuda.driver.rev": "15",
		"nvidia.com/cuda.runtime.major": "12", "nvidia.com/cuda.runtime.minor": "4",
		"nvidia.com/gpu.compute.major": "9", "nvidia.com/gpu.compute.minor": "0",
	}}}
	maps.Copy(n.Labels, labels)
	n.Status.Allocatable = corev1.ResourceList{
		GPUResource: *resource.NewQuantity(gpus, resource.DecimalSI), corev1.ResourceCPU: resource.MustParse("64"),
		corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourceEphemeralStorage: resource.MustParse("1Ti"), corev1.ResourcePods: resource.MustParse("110"),
	}
	n.Status.Capacity = n.Status.Allocatable.DeepCopy()
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func healthy(gpus []protocol.GPU) int {
	n := 0
	for _, g := range gpus {
		if g.Health.State == protocol.Healthy {
			n++
		}
	}
	return n
}

func TestLabelsOfANodeSayWhatItsGPUsAre(t *testing.T) {
	t.Parallel()
	gpus, problem := nodeGPUs(node("n1", 8, nil), 2, nil)
	if problem != "" || len(gpus) != 8 || healthy(gpus) != 8 {
		t.Fatalf("%d GPUs, %q", len(gpus), problem)
	}
	g := gpus[3]
	if g.Name != "NVIDIA H100 80GB HBM3" || g.VRAMMiB != 81559 || g.Driver != "550.54.15" || g.MaxCUDA != "12.4" || g.ComputeCapability != "9.0" || g.Machine != "n1" || g.NUMANode != 2 || g.Simulated || !strings.HasPrefix(g.UUID, UUIDPrefix) {
		t.Fatalf("%+v", g)
	}
	again, _ := nodeGPUs(node("n1", 8, nil), 0, nil)
	other, _ := nodeGPUs(node("n2", 8, nil), 0, nil)
	if again[3].UUID != g.UUID || other[3].UUID == g.UUID {
		t.Fatal("identifiers are not a node's own")
	}
}

func TestMadeUpGPUsOfANodeAreCalledSimulated(t *testing.T) {
	t.Parallel()
	for _, label := range simulatedLabels {
		gpus, _ := nodeGPUs(node("n1", 1, map[string]string{label: "true"}), 0, nil)
		if len(gpus) != 1 || !gpus[0].Simulated || !strings.HasPrefix(gpus[0].UUID, "GPU-51300000-") || !strings.HasPrefix(gpus[0].Name, "SIMULATED H100") {
			t.Fatalf("%s: %+v", label, gpus)
		}
	}
}

func TestSharedAndSlicedGPUsAreNotRentedAsWholeOnes(t *testing.T) {
	t.Parallel()
	for name, labels := range map[string]map[string]string{
		"time slicing": {labelReplicas: "4"}, "a shared product": {labelProduct: "Tesla-T4-SHARED"}, "MPS": {labelSharing: "mps"},
		"MIG": {labelMIG: "single", labelProduct: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}, "no discovery": {labelProduct: ""},
	} {
		if gpus, problem := nodeGPUs(node("n1", 8, labels), 0, nil); len(gpus) != 0 || problem == "" {
			t.Errorf("%s: %d GPUs, %q", name, len(gpus), problem)
		}
	}
}

func TestWhatIsLostOrCordonedIsTakenFromFreeGPUsFirst(t *testing.T) {
	t.Parallel()
	all, _ := nodeGPUs(node("n1", 8, nil), 0, nil)
	taken := map[string]bool{all[7].UUID: true, all[6].UUID: true}
	lost := node("n1", 6, nil)
	lost.Status.Capacity[GPUResource] = resource.MustParse("8")
	gpus, _ := nodeGPUs(lost, 0, taken)
	if healthy(gpus) != 6 || gpus[7].Health.State != protocol.Healthy || gpus[6].Health.State != protocol.Healthy {
		t.Fatalf("of 8 with 2 lost: %+v", gpus)
	}
	cordoned := node("n1", 8, nil)
	cordoned.Spec.Unschedulable = true
	if gpus, _ = nodeGPUs(cordoned, 0, taken); healthy(gpus) != 2 {
		t.Fatalf("a cordoned node offers %d, and leases have 2", healthy(gpus))
	}
	silent := node("n1", 8, nil)
	silent.Status.Conditions[0].Status = corev1.ConditionUnknown
	if gpus, _ = nodeGPUs(silent, 0, taken); healthy(gpus) != 0 {
		t.Fatalf("a silent node offers %d", healthy(gpus))
	}
	gpus, _ = nodeGPUs(node("n1", 8, nil), 0, taken)
	if withinQuota(gpus, taken, 3); healthy(gpus) != 3 || gpus[7].Health.State != protocol.Healthy {
		t.Fatalf("a quota of 3 with 2 taken offers %d", healthy(gpus))
	}
}

func TestTheEndOfAPodSaysWhoEndedIt(t *testing.T) {
	t.Parallel()
	ran := corev1.ContainerStatus{Name: mainContainer, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, StartedAt: metav1.Now(), FinishedAt: metav1.Now(), ContainerID: "x"}}}
	oom := *ran.DeepCopy()
	oom.State.Terminated.Reason = "OOMKilled"
	for name, c := range map[string]struct {
		status corev1.PodStatus
		code   string
		oom    bool
	}{
		"its command":  {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ran}}, "", false},
		"memory":       {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{oom}}, "", true},
		"disk":         {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. ", ContainerStatuses: []corev1.ContainerStatus{ran}}, "disk_full", false},
		"folder":       {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: `Usage of EmptyDir volume "disk" exceeds the limit "64Mi". `, ContainerStatuses: []corev1.ContainerStatus{ran}}, "disk_full", false},
		"pressure":     {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on resource: memory.", ContainerStatuses: []corev1.ContainerStatus{ran}}, "engine", false},
		"preemption":   {corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{ran}, Conditions: []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "PreemptionByScheduler", Message: "preempting to accommodate a higher priority pod"}}}, "engine", false},
		"our own stop": {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", ContainerStatuses: []corev1.ContainerStatus{ran}}, "", false},
	} {
		s := stateOf(&corev1.Pod{Status: c.status})
		if s.Running || s.NeverRan || s.Code != c.code || s.OOMKilled != c.oom || c.code != "" && s.Reason == "" {
			t.Errorf("%s: %+v", name, s)
		}
	}
	never := stateOf(&corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on disk"}})
	if !never.NeverRan || never.Code != "engine" {
		t.Errorf("evicted before it ran: %+v", never)
	}
}
