package cairn_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// charging says something in a workflow and in a step, which fails once.
var charging = cairn.NewWorkflow("charging", func(ctx cairn.Context, cents int) (string, error) {
	cairn.Logger(ctx).Info("an order came", slog.Int("cents", cents))
	charge := cairn.NewStep("charge", func(ctx context.Context, cents int) (string, error) {
		if cairn.Attempt(ctx) == 1 {
			cairn.Logger(ctx).WarnContext(ctx, "the bank does not answer")
			return "", errors.New("no answer")
		}
		return fmt.Sprintf("charged %d", cents), nil
	}).Retry(cairn.RetryPolicy{Attempts: 3})
	return charge.Do(ctx, cents)
})

// Lines carry where they are from: run, workflow, step, attempt, epoch.
func ExampleLogger() {
	ctx := context.Background()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey || a.Key == "run" { // they differ each time
			return slog.Attr{}
		}
		return a
	}}))
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.NewWith(ctx, st, cairn.Config{Logger: logger}, charging)
	if err != nil {
		panic(err)
	}
	run, err := charging.Start(ctx, eng, 5_00)
	if err != nil {
		panic(err)
	}
	fmt.Println(run.Result(ctx))
	_ = eng.Stop(ctx)
	// Output:
	// level=INFO msg="an order came" workflow=charging epoch=1 cents=500
	// level=WARN msg="the bank does not answer" workflow=charging step=charge attempt=1 epoch=1
	// charged 500 <nil>
}

// Lines can be kept with their run, and read later, also by another process or with "cairn logs".
func ExampleRunHandle_Logs() {
	ctx := context.Background()
	st, err := sqlite.Memory(ctx, nil)
	if err != nil {
		panic(err)
	}
	eng, err := cairn.NewWith(ctx, st, cairn.Config{
		Logger:   slog.New(slog.DiscardHandler),
		KeepLogs: &cairn.KeepLogs{Level: slog.LevelInfo, MaxLines: 500},
	}, charging)
	if err != nil {
		panic(err)
	}
	run, err := charging.Start(ctx, eng, 5_00)
	if err != nil {
		panic(err)
	}
	if _, err := run.Result(ctx); err != nil {
		panic(err)
	}
	for filter := (cairn.LogFilter{Limit: 100}); ; {
		page, err := eng.Run(run.ID()).Logs(ctx, filter)
		if err != nil {
			panic(err)
		}
		for _, line := range page.Lines {
			fmt.Println(line.Level, line.Step, line.Message, string(line.Attrs))
		}
		if !page.More {
			break
		}
		filter.Cursor = page.Cursor
	}
	_ = eng.Stop(ctx)
	// Output:
	// INFO  an order came {"cents":500}
	// WARN charge the bank does not answer
}
