package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/internal/cli"
	"github.com/cairn-workflow/cairn/internal/store"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// screen is standard output that can be read while a command writes to it.
type screen struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// streamRun is a run that has written, and writes more when it is told to.
type streamRun struct {
	url, id string
	goOn    chan struct{}
}

type point struct{ X, Y int }

func newStreamRun(t *testing.T) *streamRun {
	t.Helper()
	r := &streamRun{url: "sqlite:" + filepath.Join(t.TempDir(), "app.db"), goOn: make(chan struct{})}
	words, points := cairn.NewStream[string]("words"), cairn.NewStream[point]("points")
	step := cairn.NewStep("tell", func(ctx context.Context, _ int) (int, error) {
		if err := errors.Join(words.Write(ctx, "one"), words.Write(ctx, "two"), words.Flush(ctx)); err != nil {
			return 0, err
		}
		if cairn.Attempt(ctx) == 1 {
			return 0, errors.New("again")
		}
		select {
		case <-r.goOn:
		case <-ctx.Done():
		}
		return 0, words.Write(ctx, "three")
	}).Retry(cairn.RetryPolicy{Attempts: 2, First: time.Millisecond})
	wf := cairn.NewWorkflow("teller", func(ctx cairn.Context, _ int) (int, error) {
		if err := errors.Join(points.Write(ctx, point{1, 2}), points.Close(ctx)); err != nil {
			return 0, err
		}
		return step.Do(ctx, 0)
	})
	st, err := open.URL(t.Context(), r.url)
	require.NoError(t, err)
	e, err := cairn.New(t.Context(), store.NewHandle(st), wf)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, e.Stop(ctx))
		require.NoError(t, st.Close())
	})
	run, err := wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	r.id = run.ID()
	n := 0
	for _, err := range words.Read(t.Context(), e, r.id) {
		require.NoError(t, err)
		if n++; n == 4 { // both attempts
			break
		}
	}
	return r
}

// cairn runs the command on the run.
func (r *streamRun) cairn(t *testing.T, code int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	system := terminal(&o, &e, map[string]string{"CAIRN_STORE": r.url})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.Equal(t, code, cli.Run(ctx, append([]string{"stream"}, args...), system), o.String()+e.String())
	return o.String(), e.String()
}

func TestStream(t *testing.T) {
	t.Parallel()
	r := newStreamRun(t)
	out, _ := r.cairn(t, cli.ExitOK, r.id)
	require.Equal(t, "points  1 chunk, closed\nwords  4 chunks\n", out)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "--json")
	require.Contains(t, out, `{"name":"points","chunks":1,"closed":true}`)

	out, errs := r.cairn(t, cli.ExitOK, r.id, "words")
	require.Equal(t, "one\ntwo\none\ntwo\n", out)
	require.Equal(t, "cairn: tell begins again, attempt 2\n", errs)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "words", "--from", "3")
	require.Equal(t, "two\n", out)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "words", "--tail", "2", "--raw")
	require.Equal(t, "onetwo", out)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "words", "--tail", "0")
	require.Empty(t, out)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "words", "--settled")
	require.Empty(t, out, "the second attempt is under way")
	out, _ = r.cairn(t, cli.ExitOK, r.id, "points")
	require.Equal(t, "{\"X\":1,\"Y\":2}\n", out)
	out, _ = r.cairn(t, cli.ExitOK, r.id, "words", "--json", "--from", "2")
	first, _, _ := strings.Cut(out, "\n")
	var line map[string]any
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.NotEmpty(t, line["time"])
	delete(line, "time")
	require.Equal(t, map[string]any{"index": 2.0, "writer": "tell", "attempt": 2.0, "boundary": true, "value": "one"}, line)

	_, errs = r.cairn(t, cli.ExitProblem, r.id, "nonsense")
	require.Contains(t, errs, "stream_not_found")
	require.Contains(t, errs, "cairn stream RUN lists the streams")
	_, errs = r.cairn(t, cli.ExitProblem, "wrun_01JD0000000000000000000000", "words")
	require.Contains(t, errs, "run_not_found")
	_, errs = r.cairn(t, cli.ExitProblem, r.id, "--namespace", "other")
	require.Contains(t, errs, "run_not_found")
	for _, bad := range [][]string{{}, {"nonsense"}, {r.id, "words", "more"}, {r.id, "words", "--from", "1", "--tail", "1"}, {r.id, "words", "--from", "-1"}} {
		r.cairn(t, cli.ExitUsage, bad...)
	}
}

