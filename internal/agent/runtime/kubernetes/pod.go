package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// The labels that make a lease's objects findable after a restart, and keep one
// host's apart from another's in the same cluster.
const (
	labelHost       = "suanli.dev/host"
	labelLease      = "suanli.dev/lease"
	labelGeneration = "suanli.dev/generation"
	labelVolume     = "suanli.dev/volume"
	labelManager    = "app.kubernetes.io/managed-by"
	manager         = "suanli"

	annotationGPUs = "suanli.dev/gpus"     // identifiers, separated by commas
	annotationDisk = "suanli.dev/disk-mib" // of the lease
)

// The labels and annotations by which Kueue admits pods, alone and in groups.
// https://kueue.sigs.k8s.io/docs/tasks/run/plain_pods/
const (
	kueueQueue = "kueue.x-k8s.io/queue-name"
	kueueGroup = "kueue.x-k8s.io/pod-group-name"
	kueueTotal = "kueue.x-k8s.io/pod-group-total-count"
	kueueGate  = "kueue.x-k8s.io/admission"
)

// startGate keeps a pod that was made from being scheduled until its lease starts, so
// that a crash between the two leaves nothing that runs unasked.
const startGate = "suanli.dev/start"

// The levels of Kubernetes' Pod Security Standards that the namespace of leases can
// have. https://kubernetes.io/docs/concepts/security/pod-security-standards/
const (
	// Restricted: an instance is one user without privileges, and no root.
	Restricted = "restricted"
	// Baseline: an instance is root inside, with what package managers need and no more.
	Baseline = "baseline"
)

// addedCapabilities is what Baseline gives back after all are dropped; it is what that
// standard allows of what instances get on other hosts.
var addedCapabilities = []corev1.Capability{"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}

const (
	mainContainer = "instance"
	toolContainer = "tools"

	// GPUResource is what NVIDIA's device plugin calls its GPUs.
	GPUResource = "nvidia.com/gpu"

	// DiskPath is where the lease's disk is in an instance. The rest of its files is
	// the pod's and ends with it.
	DiskPath = "/workspace"

	// renter is the user and group of an instance that is not root.
	renter = 1000

	// ownMiB is what an instance takes of its node's disk beside the lease's disk: this
	// binary, the run folder and what the instance printed.
	ownMiB = 512
	// rootMiB bounds what an instance writes outside of a disk that is a volume.
	rootMiB = 16 << 10

	// defaultRuntime stands for the runtime that the cluster's nodes use unasked.
	defaultRuntime = "default"
)

// place is where a pod goes.
type place struct {
	node  string // the node of its GPUs; empty: any that offers rent
	gpus  int    // devices that it gets; none where GPUs are simulated
	model string // product label of that node, for what is said to people
}

func podName(lease string) string    { return "suanli-" + lease }
func diskName(lease string) string   { return "suanli-disk-" + lease }
func volumeName(id string) string    { return "suanli-volume-" + id }
func policyName(lease string) string { return "suanli-" + lease }

func (c *Config) labels(lease string) map[string]string {
	return map[string]string{labelManager: manager, labelHost: c.HostID, labelLease: lease}
}

// secretFor holds what an instance is told, and the small files that it is given.
func (c *Config) secretFor(spec runtime.Container, files map[string][]byte) (*corev1.Secret, error) {
	told := spec.Settings
	if c.Security == Restricted {
		// The image's user may be root, which the instance cannot be.
		told.User = fmt.Sprintf("%d:%d", renter, renter)
		told.Environment = maps.Clone(told.Environment)
		if told.Environment == nil {
			told.Environment = map[string]string{}
		}
		if told.Environment["HOME"] == "" || told.Environment["HOME"] == "/root" {
			told.Environment["HOME"] = DiskPath
		}
		if told.WorkingDir == "" {
			told.WorkingDir = DiskPath
		}
	}
	settings, err := json.Marshal(told)
	if err != nil {
		return nil, err
	}
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: podName(spec.LeaseID), Namespace: c.Namespace, Labels: c.labels(spec.LeaseID)},
		Data:       map[string][]byte{"instance.json": settings},
	}
	for name, b := range files {
		s.Data[name] = b
	}
	size := 0
	for _, b := range s.Data {
		size += len(b)
	}
	if size > corev1.MaxSecretSize {
		return nil, &runtime.Error{Code: "engine", Reason: fmt.Sprintf("the lease's start script, keys and environment take %d bytes together, and a Kubernetes cluster keeps %d of a lease; fetch the script from somewhere instead", size, corev1.MaxSecretSize)}
	}
	return s, nil
}

