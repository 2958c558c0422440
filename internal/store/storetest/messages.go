package storetest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

var messageTests = []test{
	{"Collapsed", messageCollapsed},
	{"Done", messageDone},
	{"IDTaken", messageIDTaken},
	{"DoneAndAddedInOneBatch", messageReplaced},
	{"NotFound", messageNotFound},
	{"Paging", messagePaging},
	{"WithCommand", messageWithCommand},
}

// message returns a message for a queue of the bench's namespace.
func (b *bench) message(queue, key, text string) journal.Message {
	return journal.Message{ID: b.mint(), Namespace: b.ns, Queue: queue, Key: key, Payload: payload(text)}
}

func (b *bench) queue(queue string) []*store.QueuedMessage {
	b.Helper()
	return all(b, func(p store.Page) (store.List[*store.QueuedMessage], error) {
		return b.store.Messages(b.ctx(), b.ns, queue, store.ResolveAll, p)
	}, store.Page{Limit: 2})
}

func (b *bench) texts(queue string) []string {
	b.Helper()
	var texts []string
	for _, m := range b.queue(queue) {
		texts = append(texts, string(m.Payload))
	}
	return texts
}

func messageCollapsed(b *bench) {
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{
		b.message("q", "k", "1"), b.message("q", "k", "same batch"), b.message("q", "", "2"), b.message("q", "", "3"),
		b.message("r", "k", "other queue"), b.message("q", "K", "other key"),
	}}))
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{b.message("q", "k", "again"), b.message("q", "é", "4")}}))
	require.Equal(b, []string{"1", "2", "3", "other key", "4"}, b.texts("q"))
	require.Equal(b, []string{"other queue"}, b.texts("r"))
	foreign := b.foreign()
	require.NoError(b, foreign.commit(&store.Changes{Messages: []journal.Message{foreign.message("q", "k", "foreign")}}))
	require.Equal(b, []string{"foreign"}, foreign.texts("q"))
	require.Len(b, b.texts("q"), 5)
}

func messageDone(b *bench) {
	m := b.message("q", "k", "1")
	m.VisibleAt, m.Run = b.now+5000, b.mint()
	past := b.message("q", "", "2")
	past.VisibleAt = b.now - 5000
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{m, past}}))
	got, err := b.store.Message(b.ctx(), b.ns, m.ID)
	require.NoError(b, err)
	require.Equal(b, &store.QueuedMessage{Message: m, CreatedAt: b.now}, got)
	got, err = b.store.Message(b.ctx(), b.ns, past.ID)
	require.NoError(b, err)
	require.Equal(b, b.now, got.VisibleAt, "now")
	require.NoError(b, b.commit(&store.Changes{Done: []journal.ID{m.ID, b.mint()}}))
	_, err = b.store.Message(b.ctx(), b.ns, m.ID)
	requireCode(b, cairnerr.CodeMessageNotFound, err)
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{b.message("q", "k", "3")}}))
	require.Equal(b, []string{"2", "3"}, b.texts("q"))
}

func messageReplaced(b *bench) {
	first := b.message("q", "k", "1")
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{first}}))
	require.NoError(b, b.commit(&store.Changes{Done: []journal.ID{first.ID}, Messages: []journal.Message{b.message("q", "k", "2")}}))
	require.Equal(b, []string{"2"}, b.texts("q"), "the key of a message that is done is free")
}

// An id that is taken is a mistake, not a message to be left out.
func messageIDTaken(b *bench) {
	m := b.message("q", "", "1")
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{m}}))
	m.Queue, m.Payload = "r", payload("2")
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{m, b.message("r", "", "3")}}))
	require.Equal(b, []string{"1"}, b.texts("q"), "it is queued already")
	require.Equal(b, []string{"3"}, b.texts("r"))
}

func messageNotFound(b *bench) {
	m := b.message("q", "", "1")
	require.NoError(b, b.commit(&store.Changes{Messages: []journal.Message{m}}))
	_, err := b.store.Message(b.ctx(), b.ns, b.mint())
	requireCode(b, cairnerr.CodeMessageNotFound, err)
	require.Empty(b, b.queue("Q"))
	for _, ns := range []string{b.foreign().ns, "never seen"} {
		_, err := b.store.Message(b.ctx(), ns, m.ID)
		requireCode(b, cairnerr.CodeMessageNotFound, err)
		require.Empty(b, b.in(ns).queue("q"))
	}
	tx := b.begin()
	defer tx.Rollback()
	missing := b.mint()
	loaded, err := tx.Load(b.ctx(), &store.LoadSet{Messages: []journal.ID{m.ID, missing}})
	require.NoError(b, err)
	require.Equal(b, map[journal.ID]int{m.ID: 0}, loaded.Outside.Deliveries)
}

func messagePaging(b *bench) {
	var c store.Changes
	for range 7 {
		c.Messages = append(c.Messages, b.message("q", "", "x"))
	}
	require.NoError(b, b.commit(&c))
	var want []journal.ID
	for _, m := range c.Messages {
		want = append(want, m.ID)
	}
	for _, limit := range []int{0, 1, 3, 7, 8} {
		for _, desc := range []bool{false, true} {
			var got []journal.ID
			for _, m := range all(b, func(p store.Page) (store.List[*store.QueuedMessage], error) {
				return b.store.Messages(b.ctx(), b.ns, "q", store.ResolveNone, p)
			}, store.Page{Limit: limit, Desc: desc}) {
				require.Empty(b, m.Payload)
				got = append(got, m.ID)
			}
			if desc {
				slices.Reverse(got)
			}
			require.Equal(b, want, got)
		}
	}
}

// A message is put into its queue together with the events, and is done together with those of its delivery.
func messageWithCommand(b *bench) {
	run := b.mint()
	cmd := b.starting(run, journal.World3)
	m := b.message("flow", "", "go")
	m.Run = run
	cmd.Messages = []journal.Message{m}
	b.must(cmd)
	got, err := b.store.Message(b.ctx(), b.ns, m.ID)
	require.NoError(b, err)
	require.Equal(b, run, got.Run)
	b.later(time.Second)
	handle := func(number int) *journal.Command {
		return &journal.Command{
			Run: run, Events: []journal.Event{plain(&journal.Annotated{Name: "handled"})},
			Guards: journal.Guards{Delivery: journal.Delivery{Message: m.ID, Number: number}},
		}
	}
	_, err = b.try(handle(1))
	requireCode(b, cairnerr.CodeStaleDelivery, err)
	b.must(handle(0))
	_, err = b.store.Message(b.ctx(), b.ns, m.ID)
	requireCode(b, cairnerr.CodeMessageNotFound, err)
	_, err = b.try(handle(0))
	requireCode(b, cairnerr.CodeStaleDelivery, err)
	b.check(run)
}
