package cli_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	_ "modernc.org/sqlite" // the driver of database/sql

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store/open"
)

// seedCommand makes a database with some runs: seed URL.
func seedCommand() { exit(seed(context.Background(), os.Args[1])) }

// sqlCommand changes a SQLite file behind Cairn's back: sql FILE STATEMENT.
func sqlCommand() {
	db, err := sql.Open("sqlite", os.Args[1])
	if err == nil {
		_, err = db.ExecContext(context.Background(), os.Args[2])
		err = errors.Join(err, db.Close())
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// seed makes three runs in two namespaces.
func seed(ctx context.Context, url string) error {
	db, err := open.URL(ctx, url)
	if err != nil {
		return err
	}
	now := func() journal.Time { return journal.TimeOf(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) }
	ids := journal.NewMinter(rand.NewChaCha8([32]byte{}))
	self, err := ids.Mint(now())
	if err != nil {
		return err
	}
	c, err := commit.New(ctx, db, self, &commit.Config{Now: now})
	if err != nil {
		return err
	}
	for _, namespace := range []string{"default", "default", "other"} {
		run, err := ids.Mint(now())
		if err != nil {
			return err
		}
		_, err = c.Do(ctx, &journal.Command{
			Namespace: namespace, Run: run, Guards: journal.Guards{Owner: journal.Ownership{Incarnation: self, Epoch: 1}},
			Events: []journal.Event{
				{Data: &journal.RunCreated{Workflow: "checkout", Attributes: map[string]string{"customer": "ada"}}},
				{Data: &journal.RunStarted{}},
				{Key: "charge", Data: &journal.StepStarted{Name: "charge"}},
				{Key: "charge", Data: &journal.StepCompleted{Name: "charge", Attempt: 1, Result: []byte("paid")}},
				{Key: "mail", Data: &journal.StepCompleted{Name: "mail", Attempt: 1}},
				{Key: "hook", Data: &journal.HookCreated{Token: "token-" + run.String()}},
				{Key: "wait", Data: &journal.WaitCreated{Kind: "sleep", ResumeAt: now().Add(time.Hour)}},
			},
		})
		if err != nil {
			return err
		}
	}
	return errors.Join(c.Close(ctx), db.Close())
}