// podFor builds the pod of a lease. files are the names of the secret's files, by
// where they are in the instance.
func (c *Config) podFor(spec runtime.Container, at place, files map[string]string) *corev1.Pod {
	no, grace := false, c.graceSeconds()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(spec.LeaseID), Namespace: c.Namespace, Labels: c.labels(spec.LeaseID), Annotations: map[string]string{
			annotationGPUs: strings.Join(spec.GPUUUIDs, ","),
			annotationDisk: strconv.FormatInt(spec.DiskMiB, 10),
		}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: &grace,
			AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
			SecurityContext: c.podSecurity(), SchedulingGates: []corev1.PodSchedulingGate{{Name: startGate}},
			NodeSelector: c.nodeSelector(), Hostname: spec.LeaseID[:min(len(spec.LeaseID), 63)],
			// The cluster's own name service would tell renters what runs beside them.
			DNSPolicy: corev1.DNSNone, DNSConfig: &corev1.PodDNSConfig{Nameservers: c.DNS},
		},
	}
	pod.Labels[labelGeneration] = strconv.FormatInt(spec.Generation, 10)
	if spec.Isolation != "" && spec.Isolation != defaultRuntime {
		pod.Spec.RuntimeClassName = &spec.Isolation
	}
	c.queue(pod, spec.Settings.Cluster)
	if at.node != "" {
		pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{at.node}}}}},
		}}}
	}
	if at.gpus > 0 {
		pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: GPUResource, Operator: corev1.TolerationOpExists})
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: "suanli.dev/rent", Operator: corev1.TolerationOpExists})

	limits := corev1.ResourceList{
		corev1.ResourceCPU:              *resource.NewMilliQuantity(max(spec.CPUMillis, 1), resource.DecimalSI),
		corev1.ResourceMemory:           mebibytes(max(spec.MemoryMiB, 16)),
		corev1.ResourceEphemeralStorage: mebibytes(c.ephemeralMiB(spec.DiskMiB)),
	}
	tools := limits.DeepCopy()
	if at.gpus > 0 {
		limits[GPUResource] = *resource.NewQuantity(int64(at.gpus), resource.DecimalSI)
	}
	entry := spec.Entrypoint
	if entry == nil {
		entry = []string{protocol.InstanceBinary, "instance", "init"}
	}
	pod.Spec.InitContainers = []corev1.Container{{
		Name: toolContainer, Image: c.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command:         []string{c.Binary, "instance", "install", "/tools/suanli"},
		Resources:       corev1.ResourceRequirements{Limits: tools, Requests: tools},
		SecurityContext: c.containerSecurity(),
		VolumeMounts:    []corev1.VolumeMount{{Name: "tools", MountPath: "/tools"}},
	}}
	main := corev1.Container{
		Name: mainContainer, Image: spec.Image.ID, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: entry, Resources: corev1.ResourceRequirements{Limits: limits, Requests: limits},
		SecurityContext: c.containerSecurity(), Env: environment(spec, at.gpus > 0),
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
	c.mount(pod, &main, spec, files)
	pod.Spec.Containers = []corev1.Container{main}
	return pod
}

// nodeSelector is which nodes leases may run on. Images are looked up for the agent's
// own architecture.
func (c *Config) nodeSelector() map[string]string {
	s := map[string]string{corev1.LabelArchStable: goruntime.GOARCH, corev1.LabelOSStable: "linux"}
	maps.Copy(s, c.Nodes)
	return s
}

