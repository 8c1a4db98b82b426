package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"suanli.dev/internal/agent/tunnel"
)

// ReadIdentity returns who the machine is, from the agent's state folder. It is
// an os.ErrNotExist if the machine has not joined a cloud.
func ReadIdentity(dir string) (tunnel.Identity, error) {
	var id tunnel.Identity
	b, err := os.ReadFile(filepath.Join(dir, "identity.json"))
	if err != nil {
		return id, err
	}
	if err := json.Unmarshal(b, &id); err != nil {
		return id, fmt.Errorf("%s: %w", filepath.Join(dir, "identity.json"), err)
	}
	return id, nil
}

// WriteIdentity keeps who the machine is; only root may read its key.
func WriteIdentity(dir string, id tunnel.Identity) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "identity.json")
	if err := os.WriteFile(path+".new", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
