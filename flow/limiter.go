package flow

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// limiter counts the requests of each address in windows of a minute.
type limiter struct {
	most  int // negative: any number
	now   func() time.Time
	mu    sync.Mutex
	began time.Time
	count map[string]int
}

const window = time.Minute

func newLimiter(most int, now func() time.Time) *limiter {
	return &limiter{most: most, now: now, count: map[string]int{}}
}

// take counts a request. It returns how long the caller must wait, 0: not at all.
func (l *limiter) take(address string) time.Duration {
	if l.most < 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if since := now.Sub(l.began); since >= window || since < 0 {
		l.began = now
		clear(l.count)
	}
	if l.count[address] >= l.most {
		return window - now.Sub(l.began)
	}
	l.count[address]++
	return 0
}

// remoteIP returns the address of the connection.
func remoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
