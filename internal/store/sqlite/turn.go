package sqlite

import (
	"context"
	"database/sql"
)

// turn lets those who use a database in memory take turns, first come first served. Such a database has no WAL: readers and writers
// exclude each other, and who tries again and again can be kept waiting for ever by somebody who writes all the time. A file needs no
// turns: it is nil there.
type turn chan struct{}

func (t turn) take(ctx context.Context) error {
	if t == nil {
		return nil
	}
	select {
	case t <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t turn) give() {
	if t != nil {
		<-t
	}
}

// snapshot begins to read from one moment. The function that it returns ends that.
func (s *Store) snapshot(ctx context.Context) (*sql.Tx, func(), error) {
	if err := s.turn.take(ctx); err != nil {
		return nil, nil, err
	}
	db := s.db()
	conn, err := db.Conn(ctx)
	if s.reopened(db, err) {
		conn, err = s.db().Conn(ctx)
	}
	if err != nil {
		s.turn.give()
		return nil, nil, classify("read", err)
	}
	// Were it to end with ctx, database/sql would do that on a goroutine of its own, and the connection would still be in use when all is given back.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{ReadOnly: true})
	if err != nil {
		_ = conn.Close()
		s.turn.give()
		return nil, nil, classify("read", err)
	}
	return tx, func() {
		_, _ = tx.Rollback(), conn.Close()
		s.turn.give()
	}, nil
}
