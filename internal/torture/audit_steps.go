package torture

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// zombieGrace is how long a process that stood still may take to begin the body that it was about to begin.
const zombieGrace = 2 * time.Second

// readWorkers reads what the bodies of steps have done.
func (a *audit) readWorkers(dir string) error {
	diaries, err := readDiaries(dir, workerDiaries)
	if err != nil {
		return err
	}
	for life, lines := range diaries {
		died, lost := int64(0), int64(0)
		for i := range lines {
			l := &lines[i]
			switch l.Says {
			case saysBegin, saysEnd:
				a.effect(life, l)
			case saysStall:
				a.stalls[life] = append(a.stalls[life], pauseSpan{time.UnixMicro(l.From), time.UnixMicro(l.At)})
			case saysStats:
				died, lost = l.PeersDied, l.LeasesLost
			}
		}
		a.report.Deaths += died
		a.report.LeasesLost += lost
	}
	return nil
}

func (a *audit) effect(life string, l *line) {
	keys := a.effects[l.Run]
	if keys == nil {
		keys = map[string][]effect{}
		a.effects[l.Run] = keys
	}
	e := effect{life: life, at: l.At, attempt: l.Attempt, idem: l.Idem, ended: l.Says == saysEnd}
	for _, before := range keys[l.Key] {
		if before.idem != e.idem {
			a.found("%s: the idempotency key of %s was %s, and then %s", l.Run, l.Key, before.idem, e.idem)
		}
		if !e.ended && !before.ended && before.attempt == e.attempt {
			a.report.Repeated++
			break
		}
	}
	if !e.ended {
		a.report.Effects++
		if a.others[life] {
			a.report.OtherEffects++
		}
	}
	keys[l.Key] = append(keys[l.Key], e)
}

// outcome is how a step ended.
type outcome struct {
	at      journal.Time
	attempt int
	failed  *cairnerr.Error
}

// steps checks the outcomes of a run's steps, and holds them against what their bodies did.
func (a *audit) steps(r *audited, events []journal.Event) {
	outcomes, retries := r.outcomes, map[string]int{}
	end := func(e *journal.Event, o outcome) {
		if _, twice := outcomes[e.Key]; twice {
			a.found("%s: %s has two outcomes", r.id, e.Key)
		}
		outcomes[e.Key] = o
	}
	begun, paused := map[string]int{}, false // starts without an outcome
	counts := map[string]journal.Attempts{}
	for i := range events {
		e := &events[i]
		before := counts[e.Key]
		count := before
		count.Count(journal.Engine, e.Data)
		counts[e.Key] = count
		switch d := e.Data.(type) {
		case *journal.StepStarted:
			begun[e.Key]++
		case *journal.StepCompleted:
			end(e, outcome{e.At, d.Attempt, nil})
		case *journal.StepFailed:
			end(e, outcome{e.At, d.Attempt, d.Error})
		case *journal.StepRetrying:
			if count.N >= before.N { // else it takes back an attempt, which does not count
				retries[e.Key]++
			}
			delete(begun, e.Key)
		case *journal.RunResumed:
			if !paused { // somebody has looked at what was begun so often
				clear(begun)
			}
		case *journal.RunParked:
			if paused = d.Asked; d.Error != nil && d.Error.Code == cairnerr.CodePoison && !slices.ContainsFunc(slices.Collect(maps.Values(begun)), isPoison) {
				a.found("%s (%s) was parked as poison, and no step was begun so often", r.id, r.order.Name)
			}
		}
	}
	for key, o := range outcomes {
		switch {
		case !isWork(key):
		case r.source != "" && len(a.effects[r.id][key]) == 0:
			a.kept(r, key, o)
		default:
			a.report.Steps++
			a.outcome(r, key, o, retries[key])
		}
	}
	for key := range a.effects[r.id] {
		if _, ok := outcomes[key]; !ok && r.status != journal.StatusCancelled {
			a.found("%s (%s): %s was begun, and has no outcome", r.id, r.order.Name, key)
		}
	}
}

// isPoison reports whether a step was begun so often without an outcome that its run may be parked.
func isPoison(starts int) bool { return starts >= 3 }

// isWork tells the steps of journeys from children and decisions, which have no body.
func isWork(key string) bool {
	name := key[strings.LastIndexByte(key, '/')+1:]
	return name == "work" || strings.HasPrefix(name, "work#") || strings.HasPrefix(name, "work@")
}

// kept checks that what a fork has not done itself is what its source did. Sources are older, and so were read before.
func (a *audit) kept(r *audited, key string, o outcome) {
	was, ok := outcome{}, false
	if source := a.runs[r.source]; source != nil {
		was, ok = source.outcomes[key]
	}
	if !ok || was.attempt != o.attempt || (was.failed == nil) != (o.failed == nil) {
		a.found("%s (%s) keeps an outcome of %s that its source %s does not have", r.id, r.order.Name, key, r.source)
	}
}

// outcome checks that what is recorded was done, and was not begun again when it was recorded.
func (a *audit) outcome(r *audited, key string, o outcome, retries int) {
	begun, done, attempts := false, false, map[int]bool{}
	for _, e := range a.effects[r.id][key] {
		begun = begun || e.attempt == o.attempt
		done = done || e.attempt == o.attempt && e.ended
		if attempts[e.attempt] = true; e.ended || journal.Time(e.at/1000) <= o.at {
			continue
		}
		if !a.stoodStill(e, o.at) {
			a.found("%s (%s): %s was begun by %s at %d, after its outcome was recorded at %d", r.id, r.order.Name, key, e.life, e.at/1000, int64(o.at))
			continue
		}
		a.report.Zombies++
	}
	switch {
	case o.failed == nil && !done:
		a.found("%s (%s): attempt %d of %s is recorded as completed, and was never done", r.id, r.order.Name, o.attempt, key)
	case o.failed != nil && o.failed.Code == errDeclined.Code && !begun:
		a.found("%s (%s): attempt %d of %s is recorded as failed, and was never begun", r.id, r.order.Name, o.attempt, key)
	case len(attempts) < retries:
		a.found("%s (%s): %s is recorded with %d attempts that failed, and %d were begun", r.id, r.order.Name, key, retries, len(attempts))
	}
}

// stoodStill reports whether the process had been about to begin the body when the outcome was not recorded yet: a zombie may do that, once it goes on.
func (a *audit) stoodStill(e effect, recorded journal.Time) bool {
	at := time.UnixMicro(e.at)
	for _, s := range a.stalls[e.life] {
		if s.from.Before(recorded.Std()) && !at.Before(s.from) && at.Before(s.to.Add(zombieGrace)) {
			return true
		}
	}
	return false
}

// strangers looks for effects of runs that do not exist.
func (a *audit) strangers() {
	for run, keys := range a.effects {
		if a.runs[run] == nil {
			a.found("%s does not exist, and %d of its steps were begun", run, len(keys))
		}
	}
}
