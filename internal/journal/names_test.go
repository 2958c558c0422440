package journal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for e := EventType(1); e < eventTypes; e++ {
		require.NotEmpty(t, e.String())
		back, err := ParseEventType(e.String())
		require.NoError(t, err)
		require.Equal(t, e, back)
		require.Equal(t, e, newData[e]().EventType())
	}
	_, err := ParseEventType("noop")
	require.Equal(t, cairnerr.CodeUnknownEvent, cairnerr.CodeOf(err))
	_, err = ParseEventType("")
	require.Equal(t, cairnerr.CodeUnknownEvent, cairnerr.CodeOf(err))
	require.Equal(t, "event_200", EventType(200).String())
	require.False(t, EventType(0).Known())

	for s := range Status(statuses) {
		back, err := ParseStatus(s.String())
		require.NoError(t, err)
		require.Equal(t, s, back)
		require.Equal(t, s == StatusCompleted || s == StatusFailed || s == StatusCancelled, s.Terminal())
	}
	_, err = ParseStatus("paused")
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	require.Equal(t, "unknown(99)", Status(99).String())
	require.Equal(t, "engine world3 world6", Engine.String()+" "+World3.String()+" "+World6.String())
	for d := range Dialect(dialects) {
		parsed, err := ParseDialect(d.String())
		require.NoError(t, err)
		require.Equal(t, d, parsed)
	}
	_, err = ParseDialect("klingon")
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(err))
	require.Equal(t, "open consumed retained", HookOpen.String()+" "+HookConsumed.String()+" "+HookRetained.String())
}

func TestDialectOfSpec(t *testing.T) {
	t.Parallel()
	for spec, want := range map[int]Dialect{0: Engine, 1: World3, 2: World3, 3: World3, 4: World3, 5: World3, 6: World6, 7: World6, 99: World6} {
		require.Equal(t, want, DialectOfSpec(spec), "spec %d", spec)
	}
}

func TestTime(t *testing.T) {
	t.Parallel()
	std := time.Date(2026, 1, 2, 3, 4, 5, 678_999_999, time.FixedZone("", 3600))
	at := TimeOf(std)
	require.Equal(t, "2026-01-02T02:04:05.678Z", at.String())
	require.Equal(t, at, TimeOf(at.Std()))
	require.Equal(t, time.UTC, at.Std().Location())
	require.Equal(t, at+1500, at.Add(1500*time.Millisecond+999*time.Microsecond))

	var zero Time
	require.True(t, zero.IsZero())
	require.True(t, zero.Std().IsZero())
	require.Equal(t, zero, TimeOf(time.Time{}))
	require.Empty(t, zero.String())

	text, err := at.MarshalText()
	require.NoError(t, err)
	var back Time
	require.NoError(t, back.UnmarshalText(text))
	require.Equal(t, at, back)
	require.NoError(t, back.UnmarshalText([]byte("2026-01-02T03:04:05.678+01:00")))
	require.Equal(t, at, back)
	require.NoError(t, back.UnmarshalText(nil))
	require.True(t, back.IsZero())
	require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(back.UnmarshalText([]byte("yesterday"))))
}

func TestCheckNamespace(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckNamespace("default"))
	for _, bad := range []string{"", "a\x00b", "a\nb", string(make([]byte, MaxNamespace+1))} {
		require.Equal(t, cairnerr.CodeMalformed, cairnerr.CodeOf(CheckNamespace(bad)))
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	for want, run := range map[string]Run{
		"parked":     {Status: StatusRunning, ParkedAt: 1, CancelledAt: 1},
		"cancelling": {Status: StatusRunning, CancelledAt: 1},
	} {
		require.Equal(t, want, run.Phase())
	}
	require.Empty(t, (&Run{Status: StatusRunning}).Phase())
	require.Empty(t, (&Run{Status: StatusCancelled, CancelledAt: 1}).Phase())
}
