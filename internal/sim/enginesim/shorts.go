package enginesim

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/sim"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/sqlite"
)

// short is the workflow of runs that clients delete, or start in transactions of their own.
func (w *world) short(b *engine.Branch, in journal.Payload) (journal.Payload, error) {
	return b.Step(engine.StepSpec{Name: "short"}, func(_ context.Context, info engine.StepInfo) (journal.Payload, error) {
		w.bodyBegins(info.Run, info.Key)
		w.wait(string(in), 0)
		return journal.Payload(shortResult(string(in))), nil
	})
}

func shortResult(input string) string { return input + "!" }

// deleteShort starts a short run, waits for its end, for a while, and deletes it. Others do the same with the same key: there is one such run at a time,
// and the next one is another.
func (w *world) deleteShort(i int, ask Ask) {
	who, key := fmt.Sprint("client ", i), fmt.Sprint("short ", ask.Run)
	p, id := w.startShort(who, key, i, ask)
	if p == nil {
		return
	}
	w.mu.Lock()
	w.doomed[id] = true
	w.mu.Unlock()
	call := w.clock()
	_, err := reach(w, p, who, func() (struct{}, error) { return struct{}{}, p.eng.Delete(context.Background(), id) })
	got := p.answer(err, true)
	w.asked(p, "delete of "+key, got, err)
	w.history.run(key, runOp{string(askDelete), got, id.String()}, call, w.clock())
	if got == answerOK {
		w.mu.Lock()
		w.deleted = append(w.deleted, id)
		w.mu.Unlock()
	}
}

// startShort starts a short run and waits for its end, for a while. It returns who was asked, nil if there is no run.
func (w *world) startShort(who, key string, i int, ask Ask) (*process, journal.ID) {
	id, got := w.start(who, engine.StartRequest{Workflow: "short", Input: journal.Payload(key), StartKey: key}, fmt.Sprintf("%s (%d)", key, i), ask.Slot, ask.Limit)
	p := w.someone(ask.Slot)
	if got != answerOK || p == nil {
		return nil, id
	}
	waiting, enough := limited(2 * time.Second)
	defer enough()
	_, err := reach(w, p, who, func() (*journal.Run, error) { return p.eng.Wait(waiting, id) })
	w.asked(p, "result of "+key, p.answer(err, false), err)
	return p, id
}

// forked is a fork of a short run.
type forked struct {
	id   journal.ID
	want string
}

// forkShort forks a short run, which somebody else may delete meanwhile. The fork has a key: asked for again, it is the same.
func (w *world) forkShort(i int, ask Ask) {
	who, source := fmt.Sprint("client ", i), fmt.Sprint("short ", ask.Run)
	p, id := w.startShort(who, source, i, ask)
	if p == nil {
		return
	}
	spec := journal.ForkSpec{StartKey: "fork of " + id.String(), From: "short"}
	if sim.NewActor(w.plan.Seed, spec.StartKey).Pick(2) == 0 {
		spec.From, spec.Drop = "", []string{"short"}
	}
	ctx, cancel := limited(ask.Limit)
	defer cancel()
	fork, got := w.create(who, p, spec.StartKey, "fork of "+source, func() (journal.ID, error) { return p.eng.Fork(ctx, id, "short", spec) })
	if got == answerOK {
		w.mu.Lock()
		w.forks = append(w.forks, forked{fork, shortResult(source)})
		w.mu.Unlock()
	}
}

// mayBeGone reports whether somebody has asked for a run to be deleted.
func (w *world) mayBeGone(id journal.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.doomed[id]
}

// joined is a run that was started in a transaction of a client's.
type joined struct {
	id    journal.ID
	input string
	kept  bool // the transaction was committed, not taken back
}