// environment is what the container itself has; what the renter's programs see is in
// the settings.
func environment(spec runtime.Container, devices bool) []corev1.EnvVar {
	env := maps.Clone(spec.GPUs.Env)
	if env == nil {
		env = map[string]string{}
	}
	if !devices {
		// The image's own variable must not ask the node's hook for GPUs. With GPUs it
		// is the device plugin that sets it, and a value here would win over that.
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	var list []corev1.EnvVar
	for _, k := range slices.Sorted(maps.Keys(env)) {
		list = append(list, corev1.EnvVar{Name: k, Value: env[k]})
	}
	return list
}

func (c *Config) podSecurity() *corev1.PodSecurityContext {
	s := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	id, root, yes := int64(renter), int64(0), true
	if c.Security == Restricted {
		s.RunAsNonRoot, s.RunAsUser, s.RunAsGroup, s.FSGroup = &yes, &id, &id, &id
		// Most files of a large disk have the right group already.
		once := corev1.FSGroupChangeOnRootMismatch
		s.FSGroupChangePolicy = &once
	} else {
		s.RunAsUser, s.RunAsGroup = &root, &root
	}
	return s
}

func (c *Config) containerSecurity() *corev1.SecurityContext {
	no := false
	s := &corev1.SecurityContext{AllowPrivilegeEscalation: &no, Privileged: &no, Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}
	if c.Security == Baseline {
		s.Capabilities.Add = addedCapabilities
	}
	return s
}

// queue puts a pod into Kueue's queue, and the pods of a cluster there as one.
func (c *Config) queue(pod *corev1.Pod, cluster *protocol.Cluster) {
	if c.Queue == "" {
		return
	}
	pod.Labels[kueueQueue] = c.Queue
	if cluster != nil && len(cluster.Nodes) > 1 {
		pod.Labels[kueueGroup] = cluster.ID
		pod.Annotations[kueueTotal] = strconv.Itoa(len(cluster.Nodes))
	}
}

// mount gives the pod its volumes and the container its mounts.
func (c *Config) mount(pod *corev1.Pod, main *corev1.Container, spec runtime.Container, files map[string]string) {
	add := func(name string, source corev1.VolumeSource, mounts ...corev1.VolumeMount) {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		for _, m := range mounts {
			m.Name = name
			main.VolumeMounts = append(main.VolumeMounts, m)
		}
	}
	empty := func(sizeMiB int64, medium corev1.StorageMedium) corev1.VolumeSource {
		size := mebibytes(sizeMiB)
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: medium, SizeLimit: &size}}
	}
	binaries := []corev1.VolumeMount{{MountPath: protocol.InstanceBinary, SubPath: "suanli", ReadOnly: true}}
	for _, m := range spec.GPUs.Mounts {
		if m.Source == c.OwnBinary {
			binaries = append(binaries, corev1.VolumeMount{MountPath: m.Target, SubPath: "suanli", ReadOnly: true})
		}
	}
	add("tools", empty(ownMiB/2, corev1.StorageMediumDefault), binaries...)
	// The settings hold the instance's private key; the other files are for all users.
	own, all := int32(0o400), int32(0o444)
	source := &corev1.SecretVolumeSource{SecretName: podName(spec.LeaseID), DefaultMode: &all, Items: []corev1.KeyToPath{{Key: "instance.json", Path: "instance.json", Mode: &own}}}
	settings := []corev1.VolumeMount{{MountPath: protocol.InstanceConfig, SubPath: "instance.json", ReadOnly: true}}
	for _, target := range slices.Sorted(maps.Keys(files)) {
		source.Items = append(source.Items, corev1.KeyToPath{Key: files[target], Path: files[target]})
		settings = append(settings, corev1.VolumeMount{MountPath: target, SubPath: files[target], ReadOnly: true})
	}
	add("settings", corev1.VolumeSource{Secret: source}, settings...)
	add("run", empty(16, corev1.StorageMediumMemory), corev1.VolumeMount{MountPath: protocol.InstanceRunDir})
	add("shm", empty(max(spec.ShmMiB, 1), corev1.StorageMediumMemory), corev1.VolumeMount{MountPath: "/dev/shm"})
	disk := empty(spec.DiskMiB, corev1.StorageMediumDefault)
	if c.StorageClass != "" {
		disk = claim(diskName(spec.LeaseID), false)
	}
	add("disk", disk, corev1.VolumeMount{MountPath: DiskPath})
	for i, v := range spec.Volumes {
		add("volume-"+strconv.Itoa(i), claim(volumeName(v.VolumeID), v.ReadOnly), corev1.VolumeMount{MountPath: v.Path, ReadOnly: v.ReadOnly})
	}
}

