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

// DryRun returns the runs that would be resumed, and changes nothing.
func DryRun() ResumeOption { return resumeFunc(func(r *resumption) { r.dryRun = true }) }

// ResumeBy records who resumes the runs.
func ResumeBy(actor string) ResumeOption { return resumeFunc(func(r *resumption) { r.actor = actor }) }

// ResumeParked resumes all parked runs that match the filter, for example after their code was fixed. It returns them
// as they were before. Runs that somebody has paused are left alone.
//
// A build of the program that has parked a run does not try it again by itself; another build tries it once.
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
