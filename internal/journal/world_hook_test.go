package journal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/cairnerr"
)

func worldHooks() []row {
	const day = 24 * 60 * 60 * 1000
	open := about(h1, &HookCreated{Token: "t", Webhook: true, Metadata: Payload("m")})
	single := about(h1, &HookCreated{Token: "t", SingleUse: true})
	expires := about(h1, &HookCreated{Token: "t", ExpiresAt: t0 + 5})
	retained := about(h1, &HookCreated{Token: "t", RetainUntil: t0 + 5})
	received := about(h1, &HookReceived{Token: "t", Payload: Payload("p")})
	sent := about(h1, &HookReceived{Sender: "x", Payload: Payload("p")})
	disposed := about(h1, &HookDisposed{})
	same := func(t *testing.T, _ *State, res *Result) {
		t.Helper()
		require.Equal(t, Outcome{Appended: -1, Seq: 3}, res.Outcomes[0], "the first delivery is the answer")
	}
	return []row{
		{name: "new", when: open, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, Hook{ID: h1, Token: "t", Webhook: true, CreatedAt: t0, Seq: 2}, *s.Hooks[h1])
		}},
		{name: "exists", given: []Event{open}, when: open, code: cairnerr.CodeHookExists, status: 409},
		{name: "exists with another token", given: []Event{open}, when: about(h1, &HookCreated{Token: "u"}), code: cairnerr.CodeHookExists, status: 409},
		{name: "token held by another hook", given: []Event{open}, when: about(h2, &HookCreated{Token: "t"}), appends: []EventType{EventHookConflict}, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, &HookConflict{Token: "t", Run: theRun}, res.Appended[0].Data)
			require.Equal(t, h2, res.Appended[0].Entity)
			require.Nil(t, s.Hooks[h2])
		}},
		{name: "created and disposed of before", given: []Event{open, disposed}, when: open, code: cairnerr.CodeHookExists, status: 409},
		{name: "refused before", given: []Event{open, about(h2, &HookCreated{Token: "t"})}, when: about(h2, &HookCreated{Token: "t"}), code: cairnerr.CodeHookExists, status: 409},
		{name: "refused before, another token", given: []Event{open, about(h2, &HookCreated{Token: "t"})}, when: about(h2, &HookCreated{Token: "u"}), code: cairnerr.CodeHookExists, status: 409},
		{name: "token free again", given: []Event{open, disposed}, when: about(h2, &HookCreated{Token: "t"})},
		{name: "run ended", given: []Event{ended()}, when: open, code: cairnerr.CodeRunEnded, status: 409},
		{name: "no token", when: about(h1, &HookCreated{}), code: cairnerr.CodeMalformed, status: 400},
		{name: "retained for 30 days", when: about(h1, &HookCreated{Token: "t", RetainUntil: t0 + 30*day})},
		{name: "retained too long", when: about(h1, &HookCreated{Token: "t", RetainUntil: t0 + 30*day + 1}), code: cairnerr.CodeLimitExceeded, status: 400},

		{name: "open", given: []Event{open}, when: received},
		{name: "again", given: []Event{open, received}, when: received},
		{name: "missing", when: received, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "another token", given: []Event{open}, when: about(h1, &HookReceived{Token: "u"}), code: cairnerr.CodeHookNotFound, status: 404},
		{name: "disposed", given: []Event{open, disposed}, when: received, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "run ended", only: World3, given: []Event{open, ended()}, when: received, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "run ended", only: World6, given: []Event{open, ended()}, when: received, code: cairnerr.CodeRunGone, status: 410},
		{name: "retained", given: []Event{retained, ended()}, when: received, code: cairnerr.CodeRunGone, status: 410},
		{name: "single use", given: []Event{single}, when: received, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, HookConsumed, s.Hooks[h1].Status)
		}},
		{name: "single use, used", given: []Event{single, received}, when: received, code: cairnerr.CodeHookConsumed, status: 410},
		{name: "before it expires", given: []Event{expires}, after: 4, when: received},
		{name: "at the moment it expires", given: []Event{expires}, after: 5, when: received, code: cairnerr.CodeHookExpired, status: 410},

		{name: "with a sender's key", given: []Event{open}, when: sent, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Len(t, s.Receipts["x"].Digest, 16)
			require.Equal(t, int64(3), s.Receipts["x"].Seq)
		}},
		{name: "same sender's key", given: []Event{open, sent}, when: sent, nothing: true, then: same},
		{name: "same sender's key, disposed", given: []Event{open, sent, disposed}, when: sent, nothing: true, then: same},
		{name: "same sender's key, used", given: []Event{single, sent}, when: sent, nothing: true, then: same},
		{name: "same sender's key, run ended", given: []Event{open, sent, ended()}, when: sent, nothing: true, then: same},
		{name: "same sender's key, another payload", given: []Event{open, sent}, when: about(h1, &HookReceived{Sender: "x", Payload: Payload("q")}), code: cairnerr.CodeReceiptConflict, status: 409},
		{name: "same sender's key, another hook", given: []Event{open, sent}, when: about(h2, &HookReceived{Sender: "x", Payload: Payload("p")}), code: cairnerr.CodeReceiptConflict, status: 409},
		{
			name:  "same sender's key, a digest decides",
			given: []Event{open, about(h1, &HookReceived{Sender: "x", Digest: []byte("d"), Payload: Payload("p")})},
			when:  about(h1, &HookReceived{Sender: "x", Digest: []byte("d"), Payload: Payload("encrypted again")}), nothing: true, then: same,
		},

		{name: "open", given: []Event{open}, when: disposed, then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Empty(t, s.Hooks)
			require.Equal(t, []ID{h1}, res.Effects.Disposed)
		}},
		{name: "used", given: []Event{single, received}, when: disposed},
		{name: "missing", when: disposed, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "twice", given: []Event{open, disposed}, when: disposed, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "run ended", given: []Event{open, ended()}, when: disposed, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "retained", given: []Event{retained, ended()}, when: disposed, code: cairnerr.CodeHookNotFound, status: 404},
		{name: "with a retained hook", given: []Event{retained}, after: 4, when: ended(), then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Equal(t, HookRetained, s.Hooks[h1].Status)
			require.Empty(t, res.Effects.Disposed)
		}},
		{name: "with a hook whose retention is over", given: []Event{retained}, after: 5, when: ended(), then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Empty(t, s.Hooks)
			require.Equal(t, []ID{h1}, res.Effects.Disposed)
		}},
		{name: "again, with a hook whose retention is over", given: []Event{retained, cancels()}, after: 9, when: cancels(), then: func(t *testing.T, s *State, res *Result) {
			t.Helper()
			require.Empty(t, res.Effects, "a repeated cancel changes nothing")
			require.Len(t, s.Hooks, 1)
		}},
	}
}

