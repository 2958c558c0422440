package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairntest"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
)

const patience = 60 * time.Second

func TestMain(m *testing.M) { pgtest.Main(m) }

// conversation is what is printed without its first line.
const conversation = `I look at the weather first, because a picnic in the rain is no fun.
  → weather(Oslo) = dry
Dry until six. I would like to invite your friends to the park at three.
  · may I use mail?
  · yes, says the command line
  → mail(picnic at three) = sent
Then it is settled: pack the basket, and leave at half past two.
`

// body is what was printed, without the first line and the blanks at the ends of lines.
func body(out string) string {
	_, rest, _ := strings.Cut(out, "\n\n")
	return strings.ReplaceAll(rest, " \n", "\n")
}

// output can be read while somebody writes to it.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

func TestConversation(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"sqlite", "postgres"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
			if kind == "postgres" {
				db = pgtest.URL(t)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			var out output
			require.NoError(t, run(ctx, []string{"-db", db, "-pace", "1ms", "-yes"}, &out))
			require.Contains(t, out.String(), "Conversation 1 is new.")
			require.Equal(t, conversation, body(out.String()))
			var again output
			require.NoError(t, run(ctx, []string{"-db", db, "-follow"}, &again))
			require.Equal(t, conversation, body("\n\n"+again.String()))
		})
	}
}

// TestPersonAnswers: a person answers in another process, with the token that the first one shows.
func TestPersonAnswers(t *testing.T) {
	t.Parallel()
	db := "sqlite:" + filepath.Join(t.TempDir(), "agent.db")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var out output
	done := make(chan error)
	go func() { done <- run(ctx, []string{"-db", db, "-pace", "1ms"}, &out) }()
	var token string
	require.Eventually(t, func() bool {
		_, rest, _ := strings.Cut(out.String(), "-approve ")
		line, _, whole := strings.Cut(rest, "\n")
		token = line
		return whole
	}, patience, 5*time.Millisecond)
	require.NoError(t, run(ctx, []string{"-db", db, "-reject", token, "-by", "Grace"}, &output{}))
	require.NoError(t, <-done)
	require.Contains(t, out.String(), "no, says Grace")
	require.Contains(t, out.String(), "= refused")
	require.Contains(t, out.String(), "Then I leave it at that")
}

// TestKilledProgramGoesOn kills the program in the middle of a thought, twice. The last one prints everything, once.
func TestKilledProgramGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exe := filepath.Join(dir, "agent.exe")
	built, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput()
	require.NoError(t, err, string(built))
	start := func(out *output) *exec.Cmd {
		command := exec.CommandContext(t.Context(), exe, "-db", "sqlite:agent.db", "-pace", "60ms", "-lease", "1s", "-yes")
		command.Dir, command.Stdout = dir, out
		require.NoError(t, command.Start())
		return command
	}
	for _, at := range []string{"because a", "invite your"} {
		var out output
		command := start(&out)
		require.Eventually(t, func() bool { return strings.Contains(out.String(), at) }, patience, time.Millisecond, at)
		require.NoError(t, command.Process.Kill())
		require.Error(t, command.Wait(), "it did not end by itself")
	}
	var out output
	require.NoError(t, start(&out).Wait())
	require.Contains(t, out.String(), "Conversation 1 goes on")
	require.Equal(t, conversation, body(out.String()), "no gap, and nothing twice")
}

// TestCrashEverywhere kills the agent at each place: it always comes to the same answer.
func TestCrashEverywhere(t *testing.T) {
	t.Parallel()
	a := newAgent(time.Millisecond)
	a.token = "may I"
	agree := cairntest.Drive(func(e *cairntest.Env) { cairntest.Send(e, "may I", "yes", Verdict{OK: true, By: "the test"}) })
	require.Greater(t, cairntest.CrashEverywhere(t, a.workflow, question, agree), 20)
}

// TestInOtherWords: what is repeated differently is printed from where it differs, and said so.
func TestInOtherWords(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	p := &printer{out: &out}
	say := func(boundary bool, words ...string) {
		for i, word := range words {
			require.NoError(t, p.piece(cairn.Chunk[Piece]{Writer: "think", Boundary: boundary && i == 0, Value: Piece{"word", word}}))
		}
	}
	say(false, "one", "two", "three")
	say(true, "one", "two", "three", "four")
	say(true, "one", "2", "3")
	p.line("")
	require.Equal(t, "one two three four \n  (it says it in other words now)\none 2 3 \n", out.String())
}
