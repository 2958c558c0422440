package torture

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

const (
	// lookEvery is how often a worker looks at its clock and at the numbers of its engine, and stallAfter how late that must be to be noted.
	lookEvery  = 100 * time.Millisecond
	stallAfter = 300 * time.Millisecond
	// grace is how long a worker that is asked to stop may take to end what it does.
	grace = 5 * time.Second
)

// member is what a process of the orchestrator is told when it begins. The flags are the same in all versions of the program, so that they can be mixed.
type member struct {
	url    string
	diary  string
	lease  time.Duration
	seed   uint64
	client int
	most   int     // runs that a client has under way
	rate   float64 // starts in a second
}

func memberFlags(role string, args []string) (*member, error) {
	m := &member{}
	f := flag.NewFlagSet(role, flag.ContinueOnError)
	f.StringVar(&m.url, "store", "", "the database")
	f.StringVar(&m.diary, "diary", "", "the file to write to")
	f.DurationVar(&m.lease, "lease", time.Second, "after which a silent process is taken for dead")
	f.Uint64Var(&m.seed, "seed", 1, "from which the orders follow")
	f.IntVar(&m.client, "client", 0, "which client this is")
	f.IntVar(&m.most, "most", 20, "runs that a client has under way at the same time")
	f.Float64Var(&m.rate, "rate", 10, "runs that a client starts in a second")
	return m, f.Parse(args)
}

func (m *member) args(role string) []string {
	return []string{
		role, "-store", m.url, "-diary", m.diary, "-lease", m.lease.String(), "-seed", fmt.Sprint(m.seed), "-client", fmt.Sprint(m.client),
		"-most", fmt.Sprint(m.most), "-rate", fmt.Sprint(m.rate),
	}
}

// Worker is the life of a worker: it executes runs until ctx ends. One in four has a mistake in its code for a while.
func Worker(ctx context.Context, args []string) error { return worker(ctx, args, rand.IntN(4) == 0) }

func worker(ctx context.Context, args []string, mistaken bool) error {
	m, err := memberFlags("worker", args)
	if err != nil {
		return err
	}
	d, err := openDiary(m.diary, false)
	if err != nil {
		return err
	}
	eng, st, err := m.engine(ctx, newGuide(d, mistaken).journey)
	if ctx.Err() != nil {
		return nil // it was stopped before there was a database
	}
	if err != nil {
		return err
	}
	watch(ctx, d, eng)
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if err := eng.Stop(end); err != nil {
		slog.WarnContext(ctx, "the engine was not stopped in time", slog.Any("error", err))
	}
	return st.Close()
}

// engine opens the database and starts an engine on it, as soon as that is possible.
func (m *member) engine(ctx context.Context, workflows ...cairn.Definition) (*cairn.Engine, store.Store, error) {
	logger := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))
	for {
		st, err := open.URL(ctx, m.url)
		if err == nil {
			var eng *cairn.Engine
			eng, err = cairn.NewWith(ctx, store.NewHandle(st), cairn.Config{
				Lease: m.lease, Poll: 200 * time.Millisecond, MaxWaiting: 40, Logger: logger, Build: fmt.Sprint("process ", os.Getpid()),
			}, workflows...)
			if err == nil {
				return eng, st, nil
			}
			_ = st.Close() // the database is down; it is opened again
		}
		logger.WarnContext(ctx, "no engine yet", slog.Any("error", err))
		if !pause(ctx, 50*time.Millisecond) {
			return nil, nil, ctx.Err()
		}
	}
}

// watch notes when this process stood still, and what its engine counts, until ctx ends.
func watch(ctx context.Context, d *diary, eng *cairn.Engine) {
	last, died, lost := time.Now(), int64(0), int64(0)
	for pause(ctx, lookEvery) {
		now := time.Now()
		// Without the monotonic clock, which may stand still with the process.
		if now.Round(0).Sub(last.Round(0)) > lookEvery+stallAfter {
			d.write(line{Says: saysStall, From: last.UnixMicro()})
		}
		last = now
		if s := eng.Stats(); s.PeersDied != died || s.LeasesLost != lost {
			died, lost = s.PeersDied, s.LeasesLost
			d.write(line{Says: saysStats, PeersDied: died, LeasesLost: lost})
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
