package engine

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// incarnation is one life of this process as an owner of runs. A process that was declared dead goes on with a new one.
type incarnation struct {
	id        journal.ID
	committer *commit.Committer
	confirmed atomic.Int64 // when its last beat that arrived was sent, by Engine.clock
}

func (e *Engine) newIncarnation(ctx context.Context) (*incarnation, error) {
	id, err := e.mint()
	if err != nil {
		return nil, err
	}
	e.lives.Store(id, true)
	c, err := commit.New(ctx, e.store, id, &commit.Config{Now: e.now, Logger: e.log, Readers: e.streams, Committed: e.committed(), Turn: e.turns.Of("committer", e.numbers.Add(1))})
	if err != nil {
		return nil, err
	}
	me := &incarnation{id: id, committer: c}
	me.confirmed.Store(int64(e.clock()))
	return me, nil
}

// clock is this process's own time, for leases. It is compared with nobody else's.
func (e *Engine) clock() time.Duration { return time.Since(e.born) }

func (e *Engine) self() *incarnation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.me
}

// heart beats while this process has runs that do something, so that peers know it is alive. A process without does nothing.
func (e *Engine) heart() {
	tick := time.NewTicker(e.cfg.Lease / 6)
	defer tick.Stop()
	locked := false
	for n := 0; ; n++ {
		select {
		case <-e.life.Done():
		case <-tick.C:
		}
		e.turns.Take("heart", 0)
		if e.life.Err() != nil {
			return
		}
		me := e.self()
		if !e.busy() {
			me.confirmed.Store(int64(e.clock()))
			continue
		}
		if n%2 == 0 || locked {
			locked = e.beat(me, locked)
		}
		if !e.alive(me) && e.life.Err() == nil {
			e.log.WarnContext(e.life, "no heartbeat was confirmed for two thirds of the lease")
			e.reborn(me)
		}
	}
}

// beat moves the heart. It does not wait longer than there is time. It reports whether somebody keeps all others from writing: then nobody can declare
// this process dead either, and those who want to do not count that time (see watch). What it executes goes on, and is written when that is possible.
func (e *Engine) beat(me *incarnation, wasLocked bool) (locked bool) {
	began := e.clock()
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Lease/6)
	defer cancel()
	err := e.store.Beat(ctx, me.id)
	locked = errors.Is(err, store.ErrBusy) && e.isListed(me)
	switch {
	case err == nil, locked:
		me.confirmed.Store(int64(began))
		if locked && !wasLocked {
			e.log.WarnContext(e.life, "somebody keeps all others from writing to the database: what runs do is written when that has ended")
		}
	case e.life.Err() == nil:
		e.log.WarnContext(e.life, "the heartbeat failed", slog.Any("error", err))
	}
	return locked
}

// isListed reports whether an incarnation is known and was not declared dead.
func (e *Engine) isListed(me *incarnation) bool {
	ctx, cancel := context.WithTimeout(e.life, e.cfg.Lease/6)
	defer cancel()
	peers, err := e.store.Peers(ctx)
	return err == nil && slices.ContainsFunc(peers, func(p store.Peer) bool { return p.Incarnation == me.id })
}

func (e *Engine) busy() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.active > 0
}

// alive reports whether a beat was confirmed within two thirds of the lease. If not, peers may be about to take this process for dead: it
// begins no step and ends those that run.
func (e *Engine) alive(me *incarnation) bool {
	return e.clock()-time.Duration(me.confirmed.Load()) < e.cfg.Lease*2/3
}

// reborn ends an incarnation that was declared dead, or may be about to: what it executes ends without a trace, and this process goes on as a
// new one. It does not wait for that.
func (e *Engine) reborn(me *incarnation) {
	e.mu.Lock()
	if e.me != me || e.stopped || e.reviving {
		e.mu.Unlock()
		return
	}
	e.reviving = true
	e.mu.Unlock()
	e.work.Go(func() { e.revive(me) })
}

// revive replaces an incarnation. It goes on until the database can be reached.
func (e *Engine) revive(me *incarnation) {
	e.turns.Take("revive", 0)
	e.log.WarnContext(e.life, "this process goes on as a new incarnation", slog.String("old", journal.PrefixIncarnation.Format(me.id)))
	for _, x := range e.all() {
		x.leave(ErrStopped)
	}
	_ = me.committer.Abort()
	e.lostLease(me)
	for e.life.Err() == nil {
		// What it owned must be free before this process can go on with it.
		err := e.store.Fence(e.life, me.id)
		if err == nil {
			var next *incarnation
			if next, err = e.newIncarnation(e.life); err == nil {
				e.retire(me)
				e.begin(next)
				return
			}
		}
		e.log.WarnContext(e.life, "no new incarnation yet", slog.Any("error", err))
		if !e.pause() {
			return
		}
	}
}

// begin makes an incarnation the present one.
func (e *Engine) begin(next *incarnation) {
	e.mu.Lock()
	e.me, e.reviving = next, false
	revived := e.revived
	e.revived = make(chan struct{})
	e.mu.Unlock()
	close(revived)
	e.lookNow()
}

// awaitLife waits until another incarnation than me is there.
func (e *Engine) awaitLife(ctx context.Context, me *incarnation) error {
	e.reborn(me)
	n := e.numbers.Add(1)
	for {
		e.mu.Lock()
		current, revived := e.me, e.revived
		e.mu.Unlock()
		if current != me {
			return nil
		}
		select {
		case <-revived:
			e.turns.Take("life", n)
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-e.life.Done():
			return errStopped()
		}
	}
}

// do writes a command that does not depend on who writes it.
func (e *Engine) do(ctx context.Context, cmd *journal.Command) (*journal.Result, error) {
	for {
		me := e.self()
		res, err := me.committer.Do(ctx, cmd)
		if !e.died(me, err) {
			return res, stopped(err)
		}
		if err := e.awaitLife(ctx, me); err != nil {
			return nil, err
		}
	}
}

// stopped tells a caller from outside that the engine was stopped, and not what of it.
func stopped(err error) error {
	if cairnerr.CodeOf(err) == cairnerr.CodeClosed {
		return errStopped()
	}
	return err
}

// died reports whether a command failed because its incarnation is over. It was not written, and another one can be asked.
func (e *Engine) died(me *incarnation, err error) bool {
	switch cairnerr.CodeOf(err) {
	case cairnerr.CodeFenced:
		return true
	case cairnerr.CodeClosed:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.reviving || e.me != me
	default:
		return false
	}
}
