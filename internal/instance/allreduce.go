package instance

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"strconv"
	"time"
)

// reducePort is where each node takes the stream of the node before it.
const reducePort = 29601

// reduceResult is what one node measured.
type reduceResult struct {
	Node     int     `json:"node"`
	Nodes    int     `json:"nodes"`
	Bytes    int64   `json:"bytes"`    // of the vector that was reduced
	Seconds  float64 `json:"seconds"`  // of the fastest round
	BusMbps  float64 `json:"bus_mbps"` // what the ring carried, as NCCL's tests reckon it
	Latency  float64 `json:"latency_ms"`
	Checksum bool    `json:"correct"` // the sums are right
}

// allReduce sums a vector over all nodes of the cluster in a ring, as training does, and
// prints how fast that was: suanli instance allreduce MIB ROUNDS.
func allReduce(args []string, out io.Writer) error {
	mib, rounds := 16, 3
	for i, p := range []*int{&mib, &rounds} {
		if len(args) > i {
			n, err := strconv.Atoi(args[i])
			if err != nil || n < 1 || n > 4096 {
				return fmt.Errorf("%q: want a number from 1 to 4096", args[i])
			}
			*p = n
		}
	}
	rank, err1 := strconv.Atoi(os.Getenv("SUANLI_NODE_RANK"))
	nodes, err2 := strconv.Atoi(os.Getenv("SUANLI_NNODES"))
	if err := errors.Join(err1, err2); err != nil || nodes < 2 {
		return errors.New("this instance is no node of a cluster")
	}
	r, err := newRing(rank, nodes, func(n int) string { return net.JoinHostPort("node-"+strconv.Itoa(n), strconv.Itoa(reducePort)) }, ":"+strconv.Itoa(reducePort), time.Minute)
	if err != nil {
		return err
	}
	defer r.close()
	res, err := r.measure(mib<<20/4, rounds)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(res)
}

// ring is a node's place between the one before and the one after it.
type ring struct {
	rank, nodes int
	prev, next  net.Conn
	in          *bufio.Reader
	out         *bufio.Writer
}

// newRing connects to the next node and waits for the one before.
func newRing(rank, nodes int, address func(int) string, listen string, patience time.Duration) (*ring, error) {
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	end := time.Now().Add(patience)
	if t, ok := l.(*net.TCPListener); ok {
		_ = t.SetDeadline(end)
	}
	accepted := make(chan error, 1)
	r := &ring{rank: rank, nodes: nodes}
	go func() {
		c, err := l.Accept()
		r.prev = c
		accepted <- err
	}()
	to := address((rank + 1) % nodes)
	for {
		if r.next, err = net.DialTimeout("tcp", to, 2*time.Second); err == nil {
			break
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the next node is not reached: %w", err)
		}
		wait(100 * time.Millisecond) // it may not have begun yet
	}
	if err := <-accepted; err != nil {
		r.next.Close()
		return nil, fmt.Errorf("the node before did not come: %w", err)
	}
	for _, c := range []net.Conn{r.prev, r.next} {
		_ = c.SetDeadline(time.Now().Add(10 * time.Minute))
	}
	r.in, r.out = bufio.NewReaderSize(r.prev, 256<<10), bufio.NewWriterSize(r.next, 256<<10)
	return r, nil
}

func (r *ring) close() { r.prev.Close(); r.next.Close() }

// measure reduces a vector several times.
func (r *ring) measure(floats, rounds int) (reduceResult, error) {
	res := reduceResult{Node: r.rank, Nodes: r.nodes, Bytes: int64(floats) * 4, Checksum: true}
	v := make([]float32, floats)
	best, quick := time.Duration(math.MaxInt64), time.Duration(math.MaxInt64)
	for range rounds {
		small := []float32{1}
		began := time.Now()
		if err := r.reduce(small); err != nil {
			return res, err
		}
		quick = min(quick, time.Since(began))
		for i := range v {
			v[i] = float32(r.rank + i%7)
		}
		began = time.Now()
		if err := r.reduce(v); err != nil {
			return res, err
		}
		best = min(best, time.Since(began))
		for i := range v {
			if want := float32(r.nodes*(r.nodes-1)/2 + r.nodes*(i%7)); v[i] != want {
				res.Checksum = false
			}
		}
	}
	res.Seconds = best.Seconds()
	res.Latency = float64(quick.Microseconds()) / 1000
	carried := float64(res.Bytes) * 2 * float64(r.nodes-1) / float64(r.nodes)
	res.BusMbps = carried * 8 / 1e6 / max(best.Seconds(), 1e-9)
	return res, nil
}

// reduce sums v over all nodes in place: each part goes around once to be summed, and
// once more to be known (Patarasuk and Yuan, 2009).
func (r *ring) reduce(v []float32) error {
	n := r.nodes
	part := func(i int) []float32 {
		i = (i%n + n) % n
		return v[len(v)*i/n : len(v)*(i+1)/n]
	}
	for step := range 2 * (n - 1) {
		send, take := part(r.rank-step), part(r.rank-step-1)
		sent := make(chan error, 1)
		go func() { sent <- r.send(send) }()
		err := r.take(take, step < n-1)
		if err := errors.Join(<-sent, err); err != nil {
			return err
		}
	}
	return nil
}

func (r *ring) send(v []float32) error {
	var b [4]byte
	for _, x := range v {
		binary.LittleEndian.PutUint32(b[:], math.Float32bits(x))
		if _, err := r.out.Write(b[:]); err != nil {
			return err
		}
	}
	return r.out.Flush()
}

func (r *ring) take(v []float32, add bool) error {
	var b [4]byte
	for i := range v {
		if _, err := io.ReadFull(r.in, b[:]); err != nil {
			return err
		}
		x := math.Float32frombits(binary.LittleEndian.Uint32(b[:]))
		if add {
			x += v[i]
		}
		v[i] = x
	}
	return nil
}
