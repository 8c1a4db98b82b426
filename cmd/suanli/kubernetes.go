package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	// An image with nothing but the binary has no authorities to believe: registries
	// are believed by these, and by the system's own where there are some.
	_ "golang.org/x/crypto/x509roots/fallback"

	"suanli.dev/internal/agent"
	"suanli.dev/internal/agent/gpu"
	"suanli.dev/internal/agent/runtime/kubernetes"
	"suanli.dev/internal/agent/tunnel"
	"suanli.dev/internal/config"
)

// useCluster makes a Kubernetes cluster what an agent runs leases on.
func useCluster(c *agent.Config, cfg *config.Config, dir string) error {
	own, err := os.Executable()
	if err != nil {
		return err
	}
	k := cfg.Kubernetes
	at, inside, err := kubernetes.Connect(cfg.Kubeconfig)
	if err != nil {
		return err
	}
	var dns []string
	for part := range strings.SplitSeq(k.DNS, ",") {
		if part = strings.TrimSpace(part); part != "" {
			dns = append(dns, part)
		}
	}
	d, err := kubernetes.New(kubernetes.Config{
		HostID: c.HostID, Namespace: k.Namespace, Image: k.Image, OwnBinary: own, Security: k.Security, StorageClass: k.StorageClass,
		Nodes: k.Labels(), Queue: k.Queue, Isolation: cfg.Isolation, DNS: dns, AgentNamespace: inside, KubeletCA: k.KubeletCA,
		Simulated: cfg.Simulate != "", InnerRegistries: c.InnerRegistries, Log: c.Log,
	}, at)
	if err != nil {
		return err
	}
	c.Driver, c.GPUs = d, d.GPUs()
	if cfg.Simulate != "" {
		c.GPUs, err = gpu.NewSimulated(cfg.Simulate, c.HostID, filepath.Join(dir, "simulated"), own)
	}
	return err
}

// checkCluster says what an agent of a cluster lacks, before its token is used up.
func checkCluster(cfg *config.Config) error {
	switch {
	case cfg.Runtime != "kubernetes":
	case cfg.Kubernetes.Image == "":
		return usageError{errors.New(tr("give --kubernetes-image: instances in a cluster get their first process from it"))}
	case cfg.DirectPorts != "":
		return usageError{errors.New(tr("a cluster has no direct ports: leave direct_ports empty"))}
	}
	return nil
}

// joinFirst joins a cloud with the token in a file and keeps the identity.
func joinFirst(ctx context.Context, cfg *config.Config, dir, address, tokenFile string) (tunnel.Identity, error) {
	if tokenFile == "" {
		return tunnel.Identity{}, usageError{errors.New(tr("--join needs --token-file; the cloud makes a token with suanli host token"))}
	}
	if cfg.Simulate != "" && !slices.Contains(gpu.Machines(), cfg.Simulate) {
		return tunnel.Identity{}, usageError{errors.New(tr("no machine %q can be simulated; there are: %s", cfg.Simulate, strings.Join(gpu.Machines(), ", ")))}
	}
	token, err := os.ReadFile(tokenFile)
	if err != nil {
		return tunnel.Identity{}, err
	}
	name, _ := os.Hostname()
	if cfg.Runtime == "kubernetes" {
		name = cmp.Or(os.Getenv("SUANLI_HOST_NAME"), name) // a pod's own name says nothing to people
	}
	id, err := tunnel.Enrol(ctx, address, strings.TrimSpace(string(token)), tunnel.Machine{Name: name, Build: version, Simulated: cfg.Simulate != ""})
	if err != nil {
		return id, err
	}
	return id, agent.WriteIdentity(dir, id)
}
