// Package check holds a database against its own promise: the views of a run equal the fold of its journal.
//
// [Views] looks at one run, [All] at every run or at the newest ones. Both only read, through [store.Reader], so they work on
// every store and beside programs that write. What they cannot see are rows that belong to no run.
package check

import (
	"context"
	"errors"
	"fmt"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// ErrMoving says that a run changed each time while it was being looked at.
var ErrMoving = errors.New("the run changes faster than it can be read")

// tries is how often a run is looked at again that was written to in the meantime.
const tries = 10

// Difference is one point in which the database does not say what the journal says.
type Difference struct {
	Namespace string
	Run       journal.ID
	// Where is "run", "journal", or the kind and the id or key of a part of the run.
	Where string
	// Field of it, or "" if it is there in one of the two only.
	Field string
	// Stored is what the database has, Folded what follows from the journal. Payloads are shown by size and digest.
	Stored, Folded string
}

// String says it in a sentence.
func (d Difference) String() string {
	text := fmt.Sprintf("%s in %s: %s", journal.PrefixRun.Format(d.Run), d.Namespace, d.Where)
	switch {
	case d.Folded == "":
		return text + " " + d.Stored
	case d.Field == "":
		return fmt.Sprintf("%s is %s, the journal says %s", text, d.Stored, d.Folded)
	default:
		return fmt.Sprintf("%s: %s is %s, the journal says %s", text, d.Field, d.Stored, d.Folded)
	}
}

// Views rebuilds the views of a run from its journal and returns where the stored ones differ. Who owns the run, when it wakes and when
// it was updated are not compared: these do not follow from the journal.
//
// now is needed because a hook that was kept beyond the end of its run may be gone when its time is over. An error means
// that nothing can be said: the run does not exist, a newer program wrote it ([cairnerr.CodeUnknownEvent]), it is written to
// all the time ([ErrMoving]), or the database failed.
func Views(ctx context.Context, r store.Reader, namespace string, run journal.ID, now journal.Time) ([]Difference, error) {
	found, _, err := views(ctx, r, namespace, run, now)
	return found, err
}

// views also returns the number of events that it has seen.
func views(ctx context.Context, r store.Reader, namespace string, run journal.ID, now journal.Time) ([]Difference, int64, error) {
	for range tries {
		c := &comparison{reader: r, namespace: namespace, run: run, now: now}
		log, err := r.Journal(ctx, namespace, run, 0)
		if err != nil {
			err = c.damage("journal", err)
			return c.found, 0, err
		}
		err = c.compare(ctx, log)
		if err != nil || len(c.found) == 0 {
			return c.found, log.Seq, err
		}
		after, err := r.Journal(ctx, namespace, run, log.Seq)
		if err == nil && after.Seq == log.Seq {
			return c.found, log.Seq, nil
		}
		if err != nil {
			err = c.damage("journal", err)
			return c.found, log.Seq, err
		}
	}
	return nil, 0, fmt.Errorf("%s: %w", journal.PrefixRun.Format(run), ErrMoving)
}