func worldWaits() []row {
	created := about(w1, &WaitCreated{ResumeAt: t0 + 1000})
	completed := about(w1, &WaitCompleted{})
	return []row{
		{name: "new", when: created, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, Wait{ID: w1, Status: StatusRunning, ResumeAt: t0 + 1000, CreatedAt: t0, Seq: 2}, *s.Waits[w1])
		}},
		{name: "exists", given: []Event{created}, when: created, code: cairnerr.CodeWaitExists, status: 409},
		{name: "over", given: []Event{created, completed}, when: created, code: cairnerr.CodeWaitExists, status: 409},
		{name: "run ended", given: []Event{ended()}, when: created, code: cairnerr.CodeRunEnded, status: 409},
		{name: "waiting", given: []Event{created}, after: 7, when: completed, then: func(t *testing.T, s *State, _ *Result) {
			t.Helper()
			require.Equal(t, StatusCompleted, s.Waits[w1].Status)
			require.Equal(t, t0+7, s.Waits[w1].CompletedAt)
		}},
		{name: "over", given: []Event{created, completed}, when: completed, code: cairnerr.CodeWaitCompleted, status: 409},
		{name: "missing", when: completed, code: cairnerr.CodeWaitNotFound, status: 404},
		{name: "run ended", given: []Event{created, ended()}, when: completed, code: cairnerr.CodeWaitNotFound, status: 404},
	}
}

func TestTokenHeldByAnotherRun(t *testing.T) {
	t.Parallel()
	for d := range Dialect(dialects) {
		b := newRun(t, d, started())
		b.must(t, &Command{Run: another, Events: []Event{{Data: birth(World6)}, about(h1, &HookCreated{Token: "t", RetainUntil: t0 + 10})}})
		res, err := b.write(about(h1, &HookCreated{Token: "t"}))
		require.NoError(t, err)
		require.Equal(t, []EventType{EventHookConflict}, types(res.Appended))
		require.Equal(t, &HookConflict{Token: "t", Run: another}, res.Appended[0].Data)
		require.Empty(t, b.state(theRun).Hooks)

		b.must(t, &Command{Run: another, Events: []Event{ended()}})
		res, err = b.write(about(h2, &HookCreated{Token: "t"}))
		require.NoError(t, err)
		require.Equal(t, []EventType{EventHookConflict}, types(res.Appended), "a retained token stays reserved")
		requireFolds(t, theRun, b.state(theRun), b.logs[theRun])
	}
}
