package mail

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"mime"
	"mime/quotedprintable"
	"net"
	"net/mail"
	"net/smtp"
	"strings"
	"time"
)

// The ways in which a connection is encrypted.
const (
	StartTLS = "starttls" // asked for after the greeting (RFC 3207); a server without it is refused
	TLS      = "tls"      // from the first byte on (RFC 8314)
	None     = "none"     // readable on the way
)

// Sender is an SMTP server and how it is used. It is safe for concurrent use.
type Sender struct {
	Address  string // host:port
	Security string // StartTLS, TLS or None
	User     string // empty: without signing in
	Password string
	From     string        // e-mail address
	Timeout  time.Duration // of a whole message; 0: 30 s
	TLS      *tls.Config   // nil: the usual roots, and the name in Address
}

// Send sends a text to one address, and returns once the server has taken it.
func (s *Sender) Send(ctx context.Context, to, subject, text string) error {
	if err := s.send(ctx, to, subject, text); err != nil {
		return fmt.Errorf("send mail by %s: %w", s.Address, err)
	}
	return nil
}

func (s *Sender) send(ctx context.Context, to, subject, text string) error {
	for _, a := range []string{s.From, to} {
		if p, err := mail.ParseAddress(a); err != nil || p.Address != a {
			return fmt.Errorf("%q is not an e-mail address", a)
		}
	}
	host, _, err := net.SplitHostPort(s.Address)
	if err != nil {
		return err
	}
	timeout := s.Timeout
	if timeout == 0 {
		timeout = 30 * time.Second
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	encrypted := &tls.Config{ServerName: host}
	if s.TLS != nil {
		encrypted = s.TLS.Clone()
	}
	var conn net.Conn
	if s.Security == TLS {
		conn, err = (&tls.Dialer{Config: encrypted}).DialContext(ctx, "tcp", s.Address)
	} else {
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", s.Address)
	}
	if err != nil {
		return err
	}
	// net/smtp knows no context: its end closes the connection.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return errors.Join(err, conn.Close())
	}
	defer c.Close()
	if s.Security == StartTLS {
		if err := c.StartTLS(encrypted); err != nil {
			return err
		}
	}
	if s.User != "" {
		if err := c.Auth(smtp.PlainAuth("", s.User, s.Password, host)); err != nil {
			return err
		}
	}
	if err := c.Mail(s.From); err != nil {
		return err
	}
	if err := c.Rcpt(to); err != nil {
		return err
	}
	w, err := c.Data()
	if err != nil {
		return err
	}
	content, err := s.message(to, subject, text)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	// It is taken: how the server says goodbye changes nothing.
	_ = c.Quit()
	return nil
}

// message writes a mail as RFC 5322 has it.
func (s *Sender) message(to, subject, text string) ([]byte, error) {
	var b bytes.Buffer
	_, domain, _ := strings.Cut(s.From, "@")
	for _, h := range [][2]string{
		{"From", s.From}, {"To", to}, {"Subject", mime.QEncoding.Encode("utf-8", subject)}, {"Date", time.Now().UTC().Format(time.RFC1123Z)},
		{"Message-ID", "<" + rand.Text() + "@" + domain + ">"}, {"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"},
		{"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "quoted-printable"},
	} {
		fmt.Fprintf(&b, "%s: %s\r\n", h[0], h[1])
	}
	b.WriteString("\r\n")
	w := quotedprintable.NewWriter(&b)
	if _, err := w.Write([]byte(strings.ReplaceAll(text, "\n", "\r\n"))); err != nil {
		return nil, err
	}
	err := w.Close()
	return b.Bytes(), err
}
