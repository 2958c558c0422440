package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/cli"
)

// TestTheShownTestIsGo: whatever a workflow is called, the test that is shown for it can be pasted.
func TestTheShownTestIsGo(t *testing.T) {
	t.Parallel()
	for workflow, name := range map[string]string{
		"order": "Order", "count words": "CountWords", "a-b_c": "ABC", "7 dwarfs": "Dwarfs", "übung": "Übung", "👋": "Workflow", `say "hi"`: "SayHi", "注文": "注文",
	} {
		path := filepath.Join(t.TempDir(), `odd "name".jsonl`)
		header := fmt.Sprintf(`{"format":"cairn.run","version":"1.0","namespace":"default","run":"wrun_01KDVDNA00B63QXKKD6T5AR6KG","workflow":%q,"dialect":"engine","status":"pending"}`, workflow)
		created := fmt.Sprintf(`{"seq":1,"at":"2026-01-01T00:00:00.000Z","type":"run_created","data":{"workflow":%q}}`, workflow)
		require.NoError(t, os.WriteFile(path, []byte(header+"\n"+created+"\n"+`{"end":"cairn.run","events":1}`), 0o600))
		var out, errs bytes.Buffer
		require.Equal(t, cli.ExitOK, cli.Run(t.Context(), []string{"replay", path, "--json"}, terminal(&out, &errs, nil)), errs.String())
		var answer struct{ Test, Go string }
		require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
		_, err := parser.ParseFile(token.NewFileSet(), "replay_test.go", answer.Test, parser.AllErrors)
		require.NoError(t, err, answer.Test)
		require.Contains(t, answer.Test, "func TestReplay"+name+"(")
		require.Contains(t, answer.Go, "'^TestReplay"+name+"$'")
	}
}
