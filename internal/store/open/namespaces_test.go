package open_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/pgcluster/pgtest"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

func TestNamespaces(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(testing.TB) string{
		"sqlite":   func(testing.TB) string { return "sqlite::memory:" },
		"postgres": pgtest.URL,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := open.URL(t.Context(), url(t))
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Close()) }()
			got, err := s.Namespaces(t.Context())
			require.NoError(t, err)
			require.Empty(t, got)

			const now = journal.Time(1_767_225_600_000)
			c, err := commit.New(t.Context(), s, journal.ID{1}, &commit.Config{Now: func() journal.Time { return now }})
			require.NoError(t, err)
			runs := journal.NewMinter(rand.NewChaCha8([32]byte{}))
			for _, namespace := range []string{"b", "ä", "a b", "B", "a", "b"} {
				run, err := runs.Mint(now)
				require.NoError(t, err)
				_, err = c.Do(t.Context(), &journal.Command{Namespace: namespace, Run: run, Events: []journal.Event{{Data: &journal.RunCreated{Workflow: "w"}}}})
				require.NoError(t, err)
			}
			require.NoError(t, c.Close(context.WithoutCancel(t.Context())))
			got, err = s.Namespaces(t.Context())
			require.NoError(t, err)
			require.Equal(t, []string{"B", "a", "a b", "b", "ä"}, got)
		})
	}
}
