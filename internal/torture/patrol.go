package torture

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store"
)

// patrol looks after runs that are parked, as a person would.
type patrol struct {
	o      *orchestra
	eng    *cairn.Engine
	wrong  map[string]bool // runs that were found parked for a reason that should not be
	finale bool            // nobody pauses runs any more
}

func newPatrol(ctx context.Context, o *orchestra, st store.Store) (*patrol, error) {
	p := &patrol{o: o, wrong: map[string]bool{}}
	return p, insist(ctx, func(context.Context) (err error) {
		p.eng, err = cairn.NewWith(ctx, store.NewHandle(st), cairn.Config{Lease: o.Lease, Poll: time.Second, Logger: slog.New(slog.DiscardHandler)})
		return err
	})
}

// walk looks from time to time, until ctx ends.
func (p *patrol) walk(ctx context.Context) {
	for pause(ctx, 2*time.Second) {
		_, _ = p.look(ctx) // the database may be down
	}
}

// untilAllEnded waits until all runs have ended. Those that have not when ctx ends are findings.
func (p *patrol) untilAllEnded(ctx context.Context) {
	p.finale = true
	for {
		left, err := p.look(ctx)
		if err == nil && len(left) == 0 {
			return
		}
		if !pause(ctx, 200*time.Millisecond) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	left, err := p.look(ctx)
	if err != nil {
		p.o.found("the runs that have not ended cannot be listed: %v", err)
	}
	for _, run := range left {
		info, err := p.eng.Run(run.ID).Describe(ctx)
		if err != nil {
			p.o.found("%s has not ended, and cannot be described: %v", run.ID, err)
			continue
		}
		p.o.found("%s has not ended: %s %s, waits for %+v, error %v\n%s", run.ID, info.Status, info.Phase, info.Waits, info.Error, p.history(ctx, run.ID))
	}
}

// look lists the runs that have not ended, and lets those go on that were parked because their processes were killed.
func (p *patrol) look(ctx context.Context) (left []*cairn.RunInfo, err error) {
	filter := cairn.Filter{Status: []cairn.Status{cairn.StatusPending, cairn.StatusRunning}, Limit: 1000}
	for {
		page, err := p.eng.List(ctx, filter)
		if err != nil {
			return nil, err
		}
		left = append(left, page.Runs...)
		if !page.More {
			break
		}
		filter.Cursor = page.Cursor
	}
	for _, run := range left {
		if !stopped(run) || p.wrong[run.ID] {
			continue
		}
		if err := p.mend(ctx, run.ID); err != nil {
			return left, err
		}
	}
	return left, nil
}

// stopped reports whether a run goes on only when somebody resumes it.
func stopped(run *cairn.RunInfo) bool {
	return run.Phase == cairn.PhaseParked || run.Phase == cairn.PhasePaused
}

// mend lets a parked run go on, if it is parked for a good reason.
func (p *patrol) mend(ctx context.Context, id string) error {
	info, err := p.eng.Run(id).Describe(ctx)
	if err != nil || !stopped(info) || info.Error == nil {
		return err
	}
	switch info.Error.Code {
	case cairnerr.CodePoison:
		p.o.count(&p.o.report.Poisoned, 1)
	case cairnerr.CodePanic, cairnerr.CodeDecode: // a mistake in the code, which another program may not have
		p.o.count(&p.o.report.Mistaken, 1)
	case cairnerr.CodePaused:
		if !p.finale {
			return nil // its client lets it go on
		}
	default:
		p.wrong[id] = true
		p.o.found("%s is parked: %v", id, info.Error)
		return nil
	}
	if err := p.eng.Run(id).By("patrol").Resume(ctx); err != nil && !isAnswer(err) {
		return err
	}
	return nil
}

// history is a run's journal for people.
func (p *patrol) history(ctx context.Context, id string) string {
	var text strings.Builder
	for e, err := range p.eng.Run(id).History(ctx) {
		if err != nil {
			return err.Error()
		}
		fmt.Fprintf(&text, "  %d %s %s %s %s\n", e.Seq, e.At.Format("15:04:05.000"), e.Type, e.Key, e.Detail)
	}
	return text.String()
}

// stop ends the patrol, which is also a process that declares others dead.
func (p *patrol) stop(ctx context.Context) error {
	p.o.count(&p.o.report.Deaths, p.eng.Stats().PeersDied)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return p.eng.Stop(ctx)
}
