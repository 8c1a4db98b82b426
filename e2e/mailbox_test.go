package e2e

import (
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	netmail "net/mail"
	"regexp"
	"sync"
	"testing"

	"github.com/emersion/go-smtp"
)

// mailbox is a mail server that keeps the last text to each address.
type mailbox struct {
	mu    sync.Mutex
	texts map[string]string
}

type mailSession struct {
	*mailbox
	to string
}

func (b *mailbox) NewSession(*smtp.Conn) (smtp.Session, error) { return &mailSession{mailbox: b}, nil }

func (s *mailSession) Reset()                               {}
func (s *mailSession) Logout() error                        { return nil }
func (s *mailSession) Mail(string, *smtp.MailOptions) error { return nil }
func (s *mailSession) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return nil
}

func (s *mailSession) Data(r io.Reader) error {
	m, err := netmail.ReadMessage(r)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[s.to] = string(text)
	return err
}

// newMailbox serves mail until the test ends, and returns where.
func newMailbox(t *testing.T) (b *mailbox, address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b = &mailbox{texts: map[string]string{}}
	server := smtp.NewServer(b)
	server.Domain = "example.test"
	go func() { _ = server.Serve(l) }() // ends with the test
	t.Cleanup(func() { server.Close() })
	return b, l.Addr().String()
}

var mailedCode = regexp.MustCompile(`\b\d{6}\b`)

// serveCode answers with the code that was last mailed to an address, or that none was.
func (b *mailbox) serveCode(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, ok := b.texts[r.URL.Query().Get("to")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = io.WriteString(w, mailedCode.FindString(text))
}
