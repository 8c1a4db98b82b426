package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"suanli.dev/internal/agent/runtime"
)

// summary is the part of a kubelet's figures that is read.
// https://kubernetes.io/docs/reference/instrumentation/node-metrics/
type summary struct {
	Pods []podStats `json:"pods"`
	at   time.Time
	err  error
}

type podStats struct {
	PodRef struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		UID       string `json:"uid"`
	} `json:"podRef"`
	CPU struct {
		UsageCoreNanoSeconds int64 `json:"usageCoreNanoSeconds"`
	} `json:"cpu"`
	Memory struct {
		WorkingSetBytes int64 `json:"workingSetBytes"`
	} `json:"memory"`
	Network struct {
		RxBytes    int64 `json:"rxBytes"`
		TxBytes    int64 `json:"txBytes"`
		Interfaces []struct {
			Name    string `json:"name"`
			RxBytes int64  `json:"rxBytes"`
			TxBytes int64  `json:"txBytes"`
		} `json:"interfaces"`
	} `json:"network"`
	EphemeralStorage struct {
		UsedBytes int64 `json:"usedBytes"`
	} `json:"ephemeral-storage"`
	Volumes []struct {
		Name      string `json:"name"`
		UsedBytes int64  `json:"usedBytes"`
	} `json:"volume"`
}

// figuresFor is how long a node's figures are used before it is asked again.
const figuresFor = 4 * time.Second

// maxSummary bounds what is read of a kubelet's answer.
const maxSummary = 32 << 20

// figures asks a node's kubelet, by its own address: through the API server that would
// take a permission by which everything on the node can be reached.
func (d *Driver) figures(ctx context.Context, n *corev1.Node) summary {
	d.mu.Lock()
	s, ok := d.summaries[n.Name]
	d.mu.Unlock()
	if ok && time.Since(s.at) < figuresFor {
		return s
	}
	s = summary{}
	s.err = d.fetchFigures(ctx, n, &s)
	s.at = time.Now()
	d.mu.Lock()
	d.summaries[n.Name] = s
	d.mu.Unlock()
	return s
}

func (d *Driver) fetchFigures(ctx context.Context, n *corev1.Node, s *summary) error {
	if d.http == nil {
		return fmt.Errorf("node %s: no client of kubelets", n.Name)
	}
	address := ""
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP && address == "" {
			address = a.Address
		}
	}
	port := int(n.Status.DaemonEndpoints.KubeletEndpoint.Port)
	if address == "" || port == 0 {
		return fmt.Errorf("node %s does not say where its kubelet listens", n.Name)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+net.JoinHostPort(address, strconv.Itoa(port))+"/stats/summary", nil)
	if err != nil {
		return err
	}
	resp, err := d.http.Do(req)
	if err != nil {
		return fmt.Errorf("ask the kubelet of node %s for use: %w", n.Name, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the kubelet of node %s answered %s; the agent needs to get nodes/stats", n.Name, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxSummary)).Decode(s)
}

// of finds a pod's figures.
func (s *summary) of(pod *corev1.Pod) (podStats, bool) {
	for _, p := range s.Pods {
		if p.PodRef.UID == string(pod.UID) {
			return p, true
		}
	}
	return podStats{}, false
}

// Stats implements runtime.Driver.
func (d *Driver) Stats(ctx context.Context, lease string) (runtime.Stats, error) {
	pod, err := d.pod(ctx, lease)
	if err != nil {
		return runtime.Stats{}, err
	}
	if pod == nil || !stateOf(pod).Running {
		return runtime.Stats{}, runtime.ErrNotRunning
	}
	d.ask(ctx, lease)
	n, err := d.api.CoreV1().Nodes().Get(ctx, pod.Spec.NodeName, metav1.GetOptions{})
	if err != nil {
		return runtime.Stats{}, fmt.Errorf("look at the node of lease %s: %w", lease, err)
	}
	s := d.figures(ctx, n)
	p, ok := s.of(pod)
	if !ok {
		return runtime.Stats{}, nil // nothing is known, and the lease runs all the same
	}
	disk := p.EphemeralStorage.UsedBytes
	for _, v := range p.Volumes {
		if v.Name == "disk" {
			disk = v.UsedBytes
		}
	}
	return runtime.Stats{CPU: time.Duration(p.CPU.UsageCoreNanoSeconds), MemoryBytes: p.Memory.WorkingSetBytes, DiskBytes: disk}, nil
}

// Traffic implements runtime.Driver. What a node does not tell is not in the answer,
// and the host says so.
func (d *Driver) Traffic(ctx context.Context) (map[string]runtime.Traffic, error) {
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	all := map[string]runtime.Traffic{}
	if len(pods) == 0 {
		d.note("figures", "")
		return all, nil
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	problem := ""
	for i := range nodes {
		var here []*corev1.Pod
		for k := range pods {
			if pods[k].Spec.NodeName == nodes[i].Name {
				here = append(here, &pods[k])
			}
		}
		if len(here) == 0 {
			continue
		}
		s := d.figures(ctx, &nodes[i])
		if s.err != nil {
			problem = "use and traffic of leases cannot be read, and traffic is not charged: " + s.err.Error()
			continue
		}
		for _, pod := range here {
			if p, ok := s.of(pod); ok {
				t := runtime.Traffic{Out: p.Network.TxBytes, In: p.Network.RxBytes}
				if t == (runtime.Traffic{}) {
					for _, face := range p.Network.Interfaces {
						t.Out, t.In = t.Out+face.TxBytes, t.In+face.RxBytes
					}
				}
				all[pod.Labels[labelLease]] = t
			}
		}
	}
	d.note("figures", problem)
	return all, nil
}
