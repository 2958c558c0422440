package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/engine"
)

// AllNamespaces in [Config.Namespaces] means all namespaces, also those that are created later.
const AllNamespaces = engine.AllNamespaces

// In returns the engine for another namespace: its methods then act in that namespace. It is the same engine, with the
// same limits, and [Engine.Stop] stops it in every namespace. Calling it costs nothing, so a server can call it for
// each request of a tenant. Namespaces never see each other's runs, keys and tokens.
//
// The engine executes the runs of a namespace if [Config.Namespaces] says so. In other namespaces it can do everything
// except execute runs; start them with [Elsewhere].
func (e *Engine) In(namespace string) *Engine { return &Engine{inner: e.inner.In(namespace)} }

// Namespace returns the namespace that the engine works in.
func (e *Engine) Namespace() string { return e.inner.Namespace() }

// NamespaceOf returns the namespace of the current run. It works in workflows and steps; anywhere else it returns "".
func NamespaceOf(ctx context.Context) string {
	if namespace := engine.InfoOf(ctx).Namespace(); namespace != "" {
		return namespace
	}
	if b, ok := ctx.Value(branchKey{}).(*engine.Branch); ok {
		return b.Namespace()
	}
	return ""
}
