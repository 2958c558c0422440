package show

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// sample returns a parent with a child, and a run that has ended.
func sample() []*Run {
	began := noon.Add(-10 * time.Second)
	child := &Run{
		Info: &cairn.RunInfo{ID: "c", StartKey: "child", Status: cairn.StatusRunning, CreatedAt: began, Waits: []cairn.Wait{{Kind: "sleep", Key: "sleep"}}},
		Rows: []*Row{{Key: "sleep", Name: "sleep", Kind: "sleep", State: Waiting, Began: began, Until: noon.Add(1500 * time.Millisecond)}},
	}
	return []*Run{
		{
			Info: &cairn.RunInfo{ID: "p", StartKey: "parent", Status: cairn.StatusRunning, CreatedAt: began, Waits: []cairn.Wait{
				{Kind: "child", Key: "a/child"}, {Kind: "child", Key: "child#2"}, {Kind: "retry", Key: "pay"}, {Kind: "step", Key: "long@x"}, {Kind: "timeout", Key: "t"},
			}},
			Rows: []*Row{
				{Key: "pick", Name: "pick", State: Done, Began: began, Took: 42 * time.Millisecond, Attempts: 2},
				{Key: "pay", Name: "pay", State: Retrying, Began: noon.Add(-time.Second), Until: noon.Add(time.Second), Attempts: 1, Note: "busy"},
				{Key: "long@x", Name: "long", State: Working, Began: noon.Add(-2 * time.Second), Fraction: 0.5, Note: "half", Attempts: 1},
				{Key: "a/child", Name: "child", Kind: "child", State: Working, Began: began, Child: child},
			},
		},
		{
			Info: &cairn.RunInfo{
				ID: "e", StartKey: "ended", Status: cairn.StatusFailed, CreatedAt: began, EndedAt: began.Add(time.Second),
				Error: cairn.NewError("broken", "it\nbroke"),
			},
			Rows: []*Row{{Key: "try", Name: "try", State: Failed, Took: time.Second, Attempts: 1, Note: "it broke"}},
		},
	}
}

func newScreen(t *testing.T) (s *screen, drawn func() string) {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "screen"))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, file.Close()) })
	o := &Options{
		Title:   func(i *cairn.RunInfo) string { return i.StartKey },
		Caption: func(r *Run) string { return strings.TrimPrefix("about "+r.Info.ID, "about e") },
	}
	return &screen{out: file, o: o}, func() string {
		content, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		return string(content)
	}
}

// bare takes colours and movements away.
func bare(s string) string {
	for _, code := range []string{"0", "1", "2", "31", "32", "33", "36"} {
		s = strings.ReplaceAll(s, "\x1b["+code+"m", "")
	}
	for _, code := range []string{"\x1b[K", "\x1b[J", "\r"} {
		s = strings.ReplaceAll(s, code, "")
	}
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

func TestPicture(t *testing.T) {
	t.Parallel()
	s, drawn := newScreen(t)
	s.o.Hints = func(w cairn.Wait) []string {
		if w.Kind == "sleep" {
			return []string{"wake it"}
		}
		return nil
	}
	s.end(sample(), noon)
	require.Equal(t, `● parent                            10.0s  running · waits for 2 × child, retry of pay · long under way
    about p
  ✓ pick                             42ms  2 attempts
  ↻ pay                              1.0s  attempt 1 failed, next in 1.0s · busy
  ▸ long x                           2.0s  ██████░░░░░░  50% · half
  ● child                           10.0s  running · waits for sleep
      about c
    ○ sleep                         10.0s  1.5s left
        wake it
✗ ended                              1.0s  failed: broken: it broke
  ✗ try                              1.0s  it broke
`, bare(drawn()))
}

func TestPictureIsDrawnInPlace(t *testing.T) {
	t.Parallel()
	s, drawn := newScreen(t)
	s.show(sample(), noon)
	require.Equal(t, 10, s.drawn)
	s.show(sample()[:1], noon)
	require.Equal(t, 1, strings.Count(drawn(), "\x1b[10A"), "the second picture begins where the first has begun")
	require.True(t, strings.HasSuffix(drawn(), "\x1b[J"), "what is left of the first picture is wiped out")
	for line := range strings.Lines(bare(drawn())) {
		require.Less(t, len([]rune(strings.TrimPrefix(line, "\x1b[10A"))), 81, "lines are cut at the width of the terminal")
	}
}

func TestHighPicturesLoseWhatIsOver(t *testing.T) {
	t.Parallel()
	s, _ := newScreen(t)
	s.o.Caption = nil
	height := func(level int) int { return len(s.picture(sample(), noon, level)) }
	require.Equal(t, 8, height(withAll))
	require.Equal(t, 7, height(withoutEnded))
	require.Equal(t, 7, height(withoutDone), "one row is left out, and one says so")

	r := sample()[0]
	for i := range 30 {
		r.Rows = append(r.Rows, &Row{Key: fmt.Sprint("work@", i), Name: "work", State: Done})
	}
	rows, left := pick(r.Rows, withAll)
	require.Len(t, rows, maxRows)
	require.Equal(t, 22, left)
	require.Equal(t, "pay", rows[0].Name, "what is not over stays")
	require.Equal(t, "work 29", rows[len(rows)-1].label())
	for i := range 40 {
		r.Rows = append(r.Rows, &Row{Key: fmt.Sprint("wait@", i), Name: "wait", State: Waiting})
	}
	s.show([]*Run{r}, noon)
	require.Equal(t, 23, s.drawn, "it is never higher than the terminal")
}

func TestDuration(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]time.Duration{
		"0s": -time.Second, "0ms": 0, "999ms": 999 * time.Millisecond, "1.0s": time.Second, "59.9s": 59940 * time.Millisecond,
		"1m05s": 65 * time.Second, "59m59s": time.Hour - time.Second, "26h03m": 26*time.Hour + 3*time.Minute,
	} {
		require.Equal(t, want, Duration(d))
	}
}

func TestBar(t *testing.T) {
	t.Parallel()
	require.Equal(t, "░░░░", Bar(-1, 4))
	require.Equal(t, "██░░", Bar(0.5, 4))
	require.Equal(t, "████", Bar(2, 4))
}

func TestLabels(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]Row{
		"charge":             {Key: "charge", Name: "charge"},
		"charge o-1":         {Key: "charge@o-1", Name: "charge"},
		"count docs/a@b.md":  {Key: "file@docs/a@b.md/count", Name: "count"},
		"count docs/count/x": {Key: "file@docs/count/x/count", Name: "count"},
		"sleep":              {Key: "item#3/sleep#2", Name: "sleep"},
	} {
		require.Equal(t, want, r.label(), r.Key)
	}
}

func TestTerminalsAreFound(t *testing.T) {
	t.Parallel()
	s, _ := newScreen(t)
	require.False(t, isTerminal(s.out))
	_, _, ok := sizeOf(s.out)
	require.False(t, ok)
}
