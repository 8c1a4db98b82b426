package kubernetes

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

const chartPath = "../../../../deploy/helm/suanli-agent"

var chartValues = []string{"--kube-version", "1.37.2", "--set", "cloud=cloud.test:7081", "--set", "image.repository=registry.test/suanli"}

// render returns what the chart makes of values.
func render(t *testing.T, values ...string) []kruntime.Object {
	t.Helper()
	args := append([]string{"template", "suanli", chartPath, "--namespace", "suanli-system"}, slices.Concat(chartValues, values)...)
	out, err := exec.Command(program(t, "helm"), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("helm template: %v\n%s", err, out)
	}
	var all []kruntime.Object
	for _, text := range strings.Split(string(out), "\n---\n") {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode([]byte(text), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		all = append(all, o)
	}
	return all
}

func TestTheChartIsWhatHelmTakes(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(program(t, "helm"), append([]string{"lint", "--strict", chartPath}, chartValues...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for what, value := range map[string]string{"a cloud without a port": "cloud=cloud.test", "an unknown level": "leases.security=privileged", "a value that is not there": "leases.nmespace=x"} {
		args := append([]string{"template", "suanli", chartPath}, chartValues...)
		if out, err := exec.Command(program(t, "helm"), append(args, "--set", value)...).CombinedOutput(); err == nil {
			t.Errorf("%s was taken:\n%s", what, out)
		}
	}
}

func TestTheChartGivesTheAgentNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	for _, o := range render(t) {
		var rules []rbacv1.PolicyRule
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			rules = o.Rules
			for _, r := range rules {
				for _, v := range r.Verbs {
					if v != "get" && v != "list" {
						t.Errorf("%s %v in the whole cluster", v, r.Resources)
					}
				}
				if slices.Contains(r.Resources, "secrets") || slices.Contains(r.Resources, "pods") || slices.Contains(r.Resources, "nodes/proxy") {
					t.Errorf("%v in the whole cluster", r.Resources)
				}
			}
		case *rbacv1.Role:
			rules = o.Rules
			if o.Namespace != "suanli-leases" && o.Namespace != "default" {
				t.Errorf("a role in %s", o.Namespace)
			}
		case *corev1.Namespace:
			if o.Name != "suanli-leases" || o.Labels["pod-security.kubernetes.io/enforce"] != Restricted {
				t.Errorf("namespace %s with %v", o.Name, o.Labels)
			}
		case *appsv1.StatefulSet:
			pod := o.Spec.Template.Spec
			if *o.Spec.Replicas != 1 || !*pod.SecurityContext.RunAsNonRoot || pod.HostNetwork || !*pod.Containers[0].SecurityContext.ReadOnlyRootFilesystem {
				t.Errorf("the agent itself: %+v", pod)
			}
		}
		for _, r := range rules {
			if slices.Contains(r.Verbs, "*") || slices.Contains(r.Resources, "*") || slices.Contains(r.APIGroups, "*") {
				t.Errorf("everything: %+v", r)
			}
		}
	}
}

func TestValuesOfTheChartBecomeSettings(t *testing.T) {
	t.Parallel()
	env := map[string]string{}
	quota := false
	for _, o := range render(t, "--set", "leases.nodes.rent=yes", "--set", "leases.storageClass=fast", "--set", "leases.queue=q", "--set", "leases.runtimeClass=gvisor", "--set", "simulate=8x4090",
		"--set", "settings.log_format=json", "--set-string", `leases.quota.requests\.nvidia\.com/gpu=16`, "--set", "kubeletCA=ca") {
		switch o := o.(type) {
		case *appsv1.StatefulSet:
			for _, e := range o.Spec.Template.Spec.Containers[0].Env {
				env[e.Name] = e.Value
			}
		case *corev1.ResourceQuota:
			hard := o.Spec.Hard["requests."+GPUResource]
			quota = hard.Value() == 16 && o.Namespace == "suanli-leases"
		}
	}
	for name, want := range map[string]string{
		"SUANLI_RUNTIME": "kubernetes", "SUANLI_KUBERNETES_NODES": "rent=yes", "SUANLI_KUBERNETES_STORAGE_CLASS": "fast", "SUANLI_KUBERNETES_QUEUE": "q", "SUANLI_ISOLATION": "gvisor", "SUANLI_SIMULATE": "8x4090",
		"SUANLI_LOG_FORMAT": "json", "SUANLI_KUBERNETES_IMAGE": "registry.test/suanli:0.1.0", "SUANLI_KUBERNETES_KUBELET_CA": "/kubelet/ca.crt", "SUANLI_KUBERNETES_DNS": "1.1.1.1,8.8.8.8",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if !quota {
		t.Error("there is no quota")
	}
}
