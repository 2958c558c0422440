package pgcluster

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// logTail is how much of the server's log an error quotes.
const logTail = 2000

// pollInterval is how often a starting server is looked at.
const pollInterval = 10 * time.Millisecond

// waitReady returns when the server accepts connections. The caller holds mu.
func (c *Cluster) waitReady(ctx context.Context) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for !c.ready() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("pgcluster: server is not ready: %w\n%s", ctx.Err(), c.tail())
		case <-c.server.done:
			return fmt.Errorf("pgcluster: server ended while starting: %w\n%s", c.server.exit, c.tail())
		case <-ticker.C:
		}
	}
	return nil
}

// ready reads the status that the server keeps in its pid file: line 1 is its process id, line 8 its state. The id is
// compared because a server that was killed leaves its file behind.
func (c *Cluster) ready() bool {
	content, err := os.ReadFile(filepath.Join(c.dataDir(), "postmaster.pid"))
	if err != nil {
		return false
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) < 8 || strings.TrimSpace(lines[0]) != strconv.Itoa(c.server.pid()) {
		return false
	}
	return strings.TrimSpace(lines[7]) == "ready"
}

// tail returns the end of the server's log.
func (c *Cluster) tail() []byte {
	content, err := os.ReadFile(c.logPath())
	if err != nil {
		return nil
	}
	return bytes.TrimSpace(content[max(0, len(content)-logTail):])
}
