package storetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// t0 is when every test begins.
const t0 = journal.Time(1_767_225_600_000) // 2026-01-01T00:00:00.000Z

// bench is one process on the store: it plays the committer, for one command at a time.
type bench struct {
	*testing.T
	factory Factory
	store   store.Store
	writer  store.Writer
	self    journal.ID // the incarnation of the writer
	ns      string
	now     journal.Time
	ids     *journal.Minter
	context context.Context
}

// patience is how long a test may take before its store is told to give up, so that a store that never answers fails one test
// and not all.
const patience = 3 * time.Minute

// newBench returns a bench with a namespace of its own. Ids differ between tests and are the same in each run of one.
func newBench(t *testing.T, f Factory, s store.Store) *bench {
	t.Helper()
	seed := sha256.Sum256([]byte(t.Name()))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	b := &bench{T: t, context: ctx, factory: f, store: s, ns: fmt.Sprintf("ns-%x", seed[:6]), now: t0, ids: journal.NewMinter(chacha(seed))}
	b.open(s)
	return b
}

// open gives the bench a writer on a store, as a new incarnation.
func (b *bench) open(s store.Store) {
	b.Helper()
	b.store, b.self = s, b.mint()
	b.writer = b.openWriter(b.self, 0)
}

func (b *bench) openWriter(incarnation journal.ID, number int) store.Writer {
	b.Helper()
	w, err := b.store.OpenWriter(b.ctx(), incarnation, number)
	require.NoError(b, err)
	b.Cleanup(func() { _ = w.Close() })
	return w
}

// peer returns another process on the same database.
func (b *bench) peer() *bench {
	b.Helper()
	p := *b
	p.open(b.factory.Again(b.T, b.store))
	return &p
}

// in returns the same process in another namespace.
func (b *bench) in(namespace string) *bench {
	other := *b
	other.ns = namespace
	return &other
}

// foreign returns the same process in a namespace that shares nothing with that of b. It has a run of its own: a namespace that
// does not exist would hide a query that does not look at it.
func (b *bench) foreign() *bench {
	b.Helper()
	other := b.in(b.ns + "-foreign")
	other.start(journal.World3)
	return other
}

func (b *bench) ctx() context.Context { return b.context }

// mint returns a new id.
func (b *bench) mint() journal.ID {
	b.Helper()
	id, err := b.ids.Mint(b.now)
	require.NoError(b, err)
	return id
}

// later moves the clock.
func (b *bench) later(d time.Duration) { b.now = b.now.Add(d) }

func (b *bench) env() journal.Env { return journal.Env{Now: b.now, Self: b.self} }

func (b *bench) begin() store.Tx {
	b.Helper()
	tx, err := b.writer.Begin(b.ctx(), b.now)
	require.NoError(b, err)
	b.Cleanup(tx.Rollback)
	return tx
}

// errBusyRun says that somebody else holds the run.
var errBusyRun = errors.New("the run is busy")

// load reads one run in a batch: the complete state for its owner, else what the command touches.
func (b *bench) load(tx store.Tx, cmd *journal.Command) (*journal.State, *journal.Outside, error) {
	want := &store.LoadSet{
		Runs:      []store.LoadRun{{Namespace: cmd.Namespace, Run: cmd.Run, EventsAfter: -1, Touch: cmd.Touches()}},
		StartKeys: cmd.StartKeys(),
	}
	for _, token := range cmd.Tokens() {
		want.Tokens = append(want.Tokens, store.Token{Namespace: cmd.Namespace, Token: token})
	}
	if id := cmd.Guards.Delivery.Message; !id.IsZero() {
		want.Messages = []journal.ID{id}
	}
	complete := !cmd.Guards.Owner.Incarnation.IsZero()
	if complete {
		want.Runs[0].EventsAfter, want.Runs[0].Touch = 0, journal.Touch{}
	}
	loaded, err := tx.Load(b.ctx(), want)
	if err != nil {
		return nil, nil, err
	}
	got := loaded.Runs[0]
	switch {
	case got.Busy:
		return nil, nil, errBusyRun
	case got.State.Run == nil:
		return journal.NewState(cmd.Namespace), loaded.Outside, nil
	}
	if complete {
		got.State, err = (&store.Journal{Run: got.State.Run, Ref: got.State.Ref, Events: got.Events}).State(cmd.Namespace)
		if err != nil {
			return nil, nil, err
		}
	}
	if owner := got.State.Run.Owner; cmd.Lease == journal.LeaseClaim && !owner.IsZero() {
		more, err := tx.Load(b.ctx(), &store.LoadSet{Owners: []journal.ID{owner}})
		if err != nil {
			return nil, nil, err
		}
		loaded.Outside.Fenced = more.Outside.Fenced
	}
	return got.State, loaded.Outside, nil
}

// change returns what a reduced command changes.
func (b *bench) change(s *journal.State, was *journal.Run, res *journal.Result) *store.Changes {
	c := &store.Changes{
		Runs:     []store.RunChange{{State: s, New: was == nil, Events: res.Appended, Kept: res.Kept, Rows: s.Changed(), Was: was}},
		Messages: res.Effects.Messages,
		Notify:   []string{b.ns},
	}
	for _, id := range res.Effects.Wake {
		if id != s.Run.ID {
			c.Wake = append(c.Wake, store.RunKey{Namespace: s.Namespace, Run: id})
		}
	}
	if done := res.Effects.Done; !done.IsZero() {
		c.Done = []journal.ID{done}
	}
	return c
}

