// Command shop takes orders over HTTP. Each order is a run: it survives crashes, waits for an approval if it is large,
// and undoes what it has done if it fails or is cancelled. README.md has the curl commands.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/examples/internal/program"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// Order is what a customer orders. Its id is the key of its run.
type Order struct {
	ID, Card string
	Cents    int
}

// Decision is what somebody says about a large order.
type Decision struct{ Approved bool }

// The names are permanent: what was recorded is found by them.
var (
	Checkout             = cairn.NewWorkflow("checkout", checkout)
	Approval             = cairn.NewHook[Decision]("approval")
	reserve, release     = call("reserve"), call("release")
	charge, refund, ship = call("charge"), call("refund"), call("ship")
)

// call defines a step that calls a service. This one pretends; a real one sends the idempotency key along.
func call(name string) cairn.Step[Order, string] {
	return cairn.NewStep(name, func(ctx context.Context, o Order) (string, error) {
		cairn.Logger(ctx).InfoContext(ctx, "the service is called") // the logger says which step
		if name == "charge" && o.Card == "busy" && cairn.Attempt(ctx) < 3 {
			return "", errors.New("the bank is busy")
		}
		if name == "charge" && o.Card == "empty" {
			return "", cairn.NonRetryable(cairn.NewError("card_declined", "the card was declined"))
		}
		return name + " " + cairn.IdempotencyKey(ctx), nil
	})
}

// checkout is the workflow. If something fails, or the run is cancelled, it undoes what was done, the last first.
func checkout(ctx cairn.Context, o Order) (string, error) {
	undo := []cairn.Step[Order, string]{release} // noted before the step: one that failed may have done its work
	fail := func(err error) (string, error) {
		clean, done := cairn.Cleanup(ctx, time.Hour) // the Context of a cancelled run is over
		defer done()
		for _, step := range slices.Backward(undo) {
			_, failed := step.Do(clean, o, cairn.Key(o.ID))
			err = errors.Join(err, failed)
		}
		return "", err
	}
	if _, err := reserve.Do(ctx, o); err != nil {
		return fail(err)
	}
	if o.Cents >= 100_00 { // a large order needs an approval
		switch d, err := Approval.Wait(ctx, cairn.Timeout(48*time.Hour)); {
		case err != nil:
			return fail(err)
		case !d.Approved:
			return fail(cairn.NewError("order_rejected", "the order was not approved"))
		}
	}
	undo = append(undo, refund)
	if _, err := charge.Do(ctx, o, cairn.Retry(cairn.RetryPolicy{Attempts: 5, First: time.Second / 10})); err != nil {
		return fail(err)
	}
	tracking, err := ship.Do(ctx, o)
	if err != nil {
		return fail(err)
	}
	return tracking, nil
}

func routes(eng *cairn.Engine) http.Handler {
	on := func(do func(r *http.Request, run *cairn.Run[string]) error) http.HandlerFunc { // the order in the path
		return answer(func(r *http.Request) (*cairn.Run[string], error) {
			run, err := Checkout.ByKey(r.Context(), eng, r.PathValue("id"))
			if err == nil {
				err = do(r, run)
			}
			return run, err
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /orders/{id}", on(func(*http.Request, *cairn.Run[string]) error { return nil }))
	mux.HandleFunc("POST /orders", answer(func(r *http.Request) (*cairn.Run[string], error) {
		var o Order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil || o.ID == "" {
			return nil, cairnerr.Errorf(cairnerr.CodeMalformed, "the body is no order with an id")
		}
		return Checkout.Start(r.Context(), eng, o, cairn.Key(o.ID))
	}))
	mux.HandleFunc("POST /orders/{id}/approve", on(func(r *http.Request, run *cairn.Run[string]) error {
		var d Decision
		if err := json.NewDecoder(r.Body).Decode(&d); err != nil {
			return cairnerr.Errorf(cairnerr.CodeMalformed, "the body is no decision: %w", err)
		}
		return Approval.SendTo(r.Context(), eng, run.ID(), d, cairn.Key(r.Header.Get("Idempotency-Key")))
	}))
	mux.HandleFunc("POST /orders/{id}/cancel", on(func(r *http.Request, run *cairn.Run[string]) error {
		return run.By(r.FormValue("user")).Cancel(r.Context(), r.FormValue("reason"))
	}))
	return http.MaxBytesHandler(http.NewCrossOriginProtection().Handler(mux), 1<<16)
}

// answer describes the run that do returns; a real shop shows less. An error becomes a status by its code.
func answer(do func(r *http.Request) (*cairn.Run[string], error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body any
		run, err := do(r)
		if err == nil {
			body, err = run.Describe(r.Context())
		}
		w.Header().Set("Content-Type", "application/json")
		if err != nil {
			w.WriteHeader(cairn.CodeOf(err).Status())
			body = map[string]any{"error": cairnerr.AsError(err)}
		}
		_ = json.NewEncoder(w).Encode(body)
	}
}

func main() { program.Main("shop", serve) }

func serve(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("shop", flag.ExitOnError)
	db := flags.String("db", "shop.db", "the SQLite `file` that keeps the orders")
	port := flags.String("port", "8080", "the `port` on 127.0.0.1")
	_ = flags.Parse(args)
	st, err := sqlite.Open(ctx, *db, nil)
	if err != nil {
		return err
	}
	eng, err := cairn.New(ctx, st, Checkout)
	if err != nil {
		return errors.Join(err, st.Close())
	}
	server := &http.Server{Addr: "127.0.0.1:" + *port, Handler: routes(eng), ReadHeaderTimeout: 5 * time.Second}
	context.AfterFunc(ctx, func() { _ = server.Shutdown(context.WithoutCancel(ctx)) })
	fmt.Fprintf(out, "The shop is open at http://%s/orders\n", server.Addr)
	if err = server.ListenAndServe(); errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	last, done := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer done()
	return errors.Join(err, server.Shutdown(last), eng.Stop(last), st.Close())
}
