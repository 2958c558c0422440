package storetest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var logTests = []test{
	{"Append", logAppend},
	{"Delete", logDelete},
	{"Level", logLevel},
	{"Limits", logLimits},
	{"Namespaces", logNamespaces},
	{"NoRun", logNoRun},
	{"BesideTheJournal", logBesideTheJournal},
	{"Text", logText},
	{"Together", logTogether},
}

// roomy is a limit that no test reaches.
var roomy = store.LogLimit{Lines: 1000, Bytes: 1 << 20}

// line returns a line of a run.
func (b *bench) line(run journal.ID, message string) store.LogLine {
	return store.LogLine{Namespace: b.ns, Run: run, At: b.now, Epoch: 1, Message: message}
}

func (b *bench) appendLogs(limit store.LogLimit, lines ...store.LogLine) {
	b.Helper()
	require.NoError(b, b.store.AppendLogs(b.ctx(), lines, limit))
}

// logs returns the lines of a run.
func (b *bench) logs(run journal.ID, f store.LogFilter) []store.LogLine {
	b.Helper()
	l, err := b.store.Logs(b.ctx(), b.ns, run, f, store.Page{Limit: store.MaxLimit})
	require.NoError(b, err)
	require.False(b, l.HasMore)
	return l.Data
}

func (b *bench) messages(run journal.ID) []string {
	b.Helper()
	var texts []string
	for _, l := range b.logs(run, store.LogFilter{MinLevel: store.AllLevels}) {
		texts = append(texts, l.Message)
	}
	return texts
}

func logAppend(b *bench) {
	run, other := b.start(journal.Engine), b.start(journal.World3)
	full := store.LogLine{
		Namespace: b.ns, Run: run, At: b.now, Level: -4, Epoch: 7, Attempt: 3, Step: "item#2/charge@o-1", Message: "charged", Attrs: `{"cents":5}`,
	}
	b.appendLogs(roomy)
	b.appendLogs(roomy, full, b.line(other, "of another"), b.line(run, "second"))
	b.appendLogs(roomy, b.line(run, "third"))
	got := b.logs(run, store.LogFilter{MinLevel: store.AllLevels})
	require.Len(b, got, 3)
	require.Less(b, got[0].N, got[1].N)
	require.Less(b, got[1].N, got[2].N)
	got[0].N = 0
	require.Equal(b, full, got[0])
	require.Equal(b, []string{"charged", "second", "third"}, b.messages(run))
	require.Equal(b, []string{"of another"}, b.messages(other))
	require.Equal(b, b.logs(run, store.LogFilter{}), b.peer().logs(run, store.LogFilter{}), "another process reads the same")
	l, err := b.store.Logs(b.ctx(), b.ns, run, store.LogFilter{MinLevel: store.AllLevels}, store.Page{Limit: 2, Desc: true})
	require.NoError(b, err)
	require.Equal(b, "third", l.Data[0].Message)
	require.Equal(b, "second", l.Data[1].Message)
	require.True(b, l.HasMore)
}

func logLevel(b *bench) {
	run := b.start(journal.Engine)
	for _, level := range []int{-4, 0, 4, 8} {
		l := b.line(run, fmt.Sprint(level))
		l.Level = level
		b.appendLogs(roomy, l)
	}
	for min, want := range map[int]int{store.AllLevels: 4, -4: 4, -3: 3, 0: 3, 4: 2, 8: 1, 9: 0} {
		require.Len(b, b.logs(run, store.LogFilter{MinLevel: min}), want, "from %d", min)
	}
}

// The oldest lines go, exactly as many as are too many; the newest stays, however long it is.
func logLimits(b *bench) {
	run, other := b.start(journal.Engine), b.start(journal.Engine)
	lines := store.LogLimit{Lines: 3, Bytes: 1 << 20}
	b.appendLogs(lines, b.line(run, "1"), b.line(run, "2"), b.line(other, "o"))
	b.appendLogs(lines, b.line(run, "3"))
	require.Equal(b, []string{"1", "2", "3"}, b.messages(run))
	b.appendLogs(lines, b.line(run, "4"), b.line(run, "5"))
	require.Equal(b, []string{"3", "4", "5"}, b.messages(run))
	bytes := store.LogLimit{Lines: 100, Bytes: 10}
	b.appendLogs(bytes, b.line(run, "12345678"))
	require.Equal(b, []string{"4", "5", "12345678"}, b.messages(run))
	b.appendLogs(bytes, b.line(run, "90"))
	require.Equal(b, []string{"12345678", "90"}, b.messages(run))
	attrs := b.line(run, "a")
	attrs.Attrs = `{"k":"vvvv"}`
	b.appendLogs(bytes, attrs)
	require.Equal(b, []string{"a"}, b.messages(run), "attributes count; the newest line stays")
	require.Equal(b, []string{"o"}, b.messages(other), "others are not touched")
	b.appendLogs(store.LogLimit{}, b.line(other, "p"))
	require.Equal(b, []string{"p"}, b.messages(other))
}

