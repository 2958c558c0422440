package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// Options say how to torture. Store and Program must be given; the rest has defaults.
type Options struct {
	Store   string        // SQLite or Postgres
	Program string        // this program, which workers and clients execute
	Other   string        // another version of it, for every second worker; "": none
	Seed    uint64        // from which orders and blows follow
	For     time.Duration // how long processes are hurt. Defaults to 30 seconds.
	Settle  time.Duration // how long the runs may take to end after that. Defaults to 2 minutes.
	Workers int           // Defaults to 4.
	Clients int           // Defaults to 2.
	Most    int           // runs that a client has under way at the same time. Defaults to 30.
	Rate    float64       // starts in a second, of all clients. Defaults to 15.
	Every   time.Duration // how often a blow comes, on average. Defaults to a second.
	Lease   time.Duration // Defaults to 1.5 seconds.
	Dir     string        // where everything is kept. Defaults to the system's for temporary files.
	Keep    bool          // also if nothing was found
	Say     func(format string, args ...any)
}

func (o *Options) setDefaults() {
	o.For = cmp.Or(o.For, 30*time.Second)
	o.Settle = cmp.Or(o.Settle, 2*time.Minute)
	o.Workers = cmp.Or(o.Workers, 4)
	o.Clients = cmp.Or(o.Clients, 2)
	o.Most = cmp.Or(o.Most, 30)
	o.Rate = cmp.Or(o.Rate, 15)
	o.Every = cmp.Or(o.Every, time.Second)
	o.Lease = cmp.Or(o.Lease, 1500*time.Millisecond)
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
}

// orchestra is one torture under way.
type orchestra struct {
	Options
	dir      string
	database *database
	workers  []*place
	clients  []*place
	blows    sync.WaitGroup

	mu     sync.Mutex
	report Report
}

// Run tortures a database, and reports what it found. An error says that the torture itself could not be done.
func Run(ctx context.Context, opts Options) (*Report, error) {
	o := &orchestra{Options: opts}
	o.setDefaults()
	o.report = Report{Store: o.Store, Seed: o.Seed, Mixed: o.Other != ""}
	dir, err := os.MkdirTemp(o.Dir, "cairn-torture-")
	if err != nil {
		return nil, err
	}
	o.dir = dir
	if err := os.Chmod(dir, 0o755); err != nil { // the server of PostgreSQL may run as another user
		return nil, err
	}
	if o.database, err = newDatabase(ctx, o.Store, dir); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	err = o.play(ctx)
	o.killAll()
	return o.finish(err)
}

// finish removes what was made, unless somebody should look at it.
func (o *orchestra) finish(err error) (*Report, error) {
	o.report.NotFull = o.database.full
	if err == nil && len(o.report.Findings) == 0 && !o.Keep {
		return &o.report, errors.Join(o.database.end(""), unmount(o.database), os.RemoveAll(o.dir))
	}
	o.report.Kept = o.dir
	return &o.report, errors.Join(err, o.database.end(filepath.Join(o.dir, "kept")), unmount(o.database))
}

// play is the whole torture, from the first process to the audit.
func (o *orchestra) play(ctx context.Context) error {
	o.cast()
	for _, p := range append(o.workers, o.clients...) {
		if err := p.begin(); err != nil {
			return err
		}
	}
	st, err := o.open(ctx)
	if err != nil {
		return err
	}
	defer st.Close() //nolint:errcheck // what matters was read
	patrol, err := newPatrol(ctx, o, st)
	if err != nil {
		return err
	}
	o.hurt(ctx, patrol)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	o.Say("%s: settling", o.Store)
	if err := o.settle(ctx, patrol); err != nil {
		return err
	}
	o.Say("%s: audit", o.Store)
	book, err := openLedger(o.database.url())
	if err != nil {
		return err
	}
	defer book.db.Close() //nolint:errcheck // what matters was read
	entered, err := book.read(ctx)
	if err != nil {
		return err
	}
	err = o.audit(ctx, st, entered)
	o.report.Audited = err == nil
	return err
}

