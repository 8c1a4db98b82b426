package agent

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"suanli.dev/internal/agent/runtime"
	"suanli.dev/internal/protocol"
)

// deviceVariables select GPUs for a vendor's runtime hook. Images set them
// ("all" is common), and renters may; neither has a say in what a lease gets.
var deviceVariables = []string{"NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_CONFIG_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "NVIDIA_IMEX_CHANNELS", "AMD_VISIBLE_DEVICES", "DOCKER_RESOURCE_GPU"}

// bareShells end at once without a terminal; as an image's default they mean
// "nothing to run".
var bareShells = map[string]bool{"bash": true, "/bin/bash": true, "/usr/bin/bash": true, "sh": true, "/bin/sh": true, "zsh": true, "/bin/zsh": true}

// settings resolves what the instance's init is to do.
func settings(lease string, generation int64, spec protocol.InstanceSpec, image runtime.Image, attach runtime.Attachment, key string, gateways []string) protocol.InstanceSettings {
	env := map[string]string{}
	for _, kv := range image.Env {
		if k, v, ok := strings.Cut(kv, "="); ok {
			env[k] = v
		}
	}
	maps.Copy(env, spec.Environment)
	for _, k := range deviceVariables {
		delete(env, k)
	}
	maps.Copy(env, attach.Env)
	env["SUANLI_LEASE_ID"] = lease
	return protocol.InstanceSettings{
		LeaseID: lease, Generation: generation, Command: command(spec, image), StartScript: spec.StartScript,
		Environment: env, WorkingDir: image.WorkingDir, User: image.User, SSHKeys: spec.SSHKeys, GatewayKeys: gateways,
		HostKey: key, Simulated: spec.Simulated, Activity: spec.Activity,
		NoticeSignal: spec.NoticeSignal, NoticeCommand: spec.NoticeCommand, Cluster: spec.Cluster,
	}
}

// command follows the engines' rule: a new entrypoint drops the image's command.
func command(spec protocol.InstanceSpec, image runtime.Image) []string {
	entry, args := image.Entrypoint, image.Command
	own := len(spec.Entrypoint) > 0 || len(spec.Command) > 0
	if len(spec.Entrypoint) > 0 {
		entry, args = spec.Entrypoint, nil
	}
	if len(spec.Command) > 0 {
		args = spec.Command
	}
	all := append(append([]string{}, entry...), args...)
	if !own && len(all) == 1 && bareShells[all[0]] {
		return nil
	}
	return all
}

// hostKey returns the SSH host key of the lease's instances, made once, so that
// a renter's known_hosts stays true over stop and start.
func hostKey(dir string) (string, error) {
	path := filepath.Join(dir, "host_key")
	b, err := os.ReadFile(path)
	if err == nil {
		return string(b), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return "", err
	}
	b = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return string(b), writeFile(path, b)
}
