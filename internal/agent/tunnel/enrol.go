package tunnel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"suanli.dev/internal/bus"
	"suanli.dev/internal/fault"
	"suanli.dev/internal/protocol"
)

// Machine is what a joining machine says of itself.
type Machine struct {
	Name      string
	Build     string
	Simulated bool
	Gateway   bool // a gateway elsewhere, not a host
}

// Enrol trades a join token for an identity. The token ends in the fingerprint
// of the cloud's authority ("secret.fingerprint"), so a machine in the middle
// learns nothing. A refusal is a *fault.Error with the cloud's own words.
func Enrol(ctx context.Context, address, token string, m Machine) (Identity, error) {
	_, fingerprint, ok := strings.Cut(token, ".")
	want, err := hex.DecodeString(fingerprint)
	if !ok || err != nil || len(want) != 16 {
		return Identity{}, fault.New(fault.Invalid, "join_token_invalid",
			"join %s: the token should be a secret, a dot and 32 hexadecimal digits; copy it whole from what suanli host token printed", address)
	}
	public, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return Identity{}, fmt.Errorf("join %s: make a key: %w", address, err)
	}
	request, err := enrolRequest(key, token, m)
	if err != nil {
		return Identity{}, fmt.Errorf("join %s: %w", address, err)
	}
	reply, err := postEnrol(ctx, address, want, request)
	if err != nil {
		return Identity{}, fmt.Errorf("join %s: %w", address, err)
	}
	id := Identity{HostID: reply.HostID, Key: key.Seed(), Certificate: reply.Certificate, Authority: reply.Authority, Address: reply.Tunnel}
	if id.Address == "" {
		id.Address = strings.Join(Addresses(address), ",")
	}
	if err := id.check(public, want); err != nil {
		return Identity{}, fmt.Errorf("join %s: %w", address, err)
	}
	return id, nil
}

func enrolRequest(key ed25519.PrivateKey, token string, m Machine) (protocol.EnrolRequest, error) {
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return protocol.EnrolRequest{}, fmt.Errorf("make a certificate request: %w", err)
	}
	busKey, err := bus.PublicKey(key.Seed())
	if err != nil {
		return protocol.EnrolRequest{}, err
	}
	return protocol.EnrolRequest{
		Token:     token,
		CSR:       string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})),
		BusKey:    busKey,
		Name:      m.Name,
		Version:   protocol.Version,
		Build:     m.Build,
		Simulated: m.Simulated,
		Gateway:   m.Gateway,
	}, nil
}

func postEnrol(ctx context.Context, address string, fingerprint []byte, in protocol.EnrolRequest) (protocol.EnrolReply, error) {
	var out protocol.EnrolReply
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	client := http.Client{
		Timeout: time.Minute,
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialTLSContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				conn, _, err := dialAny(ctx, nil, address, "", pinned(fingerprint))
				return conn, err
			},
		},
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+protocol.ControlName+"/agent/v1/enrol", bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := client.Do(r)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return out, err
	}
	if res.StatusCode/100 != 2 {
		return out, refusal(res.Status, data)
	}
	if err := json.Unmarshal(data, &out); err != nil {
		return out, fmt.Errorf("decode the answer: %w", err)
	}
	return out, nil
}

// refusal turns a problem document into a fault.
func refusal(status string, body []byte) error {
	var p struct {
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return fmt.Errorf("the cloud answered %s; is it the address for agents?", status)
	}
	kind := fault.Forbidden
	if p.Status >= 500 {
		kind = fault.Unavailable
	}
	return fault.New(kind, p.Code, "%s", p.Detail)
}

// pinned believes the authority whose fingerprint is given, which the server
// sends along with its own certificate.
func pinned(fingerprint []byte) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: protocol.ControlName,
		NextProtos: []string{"http/1.1"},
		// The usual verification knows public authorities only; ours follows.
		InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			for _, c := range s.PeerCertificates {
				if sum := sha256.Sum256(c.Raw); bytes.Equal(sum[:16], fingerprint) {
					settings := trusting(c)
					_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{
						Roots: settings.RootCAs, DNSName: protocol.ControlName, CurrentTime: settings.Time(),
					})
					return err
				}
			}
			return errors.New("this is not the cloud that the token is for: its authority has another fingerprint")
		},
	}
}

// check makes sure that the identity is for our key and from the authority we meant.
func (id Identity) check(public ed25519.PublicKey, fingerprint []byte) error {
	authority, err := parseCertificate(id.Authority)
	if err != nil {
		return fmt.Errorf("the authority in the answer: %w", err)
	}
	if sum := sha256.Sum256(authority.Raw); !bytes.Equal(sum[:16], fingerprint) {
		return errors.New("the authority in the answer is not the one that the token is for")
	}
	leaf, err := parseCertificate(id.Certificate)
	if err != nil {
		return fmt.Errorf("the certificate in the answer: %w", err)
	}
	if !public.Equal(leaf.PublicKey) || leaf.Subject.CommonName != id.HostID {
		return errors.New("the certificate in the answer is not for this machine's key and identifier")
	}
	return nil
}
