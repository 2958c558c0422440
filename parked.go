package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// ResumeOption changes a call of [Engine.ResumeParked]: [DryRun], [ResumeBy].
type ResumeOption interface{ resumeOption(*resumption) }

type resumption struct {
	dryRun bool
	actor  string
}

type resumeFunc func(*resumption)

func (f resumeFunc) resumeOption(r *resumption) { f(r) }

// DryRun only shows what would be done.
func DryRun() ResumeOption { return resumeFunc(func(r *resumption) { r.dryRun = true }) }

// ResumeBy says who resumes the runs.
func ResumeBy(actor string) ResumeOption { return resumeFunc(func(r *resumption) { r.actor = actor }) }

// ResumeParked resumes all runs that fit the filter and are parked because their code could not go on: when it is fixed, or to see whether it is. It returns
// them as they were. Runs that somebody has paused are left alone.
//
// A build of the program that could not go on with a run does not try again by itself; another build does, once.
func (e *Engine) ResumeParked(ctx context.Context, f Filter, opts ...ResumeOption) ([]*RunInfo, error) {
	if err := notInWorkflow(ctx, "ResumeParked"); err != nil {
		return nil, err
	}
	if f.Phase != "" && f.Phase != PhaseParked {
		return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "ResumeParked resumes parked runs, not those that are %s", f.Phase)
	}
	f.Phase = PhaseParked
	var r resumption
	for _, o := range opts {
		o.resumeOption(&r)
	}
	var resumed []*RunInfo
	for {
		page, err := e.List(ctx, f)
		if err != nil {
			return resumed, err
		}
		for _, run := range page.Runs {
			if !r.dryRun {
				err := e.inner.Resume(ctx, run.id, r.actor)
				if code := cairnerr.CodeOf(err); code == cairnerr.CodeIllegalTransition || code == cairnerr.CodeRunEnded || code == cairnerr.CodeRunNotFound {
					continue // somebody else was faster
				} else if err != nil {
					return resumed, err
				}
			}
			resumed = append(resumed, run)
		}
		if !page.More {
			return resumed, nil
		}
		f.Cursor = page.Cursor
	}
}
