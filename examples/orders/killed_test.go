package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary is the example as a process of its own.
type binary struct {
	path, dir string
}

func build(t *testing.T) *binary {
	t.Helper()
	p := &binary{dir: t.TempDir()}
	p.path = filepath.Join(p.dir, "orders.exe")
	output, err := exec.Command("go", "build", "-o", p.path, ".").CombinedOutput()
	require.NoError(t, err, string(output))
	return p
}

// start starts the binary, which writes to out.
func (p *binary) start(t *testing.T, out *bytes.Buffer) *exec.Cmd {
	t.Helper()
	command := exec.CommandContext(t.Context(), p.path, "-db", "sqlite:orders.db", "-ledger", "ledger", "-pace", "150ms")
	command.Dir, command.Stdout, command.Stderr = p.dir, out, out
	require.NoError(t, command.Start())
	return command
}

// killAt starts the binary, and kills it as soon as the ledger shows an effect.
func (p *binary) killAt(t *testing.T, effect string) {
	t.Helper()
	var out bytes.Buffer
	command := p.start(t, &out)
	require.Eventually(t, func() bool { return p.ledger(t)[effect] != nil }, patience, 2*time.Millisecond, effect)
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait(), "it did not end by itself")
}

// ledger returns the idempotency keys with which each effect was asked for, one for each time.
func (p *binary) ledger(t *testing.T) map[string][]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(p.dir, "ledger"))
	if !errors.Is(err, fs.ErrNotExist) {
		require.NoError(t, err)
	}
	out := map[string][]string{}
	for line := range strings.Lines(string(content)) {
		key, effect, _ := strings.Cut(strings.TrimSpace(line), " ")
		out[effect] = append(out[effect], key)
	}
	return out
}

// TestKilledProgramGoesOn kills the binary twice, each time in the middle of a step. What was finished then is never done again; what was not is
// done again with the same key.
func TestKilledProgramGoesOn(t *testing.T) {
	t.Parallel()
	p := build(t)
	p.killAt(t, "charge 1-3")
	first := p.ledger(t)
	p.killAt(t, "hand-over 1-3-Oslo")
	second := p.ledger(t)

	var out bytes.Buffer
	require.NoError(t, p.start(t, &out).Wait(), "it ends by itself when all orders have ended")
	require.Contains(t, out.String(), "The orders of day 1 go on")
	require.Contains(t, out.String(), "order 1-1: 84.90 paid")
	require.Contains(t, out.String(), "order 1-2: the card was declined")
	require.Contains(t, out.String(), "order 1-3: 230.50 paid")

	last := p.ledger(t)
	require.Equal(t, first["reserve 1-3"], last["reserve 1-3"], "it was finished when the charge began")
	for _, effect := range []string{"reserve 1-3", "charge 1-3", "pick 1-3-Oslo"} {
		require.Equal(t, second[effect], last[effect], "%s was finished when the parcel was handed over", effect)
	}
	require.LessOrEqual(t, len(last["charge 1-3"]), 2, "it was under way once when the process was killed")
	require.LessOrEqual(t, len(last["hand-over 1-3-Oslo"]), 2, "it was under way once when the process was killed")
	require.Len(t, last["confirm 1-3"], 1)

	effects := []string{"reserve 1-2", "release 1-2"}
	for order, parcels := range map[string][]string{"1-1": {"Oslo"}, "1-3": {"Oslo", "Porto", "Turin"}} {
		effects = append(effects, "reserve "+order, "charge "+order, "confirm "+order)
		for _, from := range parcels {
			effects = append(effects, "pick "+order+"-"+from, "hand-over "+order+"-"+from)
		}
	}
	require.Len(t, last, len(effects), "nothing else was done")
	for _, effect := range effects {
		require.NotEmpty(t, last[effect], effect)
		require.LessOrEqual(t, len(last[effect]), 3, "%s was done once, and once more for each kill at most", effect)
		for _, key := range last[effect] {
			require.Equal(t, last[effect][0], key, "%s was always asked for with the same key", effect)
		}
	}
}