// cast makes the places of the processes.
func (o *orchestra) cast() {
	m := member{url: o.database.url(), lease: o.Lease, seed: o.Seed, most: o.Most, rate: o.Rate / float64(o.Clients)}
	for i := range o.Workers {
		p := &place{name: fmt.Sprint(workerDiaries, i), role: "worker", program: o.Program, dir: o.dir, member: m, wrong: o.found}
		if o.Other != "" && i%2 == 1 {
			p.program = o.Other
		}
		o.workers = append(o.workers, p)
	}
	for i := range o.Clients {
		p := &place{name: fmt.Sprint(clientDiaries, i), role: "client", program: o.Program, dir: o.dir, member: m, oneBook: true, wrong: o.found}
		p.member.client = i
		o.clients = append(o.clients, p)
	}
}

// open opens the database for the orchestrator itself, which looks after parked runs and reads everything at the end.
func (o *orchestra) open(ctx context.Context) (store.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		st, err := open.URL(ctx, o.database.url())
		if err == nil || !pause(ctx, again) {
			return st, err
		}
	}
}

// found notes something that must not be.
func (o *orchestra) found(format string, args ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.report.Findings = append(o.report.Findings, fmt.Sprintf(format, args...))
}

// count changes a number of the report.
func (o *orchestra) count(n *int64, by int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	*n += by
}

// hurt gives one blow after the other until the time is over, and waits until what they broke is whole again.
func (o *orchestra) hurt(ctx context.Context, patrol *patrol) {
	hurting, over := context.WithTimeout(ctx, o.For)
	defer over()
	walking, rest := context.WithCancel(ctx)
	var walk sync.WaitGroup
	walk.Go(func() { patrol.walk(walking) })
	begun := time.Now()
	next := blowsOf(o.Seed, deckOf(o.Store == Postgres, o.database.full == nil), o.Every, o.Lease)
	for b := next(); pause(hurting, b.After); b = next() {
		o.blows.Go(func() { o.strike(ctx, &b) })
	}
	o.report.For = time.Since(begun)
	o.blows.Wait()
	rest()
	walk.Wait()
}

// strike gives one blow.
func (o *orchestra) strike(ctx context.Context, b *blow) {
	r, err := &o.report, error(nil)
	switch b.Kind {
	case blowRestart, blowCrash:
		err = o.database.restart(ctx, b)
		o.count(&r.Restarts, 1)
	case blowCut:
		n, failed := o.database.cut(ctx, b.Share)
		if failed != nil {
			return // the server is down
		}
		o.count(&r.Cuts, n)
	case blowFull:
		err = o.database.fullFor(ctx, b)
		o.count(&r.Fulls, 1)
	case blowKillClient:
		err = o.strikeOne(ctx, o.clients, b)
	default:
		err = o.strikeOne(ctx, o.workers, b)
	}
	if err != nil && ctx.Err() == nil {
		o.found("%s failed: %v", b.Kind, err)
	}
}

// strikeOne hurts one process: the one in the place, or the next one that lives.
func (o *orchestra) strikeOne(ctx context.Context, places []*place, b *blow) error {
	for i := range places {
		p := places[(b.Place+i)%len(places)]
		l := p.take()
		if l == nil {
			continue
		}
		var err error
		switch b.Kind {
		case blowStop:
			o.count(&o.report.Stops, 1)
			l.stand(b.Lasts)
			return p.release()
		case blowEnd:
			o.count(&o.report.Ends, 1)
			err = l.end(patience)
		default:
			o.count(&o.report.Kills, 1)
			l.kill()
		}
		pause(ctx, b.Lasts)
		return errors.Join(err, p.release())
	}
	return nil
}

// settle waits until all runs have ended, with everything whole, and stops the processes.
func (o *orchestra) settle(ctx context.Context, patrol *patrol) error {
	if err := o.database.up(ctx); err != nil {
		return err
	}
	end, cancel := context.WithTimeout(ctx, o.Settle)
	defer cancel()
	var clients sync.WaitGroup
	for _, p := range o.clients {
		clients.Go(func() {
			if err := p.finish(o.Settle); err != nil {
				o.found("%v", err)
			}
		})
	}
	patrol.untilAllEnded(end)
	clients.Wait()
	patrol.untilAllEnded(end) // a client may have started one more
	var workers sync.WaitGroup
	for _, p := range o.workers {
		workers.Go(func() {
			if err := p.retire().end(patience); err != nil {
				o.found("%v", err)
			}
		})
	}
	workers.Wait()
	return errors.Join(ctx.Err(), patrol.stop(ctx))
}

// killAll leaves no process behind.
func (o *orchestra) killAll() {
	for _, p := range append(o.workers, o.clients...) {
		if l := p.retire(); l != nil {
			l.kill()
		}
	}
}
