// Command orders processes orders that survive everything: it reserves stock, charges a card, ships each parcel in a child of its own, and undoes
// what it did when something goes wrong.
//
//	go run ./examples/orders                # stop it with Ctrl-C or kill -9, and start it again: it goes on
//	go run ./examples/orders -cancel 1-3    # in a second terminal: that order is cancelled, and undone
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/examples/internal/program"
	"github.com/cairn-workflow/cairn/examples/internal/show"
	"github.com/cairn-workflow/cairn/store/open"
)

func main() { program.Main("orders", run) }

// settings are what the command line says.
type settings struct {
	db, ledger, cancel string
	pace, lease        time.Duration
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var set settings
	flags := flag.NewFlagSet("orders", flag.ExitOnError)
	flags.StringVar(&set.db, "db", "orders.db", "where the orders are kept: a SQLite file, or postgres://…")
	flags.StringVar(&set.ledger, "ledger", "", "a file in which each call to the outside leaves a line")
	flags.StringVar(&set.cancel, "cancel", "", "cancel the order with this number, and do nothing else")
	flags.DurationVar(&set.pace, "pace", 800*time.Millisecond, "how long a step takes; sleeps take five times as long")
	flags.DurationVar(&set.lease, "lease", program.Lease, "how long a process that was killed keeps what it was doing")
	if err := flags.Parse(args); err != nil {
		return err
	}
	st, err := open.URL(ctx, set.db)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, st.Close()) }()
	if set.cancel != "" {
		return cancelOrder(ctx, st, set.cancel, out)
	}
	return work(ctx, st, set, out)
}

// work starts orders, or finds those that an earlier process has left, and shows them until they have ended.
func work(ctx context.Context, st cairn.Store, set settings, out io.Writer) error {
	began := time.Now()
	w := &world{pace: set.pace, ledger: io.Discard}
	if set.ledger != "" {
		file, err := os.OpenFile(set.ledger, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // each line was written when it was written
		w.ledger = file
	}
	s := newShop(w, 5*set.pace, 5*set.pace)
	watch := func(eng *cairn.Engine) error { return s.startAndWatch(ctx, eng, began, out) }
	return program.WithEngine(ctx, st, set.lease, []cairn.Definition{s.order, s.shipment}, watch, out, "Start it again, and the orders go on from where they are.")
}

func (s *shop) startAndWatch(ctx context.Context, eng *cairn.Engine, began time.Time, out io.Writer) error {
	day, unfinished, err := show.Next(ctx, eng, began, cairn.Filter{Workflow: s.order.Name()})
	if err != nil {
		return err
	}
	if unfinished {
		fmt.Fprintf(out, "The orders of day %d go on (%s).\n\n", day, show.AfterKill)
	} else {
		fmt.Fprintf(out, "The orders of day %d are new. %s\n\n", day, show.StopMe)
	}
	runs, ids, err := s.startAll(ctx, eng, day)
	if err != nil {
		return err
	}
	if err := show.Resume(ctx, eng, ids...); err != nil {
		return err
	}
	if err := show.Watch(ctx, eng, out, show.Options{Title: title}, ids...); err != nil {
		return err
	}
	return summary(ctx, runs, out)
}

// startAll starts the orders of a day. The start key makes it safe to repeat: an order that was started before is found by it, whether it has
// ended or not.
func (s *shop) startAll(ctx context.Context, eng *cairn.Engine, day int) (runs []*cairn.Run[Receipt], ids []string, err error) {
	for _, o := range ordersOf(day) {
		r, err := s.order.Start(ctx, eng, o, cairn.Key("order "+o.ID), cairn.Attributes(map[string]string{
			show.Number: strconv.Itoa(day), "order": o.ID, "title": "order " + o.ID,
		}))
		if err != nil {
			return nil, nil, err
		}
		runs, ids = append(runs, r), append(ids, r.ID())
	}
	return runs, ids, nil
}

// ordersOf returns the orders of a day: one that goes well in the end, one that cannot be paid, one with much to send.
func ordersOf(day int) []Order {
	id := func(n int) string { return fmt.Sprintf("%d-%d", day, n) }
	return []Order{
		{ID: id(1), Amount: 8490, Card: cardBusy, Parcels: []string{"Oslo"}},
		{ID: id(2), Amount: 129900, Card: cardEmpty, Parcels: []string{"Oslo"}},
		{ID: id(3), Amount: 23050, Card: cardGood, Parcels: []string{"Oslo", "Porto", "Turin"}},
	}
}

func title(info *cairn.RunInfo) string { return info.Attributes["title"] }

// summary tells how the orders ended.
func summary(ctx context.Context, runs []*cairn.Run[Receipt], out io.Writer) error {
	fmt.Fprintln(out)
	for _, r := range runs {
		info, err := r.Describe(ctx)
		if err != nil {
			return err
		}
		if info.EndedAt.IsZero() {
			fmt.Fprintf(out, "%s: %s; the next start lets it go on\n", title(info), info.Phase)
			continue
		}
		receipt, err := r.Result(ctx)
		switch {
		case err == nil:
			paid := fmt.Sprintf("%d.%02d paid (%s)", receipt.Amount/100, receipt.Amount%100, receipt.Payment)
			fmt.Fprintf(out, "%s: %s, shipped as %s\n", title(info), paid, strings.Join(receipt.Tracking, ", "))
		case errors.Is(err, errDeclined):
			fmt.Fprintf(out, "%s: the card was declined, the stock is released\n", title(info))
		case errors.Is(err, cairn.ErrCancelled):
			fmt.Fprintf(out, "%s: cancelled, and undone\n", title(info))
		default:
			fmt.Fprintf(out, "%s: %v\n", title(info), err)
		}
	}
	return nil
}

// cancelOrder asks an order to stop. This process has no workflows: it writes the wish down, and the process that works on the order sees it.
func cancelOrder(ctx context.Context, st cairn.Store, order string, out io.Writer) error {
	eng, err := cairn.New(ctx, st)
	if err != nil {
		return err
	}
	defer eng.Stop(ctx) //nolint:errcheck // it has nothing to lose
	page, err := eng.List(ctx, cairn.Filter{Workflow: "order", Attributes: map[string]string{"order": order}})
	if err != nil {
		return err
	}
	if len(page.Runs) == 0 {
		return fmt.Errorf("there is no order %q", order)
	}
	if err := eng.Run(page.Runs[0].ID).By("you").Cancel(ctx, "the customer has changed their mind"); err != nil {
		return err
	}
	fmt.Fprintf(out, "order %s was asked to stop\n", order)
	return nil
}
