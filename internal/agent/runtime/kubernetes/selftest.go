package kubernetes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"suanli.dev/internal/agent/probe"
	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// testPort is where the neighbour of the self-test listens.
const testPort = 8080

// SelfTest runs two pods as two renters' would be, and lets the first try what a renter
// must not reach. Whether network policies are enforced at all depends on the cluster's
// network, and nothing but trying tells.
func (d *Driver) SelfTest(ctx context.Context) []protocol.Check {
	var checks []protocol.Check
	check := func(name string, passed bool, format string, args ...any) {
		checks = append(checks, protocol.Check{Name: name, Passed: passed, Detail: fmt.Sprintf(format, args...)})
	}
	if _, err := d.Info(ctx); err != nil {
		check("engine", false, "%v", err)
		return checks
	}
	refused, err := d.refusesPrivileges(ctx)
	if err != nil {
		check("pod_security", false, "%v", err)
	} else {
		check("pod_security", refused, "a pod with privileges in the namespace %s: refused %t", d.cfg.Namespace, refused)
	}
	if err := d.tryPods(ctx, check); err != nil {
		check("engine", false, "%v", err)
	}
	return checks
}

// refusesPrivileges asks whether the cluster would take a pod that no lease may have.
func (d *Driver) refusesPrivileges(ctx context.Context) (bool, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: d.testID("p"), Namespace: d.cfg.Namespace}, Spec: corev1.PodSpec{
		HostNetwork: true, HostPID: true,
		Containers: []corev1.Container{{Name: mainContainer, Image: d.cfg.Image, SecurityContext: &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"SYS_ADMIN"}}}}},
	}}
	_, err := d.api.CoreV1().Pods(d.cfg.Namespace).Create(ctx, pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return false, nil
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "PodSecurity"):
		return true, nil
	}
	return false, fmt.Errorf("ask whether a privileged pod would be taken: %w", err)
}

func (d *Driver) testID(which string) string {
	sum := sha256.Sum256([]byte(d.cfg.HostID))
	return fmt.Sprintf("self-test-%x-%s", sum[:5], which)
}

func (d *Driver) tryPods(ctx context.Context, check func(name string, passed bool, format string, args ...any)) error {
	mine, neighbour := d.testID("a"), d.testID("b")
	erase := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		var errs []error
		for _, id := range []string{mine, neighbour} {
			errs = append(errs, d.Stop(ctx, id, 0), d.Erase(ctx, id))
		}
		return errors.Join(errs...)
	}
	if err := erase(); err != nil { // of an earlier test that was killed
		return err
	}
	defer func() {
		if err := erase(); err != nil {
			check("cleanup", false, "the self-test's pods could not be removed: %v", err)
		}
	}()
	if err := d.testPod(ctx, neighbour, "look", "--", "listen", strconv.Itoa(testPort), "170"); err != nil {
		return err
	}
	pod, err := d.pod(ctx, neighbour)
	if err != nil || pod == nil {
		return errors.Join(err, errors.New("the self-test's pod is gone"))
	}
	c, err := d.waitDial(ctx, neighbour)
	if err != nil {
		return fmt.Errorf("the agent itself cannot reach a pod: %w", err)
	}
	_ = c.Close()
	targets, err := d.targets(ctx, pod)
	if err != nil {
		return err
	}
	args := []string{"look", "--", "reach"}
	for _, t := range targets {
		args = append(args, t.addresses...)
	}
	if err := d.testPod(ctx, mine, args...); err != nil {
		return err
	}
	if err := d.waitEnd(ctx, mine); err != nil {
		return err
	}
	check("engine", true, "a pod started and ended")
	var out bytes.Buffer
	if err := d.Logs(ctx, mine, protocol.LogOptions{}, &out); err != nil {
		return err
	}
	found := map[string]probe.Result{}
	for line := range strings.Lines(out.String()) {
		var r probe.Result
		if json.Unmarshal([]byte(line), &r) == nil && r.Probe != "" {
			found[r.Probe] = r
		}
	}
	reached, ok := found["reach"]
	for _, t := range targets {
		var open []string
		for _, a := range t.addresses {
			if slices.Contains(reached.Open, a) {
				open = append(open, a)
			}
		}
		hint := ""
		if len(open) > 0 {
			hint = "; the cluster's network does not enforce network policies: install one that does, such as Calico or Cilium"
		}
		check(t.name, ok && len(open) == 0, "tried %s; reached: %s%s", strings.Join(t.addresses, ", "), firstOf(strings.Join(open, ", "), "none"), hint)
	}
	look := found["look"].Values
	check("privileges", look["NoNewPrivs"] == "1" && (look["Seccomp"] == "2" || d.cfg.Isolation != ""), "no_new_privs %s, seccomp %s, capabilities %s", look["NoNewPrivs"], look["Seccomp"], look["CapBnd"])
	return nil
}

