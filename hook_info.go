package cairn

import (
	"context"
	"time"

	"github.com/cairn-workflow/cairn/internal/engine"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/payload"
	"github.com/cairn-workflow/cairn/internal/store"
)

// HookInfo is what is known about a hook that a run has opened.
type HookInfo struct {
	RunID     string    `json:"runId"`
	Name      string    `json:"name"` // with the branch that it is on
	Token     string    `json:"token"`
	Used      bool      `json:"used,omitempty"` // it took its only value: see [Hook.Once]
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"` // zero: never; see [Hook.Expires]
	metadata  journal.Payload
}

func newHookInfo(h *store.RunHook) *HookInfo {
	return &HookInfo{
		RunID: formatRun(h.Run), Name: h.Key, Token: h.Token, Used: h.Status == journal.HookConsumed,
		CreatedAt: h.CreatedAt.Std(), ExpiresAt: timeOrZero(h.ExpiresAt), metadata: h.Metadata,
	}
}

// Metadata decodes the metadata that the workflow gave the hook.
func (h *HookInfo) Metadata(into any) error {
	if h.metadata == nil {
		return nil
	}
	return payload.Decode(h.metadata, into)
}

// HookInfo describes the hook that has a token.
func (e *Engine) HookInfo(ctx context.Context, token string) (*HookInfo, error) {
	h, err := e.inner.Store().HookByToken(ctx, e.inner.Namespace(), token, store.ResolveAll)
	if err != nil {
		return nil, err
	}
	return newHookInfo(h), nil
}

// HookFilter selects hooks. An empty field matches all.
type HookFilter struct {
	RunID       string
	Name        string // as [NewHook] has it, without a branch
	Limit       int    // of one page; 0: 100, at most 1000
	Cursor      string // of the page before
	NewestFirst bool
}

// HookPage is a part of a list of hooks. With a name in the filter a page may have fewer hooks than its limit, and there
// may still be more.
type HookPage struct {
	Hooks  []*HookInfo `json:"hooks"`
	Cursor string      `json:"cursor,omitempty"` // continues after the last hook
	More   bool        `json:"more,omitempty"`   // whether there are more
}

// Hooks lists the hooks that runs have opened and not closed, run by run, the oldest run first.
func (e *Engine) Hooks(ctx context.Context, f HookFilter) (*HookPage, error) {
	var run journal.ID
	if f.RunID != "" {
		var err error
		if run, err = parseRun(f.RunID); err != nil {
			return nil, err
		}
	}
	page := store.Page{Limit: f.Limit, Cursor: f.Cursor, Desc: f.NewestFirst}
	list, err := e.inner.Store().Hooks(ctx, e.inner.Namespace(), run, store.ResolveAll, page)
	if err != nil {
		return nil, err
	}
	out := &HookPage{Cursor: list.Cursor, More: list.HasMore}
	for _, h := range list.Data {
		if h.Status != journal.HookRetained && (f.Name == "" || engine.NameOf(h.Key) == f.Name) {
			out.Hooks = append(out.Hooks, newHookInfo(h))
		}
	}
	return out, nil
}
