package mail_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/http/httptest"
	netmail "net/mail"
	"strings"
	"testing"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"suanli.dev/internal/mail"
)

// box is a mail server's only mailbox.
type box struct {
	got    chan string
	secret string // password that is asked for; empty: none
}

type session struct {
	*box
	in bool
}

func (b *box) NewSession(*smtp.Conn) (smtp.Session, error) { return &session{box: b}, nil }
func (s *session) AuthMechanisms() []string                { return []string{sasl.Plain} }
func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, password string) error {
		if s.in = user == "cloud" && password == s.secret; !s.in {
			return errors.New("another password")
		}
		return nil
	}), nil
}
func (s *session) Reset()        {}
func (s *session) Logout() error { return nil }
func (s *session) Mail(string, *smtp.MailOptions) error {
	if s.secret != "" && !s.in {
		return smtp.ErrAuthRequired
	}
	return nil
}
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if !strings.HasSuffix(to, "@example.com") {
		return &smtp.SMTPError{Code: 550, Message: "nobody here has this name"}
	}
	return nil
}
func (s *session) Data(r io.Reader) error {
	content, err := io.ReadAll(r)
	s.got <- string(content)
	return err
}

// serve runs a mail server and returns its address and what clients trust it by.
func serve(t *testing.T, b *box, encrypted bool) (string, *tls.Config) {
	t.Helper()
	b.got = make(chan string, 1)
	server := smtp.NewServer(b)
	server.Domain = "example.com"
	known := httptest.NewUnstartedServer(nil)
	known.StartTLS()
	t.Cleanup(known.Close)
	roots := x509.NewCertPool()
	roots.AddCert(known.Certificate())
	if encrypted {
		server.TLSConfig = &tls.Config{Certificates: known.TLS.Certificates}
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(ln) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return ln.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "example.com"}
}

func TestAMessageArrivesAsItWasWritten(t *testing.T) {
	t.Parallel()
	b := &box{secret: "hunter2"}
	address, trust := serve(t, b, true)
	s := &mail.Sender{Address: address, Security: mail.StartTLS, User: "cloud", Password: "hunter2", From: "cloud@example.com", TLS: trust}
	text := "Your code is 123456.\n.\n您的验证码是 123456。\n" + strings.Repeat("long ", 100)
	if err := s.Send(t.Context(), "ada@example.com", "Code 验证码", text); err != nil {
		t.Fatal(err)
	}
	m, err := netmail.ReadMessage(strings.NewReader(<-b.got))
	if err != nil {
		t.Fatal(err)
	}
	subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
	if err != nil || subject != "Code 验证码" || m.Header.Get("To") != "ada@example.com" {
		t.Errorf("%v, %v", m.Header, err)
	}
	got, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	if err != nil || strings.TrimSpace(strings.ReplaceAll(string(got), "\r\n", "\n")) != strings.TrimSpace(text) {
		t.Errorf("%q, %v", got, err)
	}
}

func TestWhatAServerRefusesIsToldAndNothingGoesOverAnOpenLine(t *testing.T) {
	t.Parallel()
	b := &box{secret: "hunter2"}
	address, trust := serve(t, b, true)
	good := mail.Sender{Address: address, Security: mail.StartTLS, User: "cloud", Password: "hunter2", From: "cloud@example.com", TLS: trust}
	for name, c := range map[string]struct {
		change func(*mail.Sender)
		to     string
		want   string
	}{
		"password": {func(s *mail.Sender) { s.Password = "x" }, "ada@example.com", "password"},
		"receiver": {func(*mail.Sender) {}, "ada@example.org", "nobody here"},
		"injected": {func(*mail.Sender) {}, "ada@example.com\r\nBcc: eve@example.com", "not an e-mail address"},
		"stranger": {func(s *mail.Sender) { s.TLS = nil }, "ada@example.com", "certificate"},
	} {
		s := good
		c.change(&s)
		if err := s.Send(t.Context(), c.to, "s", "t"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	open := &box{}
	good.Address, _ = serve(t, open, false)
	if err := good.Send(t.Context(), "ada@example.com", "s", "t"); err == nil {
		t.Error("it was sent without encryption")
	}
	good.Security, good.User = mail.None, ""
	if err := good.Send(t.Context(), "ada@example.com", "s", "t"); err != nil {
		t.Error(err)
	}
	if len(open.got) != 1 || len(b.got) != 0 {
		t.Errorf("%d and %d messages", len(open.got), len(b.got))
	}
}