// target is something that a renter must not reach.
type target struct {
	name      string
	addresses []string
}

func (d *Driver) targets(ctx context.Context, neighbour *corev1.Pod) ([]target, error) {
	t := []target{
		{"neighbour_direct", []string{net.JoinHostPort(neighbour.Status.PodIP, strconv.Itoa(testPort))}},
		{"metadata_address", []string{"169.254.169.254:80", "100.100.100.200:80"}},
	}
	api, err := d.api.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	server := target{name: "api_server"}
	if err == nil && api.Spec.ClusterIP != "" && api.Spec.ClusterIP != corev1.ClusterIPNone {
		server.addresses = append(server.addresses, net.JoinHostPort(api.Spec.ClusterIP, "443"))
	} else if err != nil && !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("look up the API server's address: %w", err)
	}
	slicesOf, err := d.api.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{LabelSelector: "kubernetes.io/service-name=kubernetes"})
	if err != nil {
		return nil, fmt.Errorf("look up the API server's addresses: %w", err)
	}
	for _, s := range slicesOf.Items {
		for _, e := range s.Endpoints {
			for _, p := range s.Ports {
				if len(e.Addresses) > 0 && p.Port != nil {
					server.addresses = append(server.addresses, net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(*p.Port))))
				}
			}
		}
	}
	if len(server.addresses) > 0 {
		t = append(t, server)
	}
	nodes, err := d.nodes(ctx)
	if err != nil {
		return nil, err
	}
	kubelets := target{name: "host_address"}
	for _, n := range nodes[:min(len(nodes), 8)] {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				kubelets.addresses = append(kubelets.addresses, net.JoinHostPort(a.Address, strconv.Itoa(int(n.Status.DaemonEndpoints.KubeletEndpoint.Port))))
			}
		}
	}
	if len(kubelets.addresses) > 0 {
		t = append(t, kubelets)
	}
	return t, nil
}

func (d *Driver) testPod(ctx context.Context, id string, args ...string) error {
	err := d.Create(ctx, runtime.Container{
		LeaseID: id, Generation: 1, Image: runtime.Image{ID: d.cfg.Image},
		Entrypoint: append([]string{protocol.InstanceBinary, "instance", "probe"}, args...),
		Settings:   protocol.InstanceSettings{LeaseID: id, Generation: 1},
		CPUMillis:  200, MemoryMiB: 128, DiskMiB: 64, ShmMiB: 8,
	})
	if err != nil {
		return err
	}
	return d.Start(ctx, id)
}

func (d *Driver) waitDial(ctx context.Context, id string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	for {
		c, err := d.Dial(ctx, id, testPort)
		if err == nil {
			return c, nil
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return nil, err
		}
	}
}

func (d *Driver) waitEnd(ctx context.Context, id string) error {
	for {
		s, err := d.Inspect(ctx, id)
		if err != nil || !s.Running {
			return err
		}
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return fmt.Errorf("the self-test's pod did not end in time: %w", ctx.Err())
		}
	}
}
