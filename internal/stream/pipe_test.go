package stream

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
)

// database takes what a pipe sends when the test lets it.
type database struct {
	let  chan error
	sent [][]string
	no   []int // to refuse with the next answer
}

func (d *database) send(ops []commit.StreamOp) ([]int, error) {
	err := <-d.let
	var batch []string
	for i := range ops {
		batch = append(batch, string(ops[i].Data))
	}
	d.sent = append(d.sent, batch)
	refused := d.no
	d.no = nil
	return refused, err
}

func put(t *testing.T, p *Pipe, w *Writer, texts ...string) {
	t.Helper()
	for _, text := range texts {
		require.NoError(t, p.Put(t.Context(), nil, w, commit.StreamOp{Data: journal.Payload(text)}))
	}
}

func TestPipeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{let: make(chan error)}
		p := NewPipe(nil, d.send)
		var a, b Writer
		put(t, p, &a, "1")
		synctest.Wait()
		put(t, p, &b, "2", "3") // while 1 is being committed, the rest gathers
		put(t, p, &a, "4")
		require.False(t, p.Clean(&a))
		d.let <- nil
		synctest.Wait()
		flushed := make(chan error)
		go func() { flushed <- p.Flush(t.Context(), nil, &b) }()
		d.let <- nil
		require.NoError(t, <-flushed)
		require.Equal(t, [][]string{{"1"}, {"2", "3", "4"}}, d.sent)
		require.True(t, p.Clean(&a))
		require.NoError(t, p.Flush(t.Context(), nil, &Writer{}))
	})
}

func TestPipeHoldsUpWhoWritesTooMuch(t *testing.T) {
	t.Parallel()
	for name, chunk := range map[string]struct{ size, fit int }{"many": {1, maxPending}, "large": {maxPendingBytes / 4, 4}, "huge": {maxPendingBytes * 2, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &database{let: make(chan error)}
				p := NewPipe(nil, d.send)
				var w Writer
				text := string(make([]byte, chunk.size))
				for range chunk.fit {
					put(t, p, &w, text)
				}
				op := commit.StreamOp{Data: journal.Payload(text)}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- p.Put(ctx, nil, &w, op) }()
				synctest.Wait()
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
				over := make(chan struct{})
				go func() { done <- p.Put(t.Context(), over, &w, op) }()
				close(over)
				require.Equal(t, cairnerr.CodeClosed, cairnerr.CodeOf(<-done))
				go func() { done <- p.Put(t.Context(), nil, &w, op) }()
				synctest.Wait()
				close(d.let) // from now on everything is taken
				require.NoError(t, <-done)
				require.NoError(t, p.Flush(t.Context(), nil, &w))
				total := 0
				for _, batch := range d.sent {
					total += len(batch)
				}
				require.Equal(t, chunk.fit+1, total)
			})
		})
	}
}

func TestPipeTellsWhatWasRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{let: make(chan error)}
		p := NewPipe(nil, d.send)
		var good, bad Writer
		put(t, p, &good, "0")
		synctest.Wait()
		put(t, p, &good, "1")
		put(t, p, &bad, "2")
		d.let <- nil
		synctest.Wait()
		d.no = []int{1}
		d.let <- nil
		require.NoError(t, p.Flush(t.Context(), nil, &good))
		err := p.Flush(t.Context(), nil, &bad)
		require.Equal(t, cairnerr.CodeStreamClosed, cairnerr.CodeOf(err))
		require.Equal(t, cairnerr.CodeStreamClosed, cairnerr.CodeOf(p.Put(t.Context(), nil, &bad, commit.StreamOp{})))
		put(t, p, &good, "3")
		d.let <- nil
		require.NoError(t, p.Flush(t.Context(), nil, &good))
	})
}

func TestPipeFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &database{let: make(chan error, 1)}
		p := NewPipe(nil, d.send)
		var w Writer
		for i := range 10 {
			put(t, p, &w, fmt.Sprint(i))
		}
		broken := errors.New("broken")
		d.let <- broken
		require.ErrorIs(t, p.Flush(t.Context(), nil, &w), broken)
		require.ErrorIs(t, p.Put(t.Context(), nil, &w, commit.StreamOp{}), broken)
		require.True(t, p.Clean(&w))
	})
}
