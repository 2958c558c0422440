package torture

import (
	"fmt"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// plant is one fact that is changed in what peaceful processes leave.
type plant struct {
	finds      string // a part of the format of the finding, which no other finding has
	book       string // in which lines are changed, or removed
	lines      func(*line) bool
	as         func(*line)
	statements []string // that change the database
	mixed      bool     // the audit is told that two versions worked together
}

// plants has at least one for each rule of the audit.
func plants() map[string]plant {
	worker, client := workerDiaries+"0-1", clientDiaries+"0"
	begun := func(l *line) bool { return l.Says == saysBegin }
	told := func(ask string) func(*line) bool {
		return func(l *line) bool { return l.Says == saysTold && l.Ask == ask }
	}
	elsewhere := func(l *line) { l.Run = "wrun_x" }
	return map[string]plant{
		// What steps have done.
		"an effect is missing":               {finds: "was never done", book: worker, lines: func(l *line) bool { return l.Says == saysEnd && l.Key == "work" }},
		"a step was begun after its outcome": {finds: "after its outcome was recorded", book: worker, lines: begun, as: func(l *line) { l.At += time.Hour.Microseconds() }},
		"another idempotency key":            {finds: "the idempotency key of", book: worker, lines: func(l *line) bool { return l.Says == saysEnd }, as: func(l *line) { l.Idem = "step_x" }},
		"an effect of nobody":                {finds: "does not exist", book: worker, lines: begun, as: elsewhere},
		"an effect without a step":           {finds: "has no outcome", book: worker, lines: func(l *line) bool { return l.Says == saysBegin && l.Attempt == 1 }, as: func(l *line) { l.Key = "work#99" }},
		"a failure without an attempt":       {finds: "was never begun", book: worker, lines: begun, as: func(l *line) { l.Attempt += 100 }},
		"attempts that nobody made":          {finds: "attempts that failed, and %d were begun", book: worker, lines: func(l *line) bool { return l.Says == saysBegin && l.Attempt < 3 }, as: func(l *line) { l.Attempt = 3 }},
		"the other version was idle":         {finds: "the other version did nothing", mixed: true},

		// What clients were told.
		"an acknowledged start is gone":          {finds: "the start of %s was acknowledged", book: client, lines: told(askStart), as: elsewhere},
		"a refused start is there":               {finds: "the start of %s was refused", book: client, lines: told(askStart), as: func(l *line) { l.Says, l.Code = saysRefused, string(cairnerr.CodeDiskFull) }},
		"an acknowledged send was not received":  {finds: "was not received", book: client, lines: told(askSend), as: func(l *line) { l.Key = "x" }},
		"a refused send was received":            {finds: "and was received", book: client, lines: told(askSend), as: func(l *line) { l.Says, l.Code = saysRefused, string(cairnerr.CodeHookConsumed) }},
		"something nobody sent":                  {finds: "which nobody sent", book: client, lines: func(l *line) bool { return l.Says == saysAsk && l.Ask == askSend }},
		"a run nobody asked for":                 {finds: "nobody asked for it", book: client, lines: func(l *line) bool { return l.Ask == askStart && l.Order == "0-3" }},
		"a client was told of another end":       {finds: "a client was told", book: client, lines: func(l *line) bool { return l.Says == saysEnded }, as: func(l *line) { l.Text += "!" }},
		"something a client found wrong":         {finds: "a client says", book: client, lines: func(l *line) bool { return l.Says == saysEnded }, as: func(l *line) { l.Says = saysWrong }},
		"an acknowledged fork is gone":           {finds: "the fork of", book: client, lines: told(askFork), as: elsewhere},
		"an acknowledged pause is not recorded":  {finds: "the pause of", book: client, lines: told(askStart), as: func(l *line) { l.Ask = askPause }},
		"an acknowledged note is gone":           {finds: "a note on", book: client, lines: told(askStart), as: func(l *line) { l.Ask = askNote }},
		"an acknowledged attribute is gone":      {finds: "an attribute of", book: client, lines: told(askStart), as: func(l *line) { l.Ask = askMark }},
		"an acknowledged cancel is not recorded": {finds: "the %s of %s was acknowledged", statements: []string{`delete from cairn_events where type in (5, 18)`}},
		"an entry without its run":               {finds: "was entered with its start", statements: []string{`update torture_ledger set run = 'wrun_x'`}},
		"a run without its entry":                {finds: "was not entered", statements: []string{`delete from torture_ledger`}},
		"a run is not found":                     {finds: "are found by the attribute", statements: []string{`delete from cairn_attributes`}},

		// What is recorded.
		"a gap in the journal":         {finds: "stands in place", statements: []string{fmt.Sprintf(`delete from cairn_events where type = %d`, journal.EventRunStarted)}},
		"a step has two outcomes":      {finds: "has two outcomes", statements: []string{recordTwice(journal.EventStepCompleted)}},
		"something was received twice": {finds: "was received twice", statements: []string{recordTwice(journal.EventHookReceived)}},
		"two runs of one start": {finds: "%s has %d runs", statements: []string{
			fmt.Sprintf(`update cairn_events set input = (select input from cairn_events where type = %[1]d and run = 1) where type = %[1]d and run = 2`, journal.EventRunCreated),
		}},
		"two forks of one run": {finds: "%s has %d forks", statements: []string{
			fmt.Sprintf(`update cairn_events set input = (select input from cairn_events where type = %[1]d and run = (select min(run) `+forks+`))
				where type = %[1]d and run in (select run `+forks+`)`, journal.EventRunCreated),
		}},
		"a fork keeps what nobody has done": {finds: "keeps an outcome", statements: []string{
			`update cairn_events set key = 'work#77' where key like 'work%' and run in (select run ` + forks + `)`,
		}},
		"a wrong result":                   {finds: "returned %q", statements: []string{fmt.Sprintf(`update cairn_events set output = x'016178' where type = %d`, journal.EventRunCompleted)}}, // "x"
		"a run failed":                     {finds: "is %s: ", statements: []string{fmt.Sprintf(`update cairn_runs set status = %d where no = 1`, journal.StatusFailed)}},
		"a cancelled run did not clean up": {finds: "did not clean up", statements: []string{`update cairn_events set key = 'work' where key = 'work@` + cleanUpKey + `'`}},
		"a sleep ended early":              {finds: "before its time", statements: []string{fmt.Sprintf(`update cairn_events set at = at - 3600000 where type = %d`, journal.EventWaitCompleted)}},
		"poison that killed nobody": {finds: "was parked as poison", statements: []string{ // the data is {1: {1: "poison"}}
			fmt.Sprintf(`update cairn_events set type = %d, data = x'a101a10166706f69736f6e' where type = %d`, journal.EventRunParked, journal.EventRunStarted),
		}},
		"a view is wrong": {finds: "differs from the fold", statements: []string{
			`update cairn_runs set completed_at = completed_at + 1 where no = 1`,
		}},
		"an event of a newer program": {finds: "could not be held against", statements: []string{fmt.Sprintf(`update cairn_events set type = 99 where type = %d`, journal.EventRunStarted)}},
		"a run goes on": {finds: "(%s) has not ended", statements: []string{
			`delete from cairn_events where run = 1 and seq = (select end_seq from cairn_runs where no = 1)`,
			`update cairn_runs set status = 1, completed_at = null, end_seq = null where no = 1`,
		}},
		"a chunk is gone": {finds: "its stream holds", statements: []string{
			`delete from cairn_chunks where rowid in (select max(rowid) from cairn_chunks group by stream)`,
		}},
		"a gap in a stream": {finds: "its stream has chunk", statements: []string{`delete from cairn_chunks where idx = 1`}},
	}
}

// forks selects from what only the runs that are forks have.
const forks = `from cairn_attributes where key like '%%forked_from'`

// recordTwice appends the first event of a kind to the journal that has it.
func recordTwice(kind journal.EventType) string {
	return fmt.Sprintf(`insert into cairn_events (run, seq, type, at, entity, key, data, input, output)
		select run, (select max(seq) + 1 from cairn_events where run = e.run), type, at, entity, key, data, input, output
		from cairn_events e where type = %d order by n limit 1`, kind)
}
