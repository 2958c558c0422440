package migration_test

import (
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/store/migration"
)

func files(names ...string) fstest.MapFS {
	fs := fstest.MapFS{}
	for _, name := range names {
		fs["m/"+name] = &fstest.MapFile{Data: []byte("select 1;")}
	}
	return fs
}

func TestRead(t *testing.T) {
	t.Parallel()
	fs := files("0002_more.sql", "0001_first.sql")
	fs["m/0003_compatible.sql"] = &fstest.MapFile{Data: []byte("-- oldest: 2\nselect 1;")}
	all, err := migration.Read(fs, "m")
	require.NoError(t, err)
	require.Len(t, all, 3)
	for i, want := range []migration.Migration{{Version: 1, Name: "first", Oldest: 1}, {Version: 2, Name: "more", Oldest: 2}, {Version: 3, Name: "compatible", Oldest: 2}} {
		want.SQL = all[i].SQL
		require.Equal(t, want, all[i])
	}
}

func TestReadRefusesDisorder(t *testing.T) {
	t.Parallel()
	for name, fs := range map[string]fstest.MapFS{
		"a gap":              files("0001_a.sql", "0003_c.sql"),
		"a name":             files("first.sql"),
		"twice the number":   files("0001_a.sql", "0001_b.sql"),
		"no folder":          {},
		"not from the start": files("0002_b.sql"),
	} {
		_, err := migration.Read(fs, "m")
		require.Error(t, err, name)
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	all, err := migration.Read(files("0001_a.sql", "0002_b.sql"), "m")
	require.NoError(t, err)
	for _, test := range []struct {
		name            string
		version, oldest int
		pending         int
		refused         bool
	}{
		{"a new database", 0, 0, 2, false},
		{"an older one", 1, 1, 1, false},
		{"up to date", 2, 2, 0, false},
		{"a newer one that still takes us", 5, 2, 0, false},
		{"a newer one that does not", 5, 3, 0, true},
	} {
		pending, err := migration.Pending(all, test.version, test.oldest)
		if test.refused {
			require.Equal(t, cairnerr.CodeSchemaTooNew, cairnerr.CodeOf(err), test.name)
			require.Equal(t, 503, cairnerr.AsError(err).Status())
			continue
		}
		require.NoError(t, err, test.name)
		require.Len(t, pending, test.pending, test.name)
	}
}
