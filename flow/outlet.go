package flow

import (
	"context"
	"time"
)

// Outlet delivers a pause to somebody who is not the caller: by mail, chat, or as a task in a list. Only that person gets
// the token. It must be given to [NewHandler].
type Outlet interface {
	// Name returns the name of the outlet, which callers are told.
	Name() string
	// Deliver delivers a pause. If it fails, so does the turn, and the pause before stays.
	Deliver(ctx context.Context, d *Delivery) error
}

// Delivery is a pause on its way to somebody.
type Delivery struct {
	To      string // whom [AskItem.Via] names
	Flow    string
	Ask     string
	Token   string    // treat it like a password
	URL     string    // of the page that shows the form
	Expires time.Time // zero: never
}

// OutletFunc returns an outlet that calls a function.
func OutletFunc(name string, deliver func(context.Context, *Delivery) error) Outlet {
	return outletFunc{name, deliver}
}

type outletFunc struct {
	name    string
	deliver func(context.Context, *Delivery) error
}

func (o outletFunc) Name() string { return o.name }

func (o outletFunc) Deliver(ctx context.Context, d *Delivery) error { return o.deliver(ctx, d) }