func logNamespaces(b *bench) {
	run := b.mint()
	other := b.in(b.ns + "-foreign")
	for _, side := range []*bench{b, other} {
		side.must(side.starting(run, journal.World3))
		side.appendLogs(roomy, side.line(run, side.ns))
	}
	require.Equal(b, []string{b.ns}, b.messages(run))
	require.Equal(b, []string{other.ns}, other.messages(run))
	b.write(run, plain(&journal.RunCancelled{}))
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
	require.Empty(b, b.messages(run))
	require.Equal(b, []string{other.ns}, other.messages(run))
	require.Empty(b, b.in("never seen").messages(run))
}

// logDelete deletes a run: its lines go with it, and a later run does not find them.
func logDelete(b *bench) {
	run := b.start(journal.Engine)
	b.appendLogs(roomy, b.line(run, "1"), b.line(run, "2"))
	b.write(run, plain(&journal.RunCompleted{}))
	require.NoError(b, b.store.Delete(b.ctx(), b.ns, run))
	require.Empty(b, b.messages(run))
	b.appendLogs(roomy, b.line(run, "3"))
	next := b.start(journal.Engine)
	require.Empty(b, b.messages(next))
	require.Empty(b, b.messages(run))
	b.check(next)
}

// Lines of runs that are gone, or never were, do no harm to others.
func logNoRun(b *bench) {
	run := b.start(journal.Engine)
	nobody := b.in("never seen")
	b.appendLogs(roomy, b.line(b.mint(), "no run"), b.line(run, "good"), nobody.line(run, "no namespace"))
	require.Equal(b, []string{"good"}, b.messages(run))
	require.Empty(b, b.messages(b.mint()))
}

// Lines change nothing of the run.
func logBesideTheJournal(b *bench) {
	run := b.rich()
	before := b.everything(run)
	b.appendLogs(roomy, b.line(run, "x"))
	require.Equal(b, before, b.everything(run))
	b.check(run)
}

// Any text can be said; what cannot be stored is replaced, and the neighbours are not harmed.
func logText(b *bench) {
	run := b.start(journal.Engine)
	for _, text := range strange {
		l := b.line(run, "m "+text)
		l.Step, l.Attrs = text, text
		b.appendLogs(roomy, l, b.line(run, "neighbour"))
		got := b.logs(run, store.LogFilter{})
		last := got[len(got)-2]
		require.Equal(b, store.LogText("m "+text), last.Message)
		require.Equal(b, store.LogText(text), last.Step)
		require.Equal(b, store.LogText(text), last.Attrs)
		require.Equal(b, "neighbour", got[len(got)-1].Message)
	}
	require.NotContains(b, store.LogText("a\x00\xffb"), "\x00")
	b.appendLogs(store.LogLimit{Lines: 1, Bytes: 1 << 20}, b.line(run, strings.Repeat("ü", store.MaxLogLine)))
	require.Len(b, b.messages(run), 1)
}

// Several write lines while the journal is written to: none is lost, and those of one writer stay in order.
func logTogether(b *bench) {
	run := b.start(journal.Engine)
	const writers, each = 3, 10
	var all sync.WaitGroup
	errs := make(chan error, writers*each)
	for w := range writers {
		all.Go(func() {
			for i := range each {
				errs <- b.store.AppendLogs(b.ctx(), []store.LogLine{b.line(run, fmt.Sprintf("%d %02d", w, i))}, roomy)
			}
		})
	}
	for i := range each {
		b.write(run, keyed(fmt.Sprint("s", i), &journal.StepCompleted{}))
	}
	all.Wait()
	close(errs)
	for err := range errs {
		require.NoError(b, err)
	}
	got := b.messages(run)
	require.Len(b, got, writers*each)
	last := map[byte]string{}
	for _, m := range got {
		require.Less(b, last[m[0]], m)
		last[m[0]] = m
	}
	b.check(run)
}