// TestStreamFollow: the command reads what another process writes, until that has ended.
func TestStreamFollow(t *testing.T) {
	t.Parallel()
	r := newStreamRun(t)
	var all, settled screen
	var errs bytes.Buffer
	var done sync.WaitGroup
	codes := make([]int, 2)
	for i, out := range []*screen{&all, &settled} {
		args := []string{"stream", r.id, "words", "--follow", "--store", r.url}
		if i == 1 {
			args = append(args, "--settled")
		}
		system := terminal(&bytes.Buffer{}, &bytes.Buffer{}, nil)
		system.Out = out
		done.Go(func() { codes[i] = cli.Run(t.Context(), args, system) })
	}
	require.Eventually(t, func() bool { return all.String() == "one\ntwo\none\ntwo\n" }, 30*time.Second, time.Millisecond)
	close(r.goOn)
	done.Wait()
	require.Equal(t, []int{cli.ExitOK, cli.ExitOK}, codes)
	require.Equal(t, "one\ntwo\none\ntwo\nthree\n", all.String())
	require.Equal(t, "one\ntwo\nthree\n", settled.String())

	waiting := newStreamRun(t)
	ctx, cancel := context.WithCancel(t.Context())
	system := terminal(&bytes.Buffer{}, &errs, nil)
	var out screen
	system.Out = &out
	ended := make(chan int)
	go func() {
		ended <- cli.Run(ctx, []string{"stream", waiting.id, "words", "-f", "--store", waiting.url}, system)
	}()
	require.Eventually(t, func() bool { return out.String() != "" }, 30*time.Second, time.Millisecond)
	cancel()
	require.Equal(t, cli.ExitOK, <-ended, "that is how one ends it")
}

func TestStream_JSONAndLargeNumbers_AreShownWithTheirDigits(t *testing.T) {
	t.Parallel()
	r := &streamRun{url: "sqlite:" + filepath.Join(t.TempDir(), "app.db")}
	values := cairn.NewStream[any]("values")
	wf := cairn.NewWorkflow("numbers", func(ctx cairn.Context, _ int) (int, error) {
		return 0, errors.Join(values.Write(ctx, uint64(math.MaxUint64)), values.Write(ctx, []byte("bytes")),
			values.Write(ctx, json.RawMessage(`{ "n": 9007199254740993 }`)), values.Write(ctx, map[int]string{7: "seven"}))
	})
	st, err := open.URL(t.Context(), r.url)
	require.NoError(t, err)
	defer func() { require.NoError(t, st.Close()) }()
	e, err := cairn.New(t.Context(), store.NewHandle(st), wf)
	require.NoError(t, err)
	defer func() { require.NoError(t, e.Stop(context.Background())) }()
	run, err := wf.Start(t.Context(), e, 0)
	require.NoError(t, err)
	_, err = run.Result(t.Context())
	require.NoError(t, err)

	out, _ := r.cairn(t, cli.ExitOK, run.ID(), "values")
	require.Equal(t, "18446744073709551615\nbytes\n{\"n\":9007199254740993}\n{\"7\":\"seven\"}\n", out)
	out, _ = r.cairn(t, cli.ExitOK, run.ID(), "values", "--json")
	for _, value := range []string{`18446744073709551615`, `"Ynl0ZXM="`, `{"n":9007199254740993}`, `{"7":"seven"}`} {
		require.Contains(t, out, `"value":`+value+"}\n")
	}
}
