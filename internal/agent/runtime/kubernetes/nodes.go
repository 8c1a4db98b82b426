package kubernetes

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// The labels that NVIDIA's GPU feature discovery writes on a node.
// https://github.com/NVIDIA/k8s-device-plugin/blob/main/docs/gpu-feature-discovery/README.md
const (
	labelProduct  = "nvidia.com/gpu.product"
	labelCount    = "nvidia.com/gpu.count"
	labelMemory   = "nvidia.com/gpu.memory" // MiB
	labelReplicas = "nvidia.com/gpu.replicas"
	labelMIG      = "nvidia.com/mig.strategy"
	labelSharing  = "nvidia.com/gpu.sharing-strategy"
)

// The labels of nodes whose GPUs are made up: ours, and that of the operator that
// fakes GPUs for tests of clusters.
var simulatedLabels = []string{"suanli.dev/simulated", "run.ai/simulated-gpu-node-pool"}

// UUIDPrefix begins the identifiers of a cluster's GPUs: "K8S" in hexadecimal. A
// cluster does not say which devices a pod gets, so that each stands for one of a
// node's devices and for none in particular.
const UUIDPrefix = "GPU-4b385300-"

func tokenOf(node *corev1.Node, i int, simulated bool) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", node.UID, i))
	prefix := UUIDPrefix
	if simulated {
		prefix = gpu.SimulatedUUIDPrefix
	}
	return fmt.Sprintf("%s%x-%x-%x-%x", prefix, sum[0:2], sum[2:4], sum[4:6], sum[6:12])
}

// nodeGPUs are the GPUs of a node, and why some or all of them are not offered. taken
// are the identifiers that pods have, which a device that is lost is not taken from
// while others are free.
func nodeGPUs(n *corev1.Node, position int, taken map[string]bool) ([]protocol.GPU, string) {
	offered := n.Status.Allocatable[GPUResource]
	had := n.Status.Capacity[GPUResource]
	count := int(max(offered.Value(), had.Value()))
	if count <= 0 {
		return nil, ""
	}
	l := n.Labels
	simulated := slices.ContainsFunc(simulatedLabels, func(k string) bool { return l[k] != "" && l[k] != "false" })
	product := l[labelProduct]
	switch {
	case product == "":
		return nil, fmt.Sprintf("node %s offers %d GPUs and has no label %s; install NVIDIA's GPU feature discovery", n.Name, count, labelProduct)
	case number(l[labelReplicas]) > 1 || strings.HasSuffix(product, "-SHARED") || l[labelSharing] != "" && l[labelSharing] != "none":
		return nil, fmt.Sprintf("the GPUs of node %s are shared by the device plugin (%s), and whole ones are rented; turn time slicing and MPS off there", n.Name, firstOf(l[labelSharing], "replicas"))
	case l[labelMIG] == "single" && strings.Contains(product, "-MIG-"):
		return nil, fmt.Sprintf("the GPUs of node %s are cut into MIG slices, and whole ones are rented", n.Name)
	}
	if c := number(l[labelCount]); c > 0 && c < count {
		count = c
	}
	name := strings.ReplaceAll(product, "-", " ")
	if simulated {
		name = "SIMULATED " + strings.TrimPrefix(name, "NVIDIA ") + " (no hardware)"
	}
	var list []protocol.GPU
	for i := range count {
		list = append(list, protocol.GPU{
			UUID: tokenOf(n, i, simulated), Vendor: protocol.NVIDIA, Name: name, VRAMMiB: int64(number(l[labelMemory])), Machine: n.Name,
			Driver:            firstOf(l["nvidia.com/cuda.driver-version.full"], dotted(l, "nvidia.com/cuda.driver.major", "nvidia.com/cuda.driver.minor", "nvidia.com/cuda.driver.rev")),
			MaxCUDA:           dotted(l, "nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor"),
			ComputeCapability: dotted(l, "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"),
			// GPUs of one lease have to be on one node: this is what placement looks at.
			NUMANode: position, Simulated: simulated, Health: protocol.Health{State: protocol.Healthy},
		})
	}
	withdraw := func(g *protocol.GPU, why string) {
		g.Health = protocol.Health{State: protocol.Dirty, Reason: why}
	}
	if why := unready(n); why != "" {
		for i := range list {
			withdraw(&list[i], why)
		}
	} else if n.Spec.Unschedulable {
		for i := range list {
			if !taken[list[i].UUID] {
				withdraw(&list[i], fmt.Sprintf("its node %s is cordoned", n.Name))
			}
		}
	}
	lost := len(list) - int(offered.Value())
	for i := len(list) - 1; i >= 0 && lost > 0; i-- {
		if !taken[list[i].UUID] {
			withdraw(&list[i], fmt.Sprintf("the device plugin of node %s offers %d of %d GPUs", n.Name, offered.Value(), len(list)))
			lost--
		}
	}
	return list, ""
}

