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
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if s.reopened(db, err) {
		tx, err = s.db().BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	}
	if err != nil {
		s.turn.give()
		return nil, nil, classify("read", err)
	}
	return tx, func() {
		_ = tx.Rollback()
		s.turn.give()
	}, nil
}
