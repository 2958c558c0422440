package flow

import (
	"net"
	"net/http"
	"net/netip"
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

// maxAddresses is how many addresses are told apart in a window.
const maxAddresses = 100_000

func newLimiter(most int, now func() time.Time) *limiter {
	return &limiter{most: most, now: now, count: map[string]int{}}
}

// take counts a request. It returns how long the caller must wait, 0: not at all.
func (l *limiter) take(address string) time.Duration {
	if l.most < 0 {
		return 0
	}
	address = network(address)
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if since := now.Sub(l.began); since >= window || since < 0 {
		l.began = now
		clear(l.count)
	}
	if _, known := l.count[address]; !known && len(l.count) >= maxAddresses {
		address = "" // all others together
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

// network returns what is counted: of an IPv6 address the first 64 bits, because one caller has them all.
func network(address string) string {
	ip, err := netip.ParseAddr(address)
	if err != nil || !ip.Is6() || ip.Is4In6() {
		return address
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}