// unready says why nothing on a node is known to run; "" if all is well.
func unready(n *corev1.Node) string {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
			return fmt.Sprintf("its node %s is not ready: %s", n.Name, firstOf(c.Message, c.Reason))
		}
	}
	return ""
}

// withinQuota withdraws the free GPUs that the namespace's quota does not allow.
func withinQuota(gpus []protocol.GPU, taken map[string]bool, allowed int64) {
	for i := range gpus {
		if taken[gpus[i].UUID] {
			allowed--
		}
	}
	for i := range gpus {
		if taken[gpus[i].UUID] || gpus[i].Health.State != protocol.Healthy {
			continue
		}
		if allowed--; allowed < 0 {
			gpus[i].Health = protocol.Health{State: protocol.Dirty, Reason: "the resource quota of the namespace of leases does not allow it"}
		}
	}
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}

func dotted(l map[string]string, keys ...string) string {
	var parts []string
	for _, k := range keys {
		if l[k] != "" {
			parts = append(parts, l[k])
		}
	}
	return strings.Join(parts, ".")
}

func firstOf(s ...string) string {
	for _, v := range s {
		if v != "" {
			return v
		}
	}
	return ""
}

// Nodes is the gpu.Source of a cluster's nodes.
type Nodes struct{ d *Driver }

var _ gpu.Source = Nodes{}

// GPUs returns the source of the GPUs of the driver's cluster.
func (d *Driver) GPUs() Nodes { return Nodes{d} }

// List implements gpu.Source.
func (s Nodes) List(ctx context.Context) ([]protocol.GPU, error) {
	nodes, err := s.d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	taken, err := s.d.taken(ctx)
	if err != nil {
		return nil, err
	}
	var all []protocol.GPU
	var problems []string
	for i := range nodes {
		list, problem := nodeGPUs(&nodes[i], i, taken)
		if problem != "" {
			problems = append(problems, problem)
		}
		for _, g := range list {
			g.Index = len(all)
			all = append(all, g)
		}
	}
	s.d.note("gpus", strings.Join(problems, "; "))
	if allowed, limited, err := s.d.quota(ctx); err != nil {
		return nil, err
	} else if limited {
		withinQuota(all, taken, allowed)
	}
	return all, nil
}

// Attach implements gpu.Source: what a pod gets is the device plugin's business.
func (s Nodes) Attach(ctx context.Context, uuids []string) (runtime.Attachment, error) {
	_, err := s.d.placeOf(ctx, uuids)
	return runtime.Attachment{}, err
}

// Inside implements gpu.Source. Which device nodes a pod has is not known.
func (s Nodes) Inside(ctx context.Context, uuids []string) ([]string, error) {
	_, err := s.d.placeOf(ctx, uuids)
	return nil, err
}

// Close implements gpu.Source.
func (s Nodes) Close() error { return nil }

// placeOf finds the node that GPUs are on.
func (d *Driver) placeOf(ctx context.Context, uuids []string) (place, error) {
	var real []string
	for _, u := range uuids {
		if !d.cfg.Simulated {
			real = append(real, u)
		}
	}
	if len(real) == 0 {
		return place{}, nil
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return place{}, err
	}
	at := place{gpus: len(real)}
	var left []string
	for _, u := range real {
		found := ""
		for i := range nodes {
			list, _ := nodeGPUs(&nodes[i], i, nil)
			if slices.ContainsFunc(list, func(g protocol.GPU) bool { return g.UUID == u }) {
				found, at.model = nodes[i].Name, nodes[i].Labels[labelProduct]
			}
		}
		switch {
		case found == "":
			left = append(left, u)
		case at.node == "":
			at.node = found
		case at.node != found:
			return place{}, &runtime.Error{Code: "gpu_missing", Reason: fmt.Sprintf("the GPUs of the lease are on the nodes %s and %s, and a pod is on one; rent as many as one node has", at.node, found)}
		}
	}
	if len(left) > 0 {
		return place{}, &runtime.Error{Code: "gpu_missing", Reason: fmt.Sprintf("the GPU %s is not in this cluster any more: its node is gone", left[0])}
	}
	return at, nil
}
