package cairn

import (
	"context"

	"github.com/cairn-workflow/cairn/internal/engine"
)

// AllNamespaces stands in [Config.Namespaces] for all namespaces that there are and will be.
const AllNamespaces = engine.AllNamespaces

// In returns the engine in another namespace: what is done with it happens there. It is the same engine, with the same limits, and [Engine.Stop] ends it in
// every namespace. Calling it costs nothing, so a server can call it for each request of a tenant. Namespaces never see each other's runs, keys and tokens.
//
// The engine executes the runs of a namespace if [Config.Namespaces] says so. In another one it can do everything else, and start runs with [Elsewhere].
func (e *Engine) In(namespace string) *Engine { return &Engine{inner: e.inner.In(namespace)} }

// Namespace returns the namespace that the engine works in.
func (e *Engine) Namespace() string { return e.inner.Namespace() }

// NamespaceOf returns the namespace of the run that executes, to be asked in a workflow or a step; "" anywhere else.
func NamespaceOf(ctx context.Context) string {
	if namespace := engine.InfoOf(ctx).Namespace(); namespace != "" {
		return namespace
	}
	if b, ok := ctx.Value(branchKey{}).(*engine.Branch); ok {
		return b.Namespace()
	}
	return ""
}
