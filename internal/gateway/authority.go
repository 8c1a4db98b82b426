package gateway

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/crypto/ssh"

	"suanli.dev/internal/protocol"
)

const (
	// gatewayUnit marks the certificate of a remote gateway, which may relay.
	gatewayUnit = "gateway"
	// certificateYears is how long certificates last. A host is turned away by
	// forgetting it, at once, and not by waiting for its certificate to end.
	certificateYears = 20
)

// Authority is the cloud's own certificate authority and the keys of its
// gateways. Its files are in one folder, readable by the cloud's user only:
// whoever has them can pretend to be the cloud.
type Authority struct {
	certificate *x509.Certificate
	key         ed25519.PrivateKey
	server      tls.Certificate
	hostSeed    []byte     // of hostKey
	hostKey     ssh.Signer // of the SSH gateway, as renters see it
	gatewaySeed []byte     // of gatewayKey
	gatewayKey  ssh.Signer // with which the gateway enters instances
	clock       func() time.Time
}

// OpenAuthority reads the authority kept in dir and makes what is missing.
func OpenAuthority(dir string, clock func() time.Time) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	a := &Authority{clock: clock}
	var err error
	if a.key, err = loadKey(filepath.Join(dir, "authority.key")); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	if err := a.loadCertificate(filepath.Join(dir, "authority.crt")); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	if a.hostKey, a.hostSeed, err = loadSigner(filepath.Join(dir, "ssh_host.key")); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	if a.gatewayKey, a.gatewaySeed, err = loadSigner(filepath.Join(dir, "ssh_gateway.key")); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	if a.server, err = a.issueServer(); err != nil {
		return nil, fmt.Errorf("open the authority: %w", err)
	}
	return a, nil
}

// loadKey reads an ed25519 key in PKCS #8 PEM, or makes it.
func loadKey(path string) (ed25519.PrivateKey, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return makeKey(path)
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("%s: no PEM block in it; restore it from a backup", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s: want an ed25519 key, found %T", path, k)
	}
	return key, nil
}

func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return key, writeDurably(path, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// writeDurably writes a file that is there whole or not at all, even after a
// power cut: a half-written key would be found at the next start.
func writeDurably(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.Write(data); err != nil {
		f.Close()
		return err
	}
	if err := f.Sync(); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

func loadSigner(path string) (ssh.Signer, []byte, error) {
	key, err := loadKey(path)
	if err != nil {
		return nil, nil, err
	}
	signer, err := ssh.NewSignerFromKey(key)
	return signer, key.Seed(), err
}

func (a *Authority) loadCertificate(path string) error {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return a.makeCertificate(path)
	}
	if err != nil {
		return err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return fmt.Errorf("%s: no PEM block in it; restore it from a backup", path)
	}
	if a.certificate, err = x509.ParseCertificate(block.Bytes); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if !a.key.Public().(ed25519.PublicKey).Equal(a.certificate.PublicKey) {
		return fmt.Errorf("%s does not belong to the key beside it; restore both from one backup", path)
	}
	return nil
}

func (a *Authority) makeCertificate(path string) error {
	template, err := a.template(pkix.Name{CommonName: "suanli"})
	if err != nil {
		return err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	if a.certificate, err = x509.ParseCertificate(der); err != nil {
		return err
	}
	return writeDurably(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (a *Authority) template(name pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := a.clock()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      name,
		// Hosts' clocks are wrong, some by hours.
		NotBefore: now.AddDate(0, 0, -2),
		NotAfter:  now.AddDate(certificateYears, 0, 0),
	}, nil
}

func (a *Authority) issueServer() (tls.Certificate, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template, err := a.template(pkix.Name{CommonName: protocol.ControlName})
	if err != nil {
		return tls.Certificate{}, err
	}
	template.DNSNames = []string{protocol.ControlName}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		return tls.Certificate{}, err
	}
	// The authority's certificate goes along, so that a joining machine can hold
	// it against the fingerprint in its token.
	return tls.Certificate{Certificate: [][]byte{der, a.certificate.Raw}, PrivateKey: key}, nil
}

// SignHost issues the client certificate of a host from its certificate request
// (PEM, ed25519), whatever name the request has. It returns PEM.
func (a *Authority) SignHost(csr, hostID string) (string, error) {
	return a.sign(csr, pkix.Name{CommonName: hostID})
}

// SignGateway issues the client certificate of a remote gateway, which may open
// streams on every host.
func (a *Authority) SignGateway(csr, name string) (string, error) {
	return a.sign(csr, pkix.Name{CommonName: name, OrganizationalUnit: []string{gatewayUnit}})
}

func (a *Authority) sign(csr string, name pkix.Name) (string, error) {
	block, _ := pem.Decode([]byte(csr))
	if block == nil || block.Type != "CERTIFICATE REQUEST" {
		return "", errors.New("certificate request: want PEM of type CERTIFICATE REQUEST")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("certificate request: %w", err)
	}
	if err := request.CheckSignature(); err != nil {
		return "", fmt.Errorf("certificate request: its signature is not by its key: %w", err)
	}
	if _, ok := request.PublicKey.(ed25519.PublicKey); !ok {
		return "", fmt.Errorf("certificate request: want an ed25519 key, found %T", request.PublicKey)
	}
	template, err := a.template(name)
	if err != nil {
		return "", err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, request.PublicKey, a.key)
	if err != nil {
		return "", fmt.Errorf("sign a certificate for %s: %w", name.CommonName, err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), nil
}

// Certificate returns the authority's own certificate, PEM.
func (a *Authority) Certificate() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw}))
}

// Fingerprint is the part of a join token that names this authority: a machine
// that joins talks to nobody else. 32 hexadecimal digits.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.certificate.Raw)
	return hex.EncodeToString(sum[:16])
}

// TLS returns the configuration of the listener that hosts dial.
func (a *Authority) TLS() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{a.server},
		ClientCAs:    pool,
		// A machine that joins has no certificate yet; the tunnel insists on one.
		ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{protocol.TunnelALPN, "http/1.1"},
		// Small first records help pages of a browser, not a tunnel.
		DynamicRecordSizingDisabled: true,
		Time:                        a.clock,
	}
}

// SSHHostKey is the key by which renters know the SSH gateway.
func (a *Authority) SSHHostKey() ssh.Signer { return a.hostKey }

// GatewayKey is the key with which a gateway enters instances.
func (a *Authority) GatewayKey() ssh.Signer { return a.gatewayKey }

// GatewayAuthorizedKey is the line that an instance trusts: GatewayKey's public half.
func (a *Authority) GatewayAuthorizedKey() string {
	return string(ssh.MarshalAuthorizedKey(a.gatewayKey.PublicKey()))
}
