// Command hello is the first program in the README. Stop it with kill -9 while it sleeps, and start it again: it goes on.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/cairn-workflow/cairn"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

// Greet greets somebody after a while.
var Greet = cairn.NewWorkflow("greet", func(ctx cairn.Context, name string) (string, error) {
	if err := cairn.Sleep(ctx, 3*time.Second); err != nil { // or a year: the process may restart meanwhile
		return "", err
	}
	return cairn.Do(ctx, "compose", func(context.Context) (string, error) { return "hello " + name, nil })
})

func main() {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, "app.db", nil)
	if err != nil {
		log.Fatal(err)
	}
	eng, err := cairn.New(ctx, st, Greet)
	if err != nil {
		log.Fatal(err)
	}
	run, err := Greet.Start(ctx, eng, "world", cairn.Key("the first"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(run.Result(ctx))
}
