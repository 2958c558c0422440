package sqlite

import (
	"sync/atomic"

	"github.com/cairn-workflow/cairn/store"
)

// The index on states leaves out the newest runs, those behind the mark of cairn_young. Most runs end while they are among them: they are never written to
// the index, nor taken out of it, which is every fifth page of a short run. Who looks for runs by their state looks into the index and through the newest. When
// these have become too many, the batch that has added the last one puts the older of them into the index, unless they are complete by then.
//
// What holds: a run that is not complete is in the index (young = 0), or it is young and behind the mark; never both.
const (
	ageRuns  = `update cairn_runs set young = 0 where no > (select mark from cairn_young) and no <= ?1 and young = 1 and status <> 2`
	moveMark = `update cairn_young set mark = ?1 where mark < ?1`

	// oldRuns and youngRuns find runs of other states than completed. Both together have each of them once.
	oldRuns   = ` cairn_runs r indexed by cairn_runs_status where r.young = 0 and r.status <> 2`
	youngRuns = ` cairn_runs r not indexed where r.no > (select mark from cairn_young) and r.young = 1 and r.status <> 2`
)

// Looking through the young runs takes a millisecond.
const (
	youngRunsKept = 1024
	youngRunsMore = 128
)

// youth says which runs are young.
type youth struct {
	kept int64        // so many of the newest, at least
	more int64        // and about so many more, before the older ones are put into the index
	mark atomic.Int64 // where this process has seen the mark. Others move it too.
}

// age puts runs into the index on states if too many are not in it.
func (t *tx) age(refs []int64, runs []store.RunChange) error {
	y := &t.w.store.youth
	mark := int64(0)
	for i := range runs {
		if runs[i].New {
			mark = max(mark, refs[i]-y.kept)
		}
	}
	if mark < y.mark.Load()+y.more {
		return nil
	}
	for _, statement := range []string{ageRuns, moveMark} {
		if _, err := t.w.raw.exec(statement, mark); err != nil {
			return err
		}
	}
	y.mark.Store(mark) // if the transaction is taken back, the next ones do more
	return nil
}
