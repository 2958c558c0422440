package show

import (
	"context"
	"strings"

	"github.com/cairn-workflow/cairn"
)

// Run is a run with its timeline and its children.
type Run struct {
	Info     *cairn.RunInfo
	Rows     []*Row // in the order in which they began
	Children []*Run // those that no row stands for
}

// parked reports whether a run goes on only when somebody resumes it.
func parked(info *cairn.RunInfo) bool {
	return info.Phase == cairn.PhaseParked || info.Phase == cairn.PhasePaused
}

// over reports whether nothing more will happen: the run has ended, or is parked until somebody has looked at it.
func (r *Run) over() bool { return !r.Info.EndedAt.IsZero() || parked(r.Info) }

// Done counts the steps of a name that are finished.
func (r *Run) Done(name string) int {
	n := 0
	for _, row := range r.Rows {
		if row.Name == name && row.State == Done {
			n++
		}
	}
	return n
}

// Row returns the first row with a name, nil if there is none yet.
func (r *Run) Row(name string) *Row {
	for _, row := range r.Rows {
		if row.Name == name {
			return row
		}
	}
	return nil
}

// readAll reads runs. Those that were over before have not changed.
func readAll(ctx context.Context, eng *cairn.Engine, before []*Run, ids []string) ([]*Run, error) {
	runs := make([]*Run, len(ids))
	for i, id := range ids {
		if i < len(before) && before[i].settled() {
			runs[i] = before[i]
			continue
		}
		r, err := read(ctx, eng, id)
		if err != nil {
			return nil, err
		}
		runs[i] = r
	}
	return runs, nil
}

// settled reports whether the run and all below it have ended.
func (r *Run) settled() bool {
	if r.Info.EndedAt.IsZero() {
		return false
	}
	for _, c := range r.below() {
		if !c.settled() {
			return false
		}
	}
	return true
}

// below returns the children, in the order in which they are shown.
func (r *Run) below() []*Run {
	var out []*Run
	for _, row := range r.Rows {
		if row.Child != nil {
			out = append(out, row.Child)
		}
	}
	return append(out, r.Children...)
}

// read reads a run, its history and its children. The description comes first: so the history knows at least as much.
func read(ctx context.Context, eng *cairn.Engine, id string) (*Run, error) {
	info, err := eng.Run(id).Describe(ctx)
	if err != nil {
		return nil, err
	}
	t := newTimeline()
	for event, err := range eng.Run(id).History(ctx) {
		if err != nil {
			return nil, err
		}
		if err := t.add(event); err != nil {
			return nil, err
		}
	}
	t.merge(info)
	r := &Run{Info: info, Rows: t.shown()}
	return r, r.readChildren(ctx, eng)
}

func (r *Run) readChildren(ctx context.Context, eng *cairn.Engine) error {
	filter := cairn.Filter{ParentID: r.Info.ID}
	for {
		page, err := eng.List(ctx, filter)
		if err != nil {
			return err
		}
		for _, info := range page.Runs {
			child, err := read(ctx, eng, info.ID)
			if err != nil {
				return err
			}
			r.adopt(child)
		}
		if !page.More {
			return nil
		}
		filter.Cursor = page.Cursor
	}
}

// adopt puts a child where its parent has started it. The parent may not have written that down yet.
func (r *Run) adopt(child *Run) {
	for _, row := range r.Rows {
		if row.child != "" && strings.HasSuffix(child.Info.ID, row.child) {
			row.Child = child
			return
		}
	}
	r.Children = append(r.Children, child)
}