// try applies a command: load, reduce, commit. Nobody else may be at work on its run.
func (b *bench) try(cmd *journal.Command) (*journal.Result, error) {
	b.Helper()
	res, err := b.race(cmd)
	for _, hit := range []error{errBusyRun, store.ErrBusy, store.ErrConflict, store.ErrUnknownOutcome} {
		require.NotErrorIs(b, err, hit)
	}
	return res, err
}

// race applies a command where others may want the same.
func (b *bench) race(cmd *journal.Command) (*journal.Result, error) {
	b.complete(cmd)
	tx, err := b.writer.Begin(b.ctx(), b.now)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback()
	state, outside, err := b.load(tx, cmd)
	if err != nil {
		return nil, err
	}
	was := state.Run
	res, err := state.Reduce(cmd, b.env(), outside)
	if err != nil || res.Existing {
		return res, err
	}
	if err := tx.Commit(b.ctx(), b.change(state, was, res)); err != nil {
		return nil, err
	}
	state.Commit()
	return res, nil
}

// insist applies a command as often as others get in its way.
func (b *bench) insist(cmd *journal.Command) (*journal.Result, error) {
	for {
		res, err := b.race(cmd)
		if !errors.Is(err, errBusyRun) && !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrConflict) {
			return res, err
		}
		if b.ctx().Err() != nil {
			return nil, b.ctx().Err()
		}
	}
}

// complete fills in what most commands leave out.
func (b *bench) complete(cmd *journal.Command) {
	if cmd.Namespace == "" {
		cmd.Namespace = b.ns
	}
	for i := range cmd.Messages {
		if cmd.Messages[i].Namespace == "" {
			cmd.Messages[i].Namespace = b.ns
		}
	}
}

func (b *bench) must(cmd *journal.Command) *journal.Result {
	b.Helper()
	res, err := b.try(cmd)
	require.NoError(b, err)
	return res
}

// start makes a run that is running. In dialect Engine the bench owns it.
func (b *bench) start(d journal.Dialect, edit ...func(*journal.RunCreated)) journal.ID {
	b.Helper()
	run := b.mint()
	b.must(b.starting(run, d, edit...))
	return run
}

func (b *bench) starting(run journal.ID, d journal.Dialect, edit ...func(*journal.RunCreated)) *journal.Command {
	created := birth(d)
	for _, e := range edit {
		e(created)
	}
	cmd := &journal.Command{Namespace: b.ns, Run: run, Events: []journal.Event{{Data: created}, {Data: &journal.RunStarted{}}}}
	if d == journal.Engine {
		cmd.Guards.Owner = journal.Ownership{Incarnation: b.self}
	}
	return cmd
}

// birth is how runs begin.
func birth(d journal.Dialect) *journal.RunCreated {
	spec := [...]int{journal.Engine: 0, journal.World3: 4, journal.World6: 6}[d]
	return &journal.RunCreated{Workflow: "checkout", Dialect: d, Spec: spec, Input: payload("in")}
}

// owner is who owns the run now.
func (b *bench) owner(run journal.ID) journal.Ownership {
	b.Helper()
	r, err := b.store.Run(b.ctx(), b.ns, run, store.ResolveNone)
	require.NoError(b, err)
	return journal.Ownership{Incarnation: r.Owner, Epoch: r.Epoch}
}

// write writes events to a run, as its owner if it has one.
func (b *bench) write(run journal.ID, events ...journal.Event) *journal.Result {
	b.Helper()
	return b.must(&journal.Command{Run: run, Events: events, Guards: journal.Guards{Owner: b.owner(run)}})
}

// outsider writes events to a run without owning it.
func (b *bench) outsider(run journal.ID, events ...journal.Event) {
	b.Helper()
	b.must(&journal.Command{Run: run, Events: events})
}

// cached is a run as its owner keeps it in memory.
func (b *bench) cached(run journal.ID) *journal.State {
	b.Helper()
	j, err := b.store.Journal(b.ctx(), b.ns, run, 0)
	require.NoError(b, err)
	s, err := j.State(b.ns)
	require.NoError(b, err)
	return s
}

// optimistic reduces a command on a cached state, and returns what is to be committed without Load.
func (b *bench) optimistic(s *journal.State, cmd *journal.Command) *store.Changes {
	b.Helper()
	b.complete(cmd)
	was := s.Run
	res, err := s.Reduce(cmd, b.env(), journal.NewOutside())
	require.NoError(b, err)
	return b.change(s, was, res)
}

// commit commits a batch without Load.
func (b *bench) commit(c *store.Changes) error {
	b.Helper()
	return b.begin().Commit(b.ctx(), c)
}

func payload(text string) journal.Payload { return journal.Payload(text) }

// about returns an event about an entity that has an id of its own.
func about(entity journal.ID, d journal.Data) journal.Event {
	return journal.Event{Entity: entity, Data: d}
}

// keyed returns an event about an entity of a run of dialect Engine.
func keyed(key string, d journal.Data) journal.Event { return journal.Event{Key: key, Data: d} }

func plain(d journal.Data) journal.Event { return journal.Event{Data: d} }

func requireCode(b *bench, code cairnerr.Code, err error) {
	b.Helper()
	require.Error(b, err)
	require.Equal(b, code, cairnerr.CodeOf(err), "%v", err)
}

func chacha(seed [32]byte) io.Reader { return rand.NewChaCha8(seed) }
