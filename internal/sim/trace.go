package sim

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// Trace is what happened, line by line, with the virtual time.
type Trace struct {
	mu    sync.Mutex
	start time.Time
	buf   bytes.Buffer
}

// Add writes a line.
func (t *Trace) Add(actor, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.start.IsZero() {
		t.start = time.Now()
	}
	fmt.Fprintf(&t.buf, "%14d %-12s ", time.Since(t.start).Nanoseconds(), actor)
	fmt.Fprintf(&t.buf, format, args...)
	t.buf.WriteByte('\n')
}

// Bytes returns the whole trace.
func (t *Trace) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return bytes.Clone(t.buf.Bytes())
}

// Tail returns the last lines.
func (t *Trace) Tail(n int) string {
	lines := bytes.SplitAfter(t.Bytes(), []byte{'\n'})
	return string(bytes.Join(lines[max(0, len(lines)-n-1):], nil))
}
