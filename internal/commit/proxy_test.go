package commit_test

import (
	"bytes"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// syncMessage is the end of what a PostgreSQL client sends in one go: the server commits when it arrives.
var syncMessage = []byte{'S', 0, 0, 0, 4}

// proxy is a network between a PostgreSQL client and its server that can be cut for the client while the server still gets
// what was on its way, later.
type proxy struct {
	url    string
	server string

	mu     sync.Mutex
	cut    *cut
	late   chan struct{} // closed when the server has everything
	serves sync.WaitGroup
}

// cut is what is to happen to the next message that contains the words.
type cut struct {
	words []byte
	keep  func(message []byte) int // how much goes through at once
	pause time.Duration
}

func newProxy(t *testing.T, serverURL string) *proxy {
	t.Helper()
	u, err := url.Parse(serverURL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{server: u.Host, late: make(chan struct{})}
	u.Host = listener.Addr().String()
	p.url = u.String()
	p.serves.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = client.Close() })
			p.serves.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		p.serves.Wait()
	})
	return p
}

func (p *proxy) cutNext(words []byte, keep func([]byte) int, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = &cut{words, keep, pause}
}

// wait waits until the server has everything.
func (p *proxy) wait() { <-p.late }

func (p *proxy) serve(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	p.serves.Go(func() {
		defer func() { _ = client.Close() }()
		buf := make([]byte, 64<<10)
		for {
			n, err := server.Read(buf)
			if err != nil {
				return
			}
			if _, err := client.Write(buf[:n]); err != nil {
				return
			}
		}
	})
	buf := make([]byte, 256<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			_ = server.Close()
			return
		}
		message := buf[:n]
		if c := p.takeCut(message); c != nil {
			_ = client.Close()
			p.sendLate(server, message, c)
			return
		}
		if _, err := server.Write(message); err != nil {
			return
		}
	}
}

func (p *proxy) takeCut(message []byte) *cut {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.cut
	if c == nil || !bytes.Contains(message, c.words) || !bytes.HasSuffix(message, syncMessage) {
		return nil
	}
	p.cut = nil
	return c
}

// sendLate gives the server a part now and the rest later, and stays silent to the client.
func (p *proxy) sendLate(server net.Conn, message []byte, c *cut) {
	now := c.keep(message)
	_, _ = server.Write(message[:now])
	rest := bytes.Clone(message[now:])
	time.Sleep(c.pause)
	_, _ = server.Write(rest)
	time.Sleep(100 * time.Millisecond) // let the server read it before the connection goes
	_ = server.Close()
	close(p.late)
}
