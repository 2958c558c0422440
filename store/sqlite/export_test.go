package sqlite

import "context"

// Exec runs a statement on the writer's own connection, for tests that make it fail.
func (w *Writer) Exec(ctx context.Context, statement string) error {
	_, err := w.raw.conn.ExecContext(ctx, statement)
	return err
}

// Watched returns how many transactions of users are watched.
func (s *Store) Watched() int {
	s.watcher.mu.Lock()
	defer s.watcher.mu.Unlock()
	return len(s.watcher.open)
}
