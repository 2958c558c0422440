package sqlite

import "context"

// Exec runs a statement on the writer's own connection, for tests that make it fail.
func (w *Writer) Exec(ctx context.Context, statement string) error {
	_, err := w.raw.conn.ExecContext(ctx, statement)
	return err
}

// Over is how a test opens a file: over a file system of its own, with a log that is short, and with pragmas of its own.
type Over struct {
	Below      string
	Checkpoint int // pages after which the log is copied, by the writer and beside it
	Pragmas    []string
}

// OpenOver opens a file as [Open] does, over another file system.
func OpenOver(ctx context.Context, path string, o Over) (*Store, error) {
	return openFile(ctx, path, nil, files{below: o.Below, autocheckpoint: 2 * o.Checkpoint, checkpoint: int64(o.Checkpoint), pragmas: o.Pragmas})
}

// Watched returns how many transactions of users are watched.
func (s *Store) Watched() int {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	return len(s.watcher.open)
}

// WriterPragma returns what a pragma says on a connection that writes.
func (s *Store) WriterPragma(ctx context.Context, name string) (value string, err error) {
	raw, err := s.openRaw(ctx)
	if err != nil {
		return "", err
	}
	err = raw.conn.QueryRowContext(ctx, `pragma `+name).Scan(&value)
	return value, errorsJoin(err, raw.Close())
}

// ReaderPragma returns what a pragma says on a connection that reads.
func (s *Store) ReaderPragma(ctx context.Context, name string) (value string, err error) {
	err = s.db().QueryRowContext(ctx, `pragma `+name).Scan(&value)
	return value, err
}

// WatchesVersion reports whether the store looks at the version of its file.
func (s *Store) WatchesVersion() bool {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	return s.hub.version.stop != nil
}

// VersionLooks returns how often the store has looked at the version of its file.
func (s *Store) VersionLooks() int64 { return s.hub.version.looks.Load() }