// join starts a run in a transaction of the client's own, in which it also enters it in a table of its own, and commits that or takes it back. All of it happens at
// one instant: no process dies in between, and there is power.
func (w *world) join(i int, ask Ask) {
	a := sim.NewActor(w.plan.Seed, fmt.Sprint("join ", i))
	j := joined{input: fmt.Sprint("joined ", i), kept: a.Pick(4) > 0}
	request := engine.StartRequest{Workflow: "short", Input: journal.Payload(j.input)}
	if a.Pick(2) == 0 {
		request.StartKey = j.input
	}
	for range 200 {
		p := w.someone(ask.Slot)
		if p == nil {
			return
		}
		err := p.gate()
		w.turn(fmt.Sprint("client ", i))
		if err == nil && !p.isDead() && !p.isFrozen() && w.hasPower() {
			if j.id, err = w.joinNow(p, request, j.kept); err == nil {
				w.joinedAs(p, j)
				return
			}
			w.asked(p, "start of "+j.input, answerNot, err)
		}
		time.Sleep(within(a, 5*time.Millisecond))
	}
}

func (w *world) joinedAs(p *process, j joined) {
	w.name(j.id, j.input)
	w.trace.Add(p.name, "start of %s in a transaction, kept: %t", j.input, j.kept)
	w.mu.Lock()
	w.joins = append(w.joins, j)
	w.mu.Unlock()
	if j.kept {
		w.seen.mu.Lock()
		w.seen.dirty[j.id] = true
		w.seen.mu.Unlock()
	}
}

// joinNow does not wait: if somebody else writes just now, it fails.
func (w *world) joinNow(p *process, request engine.StartRequest, keep bool) (id journal.ID, err error) {
	ctx := context.Background()
	db, err := w.openOwn()
	if err != nil {
		return id, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return id, err
	}
	defer func() { _ = tx.Rollback() }() // of one that was committed, it does nothing
	if _, err := tx.ExecContext(ctx, `create table if not exists ledger (input text primary key)`); err != nil {
		return id, err
	}
	if _, err := tx.ExecContext(ctx, `insert into ledger values (?)`, string(request.Input)); err != nil {
		return id, err
	}
	id, err = p.eng.Join(ctx, sqlite.InTx(tx), request)
	if err == nil && keep {
		err = tx.Commit()
	}
	return id, err
}

// openOwn opens the database as a client who has tables of its own in it.
func (w *world) openOwn() (*sql.DB, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return sql.Open("sqlite", "file:"+w.path+"?_txlock=immediate&_pragma=busy_timeout(0)")
}

// judgeShorts looks for the runs that were deleted, forked, or started in transactions.
func (w *world) judgeShorts(eng *engine.Engine) {
	ctx := context.Background()
	there := func(id journal.ID) bool {
		_, err := w.audit.st.Run(ctx, namespace, id, store.ResolveNone)
		if err != nil && cairnerr.CodeOf(err) != cairnerr.CodeRunNotFound {
			w.fail("%s: %w", w.nameOf(id), err)
		}
		return err == nil
	}
	for _, id := range w.deleted {
		if there(id) {
			w.fail("%s is there again, or still: it was deleted", w.nameOf(id))
		}
	}
	for _, f := range w.forks {
		w.awaitEnd(eng, f.id, f.want)
	}
	for _, j := range w.joins {
		if there(j.id) != j.kept {
			w.fail("%s is there: %t, and its transaction was committed: %t", j.input, !j.kept, j.kept)
		} else if j.kept {
			w.awaitEnd(eng, j.id, shortResult(j.input))
		}
	}
	if len(w.joins) > 0 {
		w.judgeLedger(ctx)
	}
}

// judgeLedger compares the clients' own table with the runs that were started beside it.
func (w *world) judgeLedger(ctx context.Context) {
	kept := 0
	for _, j := range w.joins {
		if j.kept {
			kept++
		}
	}
	db, err := w.openOwn()
	if err != nil {
		w.fail("ledger: %w", err)
		return
	}
	defer func() { _ = db.Close() }()
	entered := 0
	err = db.QueryRowContext(ctx, `select count(*) from ledger`).Scan(&entered)
	if kept > 0 && (err != nil || entered != kept) {
		w.fail("the ledger has %d entries, %d transactions were committed: %w", entered, kept, err)
	}
}
