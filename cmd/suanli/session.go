package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"golang.org/x/crypto/ssh"

	"suanli.dev/api"
)

// signIn is what `suanli login` keeps for later commands.
type signIn struct {
	Server string `json:"server"`
	Token  string `json:"token"`
}

// clientDir is the folder of the sign-in and of the client's SSH key.
func clientDir() (string, error) {
	if d := os.Getenv("SUANLI_CLIENT_DIR"); d != "" {
		return d, nil
	}
	base, err := os.UserConfigDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(base, "suanli"), nil
}

func readSignIn() (signIn, error) {
	var s signIn
	dir, err := clientDir()
	if err != nil {
		return s, err
	}
	b, err := os.ReadFile(filepath.Join(dir, "login.json"))
	if errors.Is(err, os.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(b, &s)
}

func writeSignIn(s signIn) error {
	dir, err := clientDir()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	// Under another name first: another command may be reading it.
	f, err := os.CreateTemp(dir, "login-*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), filepath.Join(dir, "login.json"))
}

// whereTo is the cloud that flags, environment or the sign-in name, in that order.
func whereTo(cmd *cobra.Command) (signIn, error) {
	s, err := readSignIn()
	if err != nil {
		return s, fmt.Errorf("read the sign-in: %w", err)
	}
	if v := os.Getenv("SUANLI_SERVER"); v != "" {
		s.Server = v
	}
	if v := os.Getenv("SUANLI_TOKEN"); v != "" {
		s.Token = v
	}
	if v, _ := cmd.Flags().GetString("server"); v != "" {
		s.Server = v
	}
	if v, _ := cmd.Flags().GetString("token"); v != "" {
		s.Token = v
	}
	if s.Server == "" {
		return s, signedOut{tr("not signed in: run suanli login <URL>, or give --server and --token")}
	}
	return s, nil
}

// checkServer refuses what is no address of a cloud before anything is asked for.
func checkServer(address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return usageError{errors.New(tr("%q is no address of a cloud; want one like https://cloud.example.com or http://127.0.0.1:7080", address))}
	}
	return nil
}

// client returns an API client for that cloud.
func client(cmd *cobra.Command) (*api.Client, error) {
	s, err := whereTo(cmd)
	if err != nil {
		return nil, err
	}
	return api.New(s.Server, s.Token), nil
}

// sshKey returns the client's own SSH key, made at first use.
func sshKey() (ssh.Signer, string, error) {
	dir, err := clientDir()
	if err != nil {
		return nil, "", err
	}
	path := filepath.Join(dir, "id_ed25519")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, "", err
		}
		block, err := ssh.MarshalPrivateKey(key, "suanli")
		if err != nil {
			return nil, "", err
		}
		b = pem.EncodeToMemory(block)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, "", err
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			return nil, "", err
		}
	} else if err != nil {
		return nil, "", err
	}
	signer, err := ssh.ParsePrivateKey(b)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return signer, string(ssh.MarshalAuthorizedKey(signer.PublicKey())), nil
}
