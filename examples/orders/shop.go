package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Order is what a customer has ordered.
type Order struct {
	ID      string
	Amount  int // in cents
	Card    string
	Parcels []string // the warehouses that send one
}

// Receipt is what the customer gets in the end.
type Receipt struct {
	Amount   int
	Payment  string
	Tracking []string
}

// Parcel is what one warehouse sends.
type Parcel struct{ Order, From string }

// errDeclined is matched by its code: after a crash, and in a parent as in its child.
var errDeclined = cairn.NewError("card_declined", "the card was declined")

// shop has the workflows and their steps.
type shop struct {
	regret  time.Duration // how long a customer may change their mind
	transit time.Duration // how long a parcel is on its way

	order    *cairn.Workflow[Order, Receipt]
	shipment *cairn.Workflow[Parcel, string]

	reserve, release, refund, confirm cairn.Step[Order, string]
	charge                            cairn.Step[Order, string]
	pick, handOver, recall            cairn.Step[Parcel, string]
}

// newShop names workflows and steps. The names are permanent: what was recorded is found by them.
func newShop(w *world, regret, transit time.Duration) *shop {
	s := &shop{regret: regret, transit: transit}
	s.order = cairn.NewWorkflow("order", s.process)
	s.shipment = cairn.NewWorkflow("shipment", s.ship)

	s.reserve = cairn.NewStep("reserve stock", func(ctx context.Context, o Order) (string, error) { return w.call(ctx, "reserve", o.ID) })
	s.release = cairn.NewStep("release stock", func(ctx context.Context, o Order) (string, error) { return w.call(ctx, "release", o.ID) })
	s.refund = cairn.NewStep("refund", func(ctx context.Context, o Order) (string, error) { return w.call(ctx, "refund", o.ID) })
	s.confirm = cairn.NewStep("confirm", func(ctx context.Context, o Order) (string, error) { return w.call(ctx, "confirm", o.ID) })
	s.pick = cairn.NewStep("pick", func(ctx context.Context, p Parcel) (string, error) { return w.call(ctx, "pick", p.String()) })
	s.handOver = cairn.NewStep("hand over", func(ctx context.Context, p Parcel) (string, error) { return w.call(ctx, "hand-over", p.String()) })
	s.recall = cairn.NewStep("recall", func(ctx context.Context, p Parcel) (string, error) { return w.call(ctx, "recall", p.String()) })

	// The bank may be busy, then it is asked again. When it says no, asking again is of no use.
	s.charge = cairn.NewStep("charge", w.charge).Timeout(time.Minute).Retry(cairn.RetryPolicy{
		Attempts: 5, First: w.pace, Max: 10 * time.Second, Jitter: 0.1, Never: []cairn.Code{errDeclined.Code},
	})
	return s
}

// String names a parcel.
func (p Parcel) String() string { return p.Order + "-" + p.From }

// process is the workflow of an order. What goes wrong, a cancel too, is undone before it ends.
func (s *shop) process(ctx cairn.Context, o Order) (Receipt, error) {
	var undo undoing
	receipt, err := s.fulfil(ctx, o, &undo)
	if err == nil {
		return receipt, nil
	}
	// The context of a run that is cancelled is over. Cleaning up has one of its own.
	clean, done := cairn.Cleanup(ctx, time.Minute)
	defer done()
	return Receipt{}, errors.Join(err, undo.all(clean))
}

// fulfil is how it should go. It notes how to undo what it has done.
func (s *shop) fulfil(ctx cairn.Context, o Order, undo *undoing) (Receipt, error) {
	// How to undo something is noted before it is done: a step that failed may have done its work all the same.
	undo.add(func(ctx cairn.Context) error { _, err := s.release.Do(ctx, o); return err })
	if _, err := s.reserve.Do(ctx, o); err != nil {
		return Receipt{}, err
	}

	payment, err := s.charge.Do(ctx, o)
	if !errors.Is(err, errDeclined) { // money may have moved, also when the answer was lost
		undo.add(func(ctx cairn.Context) error { _, err := s.refund.Do(ctx, o); return err })
	}
	if err != nil {
		return Receipt{}, err
	}

	// The customer may still change their mind. In a real shop these are hours: while it sleeps, the order is a row in the database.
	if err := cairn.Sleep(ctx, s.regret); err != nil {
		return Receipt{}, err
	}

	tracking, err := s.shipAll(ctx, o)
	if err != nil {
		return Receipt{}, err
	}
	if _, err := s.confirm.Do(ctx, o); err != nil {
		return Receipt{}, err
	}
	return Receipt{Amount: o.Amount, Payment: payment, Tracking: tracking}, nil
}

// shipAll runs a child for each parcel. They go on beside each other, and each has a history, retries and a clean-up of its own. A cancel is passed
// on to them, and their ends are still waited for.
func (s *shop) shipAll(ctx cairn.Context, o Order) ([]string, error) {
	warehouse := func(from string) string { return from }
	return cairn.Map(ctx, "parcel", o.Parcels, 0, func(ctx cairn.Context, from string) (string, error) {
		title := "parcel " + o.ID + " from " + from
		return s.shipment.Run(ctx, Parcel{Order: o.ID, From: from}, cairn.Attributes(map[string]string{"title": title}))
	}, cairn.KeyBy(warehouse))
}

// ship is the workflow of one parcel.
func (s *shop) ship(ctx cairn.Context, p Parcel) (string, error) {
	if _, err := s.pick.Do(ctx, p); err != nil {
		return "", err
	}
	tracking, err := s.handOver.Do(ctx, p)
	if err == nil {
		err = cairn.Sleep(ctx, s.transit)
	}
	if err == nil {
		return tracking, nil
	}
	clean, done := cairn.Cleanup(ctx, time.Minute)
	defer done()
	_, undone := s.recall.Do(clean, p)
	return "", errors.Join(err, undone)
}

// undoing is a list of what undoes what was done.
type undoing []func(cairn.Context) error

func (u *undoing) add(f func(cairn.Context) error) { *u = append(*u, f) }

// all undoes everything, the last first. What fails does not keep it from the rest.
func (u *undoing) all(ctx cairn.Context) error {
	var errs []error
	for _, f := range slices.Backward(*u) {
		if err := f(ctx); err != nil {
			errs = append(errs, fmt.Errorf("undo: %w", err))
		}
	}
	return errors.Join(errs...)
}
