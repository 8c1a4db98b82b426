package agent

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"suanli.dev/internal/protocol"
)

// What renters give their instances to know (tokens in the environment, in a
// script, on a command line) is on the host's disk only sealed. The key is in
// memory: in a file on tmpfs, so that an agent that is started again can go on. A
// host that is started anew has lost it, on purpose: a disk that is taken out or
// sent back tells nothing. Instances do not survive that either, and the control
// plane sends with each command what they need.

// keyFolders are where a file is in memory on usual machines, best first.
var keyFolders = []string{"/run", "/dev/shm"}

const keyBytes = 32

// vault seals secrets for the state folder.
type vault struct{ aead cipher.AEAD }

// openVault returns the vault of a state folder. Where no folder is in memory, the
// key lives as long as the process.
func openVault(dir string, folders []string) (*vault, error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails since Go 1.24
	for _, folder := range folders {
		var st unix.Statfs_t
		if unix.Statfs(folder, &st) != nil || int64(st.Type) != unix.TMPFS_MAGIC && int64(st.Type) != unix.RAMFS_MAGIC {
			continue
		}
		kept, err := keepKey(filepath.Join(folder, keyName(dir)), key)
		if err == nil {
			key = kept
			break
		}
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	return &vault{aead}, nil
}

// keyName tells the keys of several agents on one host apart.
func keyName(dir string) string {
	sum := sha256.Sum256([]byte(dir))
	return "suanli-" + hex.EncodeToString(sum[:8]) + ".key"
}

// keepKey returns the key in a file, which it makes of fresh if there is none. The
// folder may be everybody's: a file of somebody else, or a link, is not taken.
func keepKey(path string, fresh []byte) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG || int(st.Uid) != os.Geteuid() || st.Mode&0o077 != 0 || st.Nlink != 1 {
		return nil, errors.New("the key's file is not the agent's own")
	}
	key, err := io.ReadAll(io.LimitReader(f, keyBytes+1))
	if err != nil {
		return nil, err
	}
	if len(key) == keyBytes {
		return key, nil
	}
	if err := f.Truncate(0); err != nil {
		return nil, err
	}
	_, err = f.WriteAt(fresh, 0)
	return fresh, err
}

// secrets are the parts of an instance's description that may hold any.
type secrets struct {
	Entrypoint  []string          `json:"entrypoint,omitempty"`
	Command     []string          `json:"command,omitempty"`
	StartScript string            `json:"start_script,omitempty"`
	Environment map[string]string `json:"environment,omitempty"`
}

// seal returns a record as it may be written to disk.
func (v *vault) seal(r record) (record, error) {
	if r.Spec == nil || r.Lost {
		return r, nil
	}
	spec := *r.Spec
	b, err := json.Marshal(secrets{spec.Entrypoint, spec.Command, spec.StartScript, spec.Environment})
	if err != nil {
		return r, err
	}
	r.Sealed = v.aead.Seal(nil, nil, b, []byte(r.LeaseID))
	spec.Entrypoint, spec.Command, spec.StartScript, spec.Environment = nil, nil, "", nil
	r.Spec = &spec
	return r, nil
}

// open gives a record that was read its secrets back, or notes that they are lost.
func (v *vault) open(r *record) {
	sealed := r.Sealed
	r.Sealed = nil
	if r.Spec == nil || sealed == nil {
		return // none, or written by an agent that did not seal
	}
	var s secrets
	b, err := v.aead.Open(nil, nil, sealed, []byte(r.LeaseID))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		r.Lost = true
		return
	}
	r.Spec.Entrypoint, r.Spec.Command, r.Spec.StartScript, r.Spec.Environment = s.Entrypoint, s.Command, s.StartScript, s.Environment
}

// complete reports whether an instance can be made from the record.
func (r *record) complete() bool { return r.Spec != nil && !r.Lost }

// takeSpec keeps what a command says of the instance, if that is news.
func (r *record) takeSpec(s *protocol.InstanceSpec, newer bool) {
	if s != nil && (newer || !r.complete()) {
		r.Spec, r.Lost = s, false
	}
}
