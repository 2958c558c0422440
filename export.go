package cairn

import (
	"context"
	"io"

	"github.com/cairn-workflow/cairn/internal/export"
)

// Export writes a run to w as JSON lines: a header, one line for each event of its journal, and a last line with their number. docs/export.md describes the
// format, which stays readable. Any run can be exported, also one that goes on: it is written as it is at one moment.
//
// cairntest.Replay executes code against what was exported. Values are written as they are stored; what was encrypted stays so.
func (e *Engine) Export(ctx context.Context, runID string, w io.Writer) error {
	id, err := parseRun(runID)
	if err != nil {
		return err
	}
	j, err := e.inner.Store().Journal(ctx, e.inner.Namespace(), id, 0)
	if err != nil {
		return err
	}
	return export.Write(w, e.inner.Namespace(), j.Run, j.Events)
}
