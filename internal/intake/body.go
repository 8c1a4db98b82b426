package intake

import (
	"errors"
	"io"
	"net/http"
	"time"
)

// Pace is how slowly a body may come.
type Pace struct {
	// Patience is how long the first byte, and without a Rate each further read,
	// may take.
	Patience time.Duration
	// Rate, in bytes a second, is what the whole body must come at beyond
	// Patience; 0: any that moves, for uploads of any length.
	Rate int64
}

var (
	// Small is for bodies that are read whole: a client that takes longer is
	// holding a connection, not sending a request.
	Small = Pace{Patience: 30 * time.Second, Rate: 16 << 10}
	// Moving is for bodies of any length, which may take days but not stand still.
	Moving = Pace{Patience: time.Minute}
)

// Body returns r with deadlines for its body, from now on: what a handler leaves
// unread the server reads itself, for as long as the client likes. A handler may
// change the pace by calling Body again. A request without a body is returned as
// it is.
func Body(w http.ResponseWriter, r *http.Request, p Pace) *http.Request {
	if r.Body == nil || r.Body == http.NoBody {
		return r
	}
	b, ok := r.Body.(*body)
	if !ok {
		b = &body{from: r.Body, control: http.NewResponseController(w)}
		r = r.WithContext(r.Context()) // the server goes by the body of the one it made
		r.Body = b
	}
	b.pace, b.start, b.read = p, time.Now(), 0
	b.extend()
	return r
}

type body struct {
	from    io.ReadCloser
	control *http.ResponseController
	pace    Pace
	start   time.Time
	read    int64
}

func (b *body) extend() {
	until := time.Now().Add(b.pace.Patience)
	if b.pace.Rate > 0 {
		until = b.start.Add(b.pace.Patience + time.Duration(b.read)*time.Second/time.Duration(b.pace.Rate))
	}
	// Writers of tests have no deadlines; those of connections do.
	_ = b.control.SetReadDeadline(until)
}

func (b *body) Read(p []byte) (int, error) {
	b.extend()
	n, err := b.from.Read(p)
	b.read += int64(n)
	if errors.Is(err, io.EOF) {
		// From here on the server watches whether the client goes away, and a
		// deadline would look like that in the middle of the work.
		_ = b.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

func (b *body) Close() error { return b.from.Close() }
