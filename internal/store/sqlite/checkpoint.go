package sqlite

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// checkpointer copies the write-ahead log into the database beside the writer, which would otherwise stop for it. The writer still does it
// by itself when the log has become much longer: only then can the log begin anew.
type checkpointer struct {
	s       *Store
	every   int64        // how many pages are in the log when it is copied
	written atomic.Int64 // pages since the last copy, roughly
	runs    atomic.Bool
}

const (
	// checkpointPages is how many pages are in the log, roughly, when it is copied: 16 MiB. Copied more often, its syncs would get into the way of
	// those of the writer.
	checkpointPages = 4096
	// autocheckpointPages is how many are in it when the writer copies it itself.
	autocheckpointPages = 16000
)

// committed is called after each commit.
func (c *checkpointer) committed(ctx context.Context, changes *store.Changes) {
	if c.s.path == "" || c.written.Add(pagesOf(changes)) < c.every || !c.runs.CompareAndSwap(false, true) {
		return
	}
	c.written.Store(0)
	c.s.asides.run(ctx, func(ctx context.Context) {
		defer c.runs.Store(false)
		if _, err := c.s.db().ExecContext(ctx, `pragma wal_checkpoint(passive)`); err != nil && !c.s.closed.Load() {
			c.s.cfg.Logger.WarnContext(ctx, "checkpoint failed", slog.Any("error", err))
		}
	})
}

// pagesOf guesses how many pages a batch has changed: the right edges of the tables and indices once, and what it brings.
func pagesOf(changes *store.Changes) int64 {
	bytes := 0
	for i := range changes.Runs {
		bytes += 384 // many share a page
		for j := range changes.Runs[i].Events {
			bytes += 256 + journal.PayloadBytes(changes.Runs[i].Events[j].Data)
		}
	}
	for i := range changes.Messages {
		bytes += 256 + len(changes.Messages[i].Payload)
	}
	for i := range changes.Streams {
		bytes += 4096 // the end of the stream
		for j := range changes.Streams[i].Chunks {
			bytes += 32 + len(changes.Streams[i].Chunks[j].Data)
		}
	}
	return int64(6 + bytes/4096)
}
