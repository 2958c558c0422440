package observe

import "context"

// Join returns hooks that call all the given hooks, in their order.
func Join(all ...Hooks) Hooks {
	var joined Hooks
	for i := range all {
		joined = join(&joined, &all[i])
	}
	return joined
}

func join(a, b *Hooks) Hooks {
	return Hooks{
		Propagator:    joinPropagators(a.Propagator, b.Propagator),
		EngineStarted: both(a.EngineStarted, b.EngineStarted),
		EngineStopped: both(a.EngineStopped, b.EngineStopped),
		StartRun:      nested(a.StartRun, b.StartRun),
		Execute:       nested(a.Execute, b.Execute),
		Attempt:       nested(a.Attempt, b.Attempt),
		Look:          nested(a.Look, b.Look),
		Send:          nested(a.Send, b.Send),
		Received:      bothWith(a.Received, b.Received),
		RunEnded:      bothWith(a.RunEnded, b.RunEnded),
		RunParked:     both(a.RunParked, b.RunParked),
		RunEvicted:    both(a.RunEvicted, b.RunEvicted),
		Committed:     both(a.Committed, b.Committed),
		LeaseLost:     both(a.LeaseLost, b.LeaseLost),
		PeerDied:      both(a.PeerDied, b.PeerDied),
	}
}

func both[T any](a, b func(T)) func(T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(v T) {
		a(v)
		b(v)
	}
}

func bothWith[T any](a, b func(context.Context, T)) func(context.Context, T) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, v T) {
		a(ctx, v)
		b(ctx, v)
	}
}

// nested gives the second the context of the first, and ends it before the first.
func nested[B, E any](a, b func(context.Context, B) (context.Context, func(E))) func(context.Context, B) (context.Context, func(E)) {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return func(ctx context.Context, begin B) (context.Context, func(E)) {
		outer, endOuter := a(ctx, begin)
		if outer == nil {
			outer = ctx
		}
		inner, endInner := b(outer, begin)
		if inner == nil {
			inner = outer
		}
		return inner, func(end E) {
			if endInner != nil {
				endInner(end)
			}
			if endOuter != nil {
				endOuter(end)
			}
		}
	}
}

type propagators []Propagator

func joinPropagators(a, b Propagator) Propagator {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	}
	return propagators{a, b}
}

func (p propagators) Inject(ctx context.Context, headers map[string]string) {
	for _, one := range p {
		one.Inject(ctx, headers)
	}
}

func (p propagators) Extract(ctx context.Context, headers map[string]string) context.Context {
	for _, one := range p {
		if next := one.Extract(ctx, headers); next != nil {
			ctx = next
		}
	}
	return ctx
}
