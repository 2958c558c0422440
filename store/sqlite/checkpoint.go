package sqlite

import (
	"context"
	"log/slog"
	"os"
	"sync/atomic"
)

// checkpointer copies the write-ahead log into the database beside the writer, which would otherwise stop for it. The writer still does it
// by itself when the log has become much longer: only then can the log begin anew.
type checkpointer struct {
	s       *Store
	commits atomic.Int64
	runs    atomic.Bool
}

const (
	checkpointBytes = 16 << 20 // from this length on, the log is copied
	checkpointEvery = 16       // commits between two looks at its length
)

// committed is called after each commit.
func (c *checkpointer) committed(ctx context.Context) {
	if c.s.path == "" || c.commits.Add(1)%checkpointEvery != 0 {
		return
	}
	info, err := os.Stat(c.s.path + "-wal")
	if err != nil || info.Size() < checkpointBytes || !c.runs.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer c.runs.Store(false)
		ctx := context.WithoutCancel(ctx)
		if _, err := c.s.db().ExecContext(ctx, `pragma wal_checkpoint(passive)`); err != nil && !c.s.closed.Load() {
			c.s.cfg.Logger.WarnContext(ctx, "checkpoint failed", slog.Any("error", err))
		}
	}()
}
