package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairntest"
)

func TestGreet(t *testing.T) {
	t.Parallel()
	cairntest.Run(t, func(e *cairntest.Env) {
		run, err := Greet.Start(e.Context(), e.Engine(), "world")
		require.NoError(t, err)
		out, err := run.Result(e.Context())
		require.NoError(t, err)
		require.Equal(t, "hello world", out)
	}, Greet)
}

// TestTheReadmeShowsThisProgram compares the program with the one in the README.
func TestTheReadmeShowsThisProgram(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile("main.go")
	require.NoError(t, err)
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(readme), "```go\n")
	shown, _, _ = strings.Cut(shown, "```")
	for part := range strings.SplitSeq(shown, "\n\n") {
		require.Contains(t, string(program), strings.TrimSpace(part))
	}
}