func claim(name string, readOnly bool) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name, ReadOnly: readOnly}}
}

// claimFor asks the storage class for a disk.
func (c *Config) claimFor(name string, labels map[string]string, sizeMiB int64) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.Namespace, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: &c.StorageClass,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: mebibytes(sizeMiB)}},
		},
	}
}

// ephemeralMiB is what a pod may take of its node's disk.
func (c *Config) ephemeralMiB(diskMiB int64) int64 {
	if c.StorageClass != "" {
		return min(diskMiB, rootMiB) + ownMiB
	}
	return diskMiB + ownMiB
}

func mebibytes(n int64) resource.Quantity { return *resource.NewQuantity(n<<20, resource.BinarySI) }

// stateOf reads a pod as an instance.
func stateOf(pod *corev1.Pod) runtime.State {
	s := runtime.State{LeaseID: pod.Labels[labelLease], Exists: true, NeverRan: true}
	s.Generation, _ = strconv.ParseInt(pod.Labels[labelGeneration], 10, 64)
	s.DiskMiB, _ = strconv.ParseInt(pod.Annotations[annotationDisk], 10, 64)
	if g := pod.Annotations[annotationGPUs]; g != "" {
		s.GPUs = strings.Split(g, ",")
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.Name != mainContainer {
			continue
		}
		switch {
		case c.State.Running != nil:
			s.Running, s.NeverRan = true, false
			s.StartedAt = c.State.Running.StartedAt.Time
		case c.State.Terminated != nil:
			t := c.State.Terminated
			s.NeverRan = t.StartedAt.IsZero() && t.ContainerID == ""
			s.ExitCode, s.OOMKilled, s.Error = int(t.ExitCode), t.Reason == "OOMKilled", t.Message
			s.StartedAt, s.FinishedAt = t.StartedAt.Time, t.FinishedAt.Time
		}
	}
	if over(pod) {
		if s.Running { // the pod is over, and what its containers did is not known any more
			s.Running = false
		}
		s.Code, s.Reason = endOf(pod)
	}
	return s
}

func over(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
}

// endOf says why the cluster ended a pod; "" if it did not.
func endOf(pod *corev1.Pod) (code, reason string) {
	status := pod.Status
	why := strings.TrimSuffix(strings.TrimSpace(status.Message), ".")
	switch status.Reason {
	case "Evicted":
		if strings.Contains(why, "ephemeral local storage") && strings.Contains(why, "exceeds") || strings.Contains(why, "EmptyDir volume") && strings.Contains(why, "exceeds") {
			return "disk_full", "the instance wrote more than its disk holds, and its node ended it: " + why
		}
		return "engine", "the node evicted the instance: " + why
	case "DeadlineExceeded", "":
	default: // NodeLost, NodeShutdown, Terminated, UnexpectedAdmissionError, OutOfnvidia.com/gpu, Preempting
		return "engine", fmt.Sprintf("the cluster ended the instance (%s): %s", status.Reason, why)
	}
	for _, c := range status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			return "engine", fmt.Sprintf("the cluster ended the instance (%s): %s", c.Reason, strings.TrimSuffix(strings.TrimSpace(c.Message), "."))
		}
	}
	return "", ""
}
