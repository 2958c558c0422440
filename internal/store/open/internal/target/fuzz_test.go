package target

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// FuzzParse: any text names one database or is refused, and a refusal never shows what might be a password.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"", "sqlite:app.db", "sqlite:///absolute/path.db", "sqlite::memory:", "app.db", "C:/app.db", "file:a%20b.db", "file://localhost/x.db",
		"postgres://user:secret@host:5432/db?sslmode=disable", "postgresql:", "mysql://u:secret@h/d", "sqlite:x?y", "file:%zz", "\x00",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := Parse(text)
		if err == nil {
			require.NotEqual(t, got.Path == "", got.URL == "", "%q names %+v", text, got)
			return
		}
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
		if _, secret, found := strings.Cut(text, "secret"); found && !strings.Contains(forms, "secret") {
			require.NotContains(t, err.Error(), "secret"+secret)
		}
	})
}
