package cairn_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-workflow/cairn"
)

// Attributes have a type. Runs are found by values and by ranges of them; those of a range come in its order.
func ExampleNewAttribute() {
	ctx := context.Background()
	customer := cairn.NewAttribute[string]("customer")
	cents := cairn.NewAttribute[int]("cents")
	wf := cairn.NewWorkflow("order", func(cairn.Context, string) (string, error) { return "", nil })
	eng := start(wf)
	for _, o := range []struct {
		id, customer string
		cents        int
	}{{"o-1", "ada", 5000}, {"o-2", "grace", 200}, {"o-3", "adam", 900}} {
		_, err := wf.Start(ctx, eng, o.id, cairn.Key(o.id), cairn.WithAttributes(customer.Value(o.customer), cents.Value(o.cents)))
		if err != nil {
			panic(err)
		}
	}
	search := func(where ...cairn.Condition) {
		page, err := eng.List(ctx, cairn.Filter{Workflow: "order", Where: where})
		if err != nil {
			panic(err)
		}
		var found []string
		for _, info := range page.Runs {
			n, _ := cents.Of(info)
			found = append(found, fmt.Sprint(info.StartKey, ": ", n))
		}
		fmt.Println(strings.Join(found, ", "))
	}
	search(customer.Is("ada"))
	search(cents.AtLeast(500))
	search(cents.Below(1000), cairn.HasPrefix(customer, "ada"))
	// Output:
	// o-1: 5000
	// o-3: 900, o-1: 5000
	// o-3: 900
}

// A workflow tells by attributes how far it has come, and so does who looks at it from outside.
func ExampleSetAttributes() {
	ctx := context.Background()
	stage := cairn.NewAttribute[string]("stage")
	owner := cairn.NewAttribute[string]("owner")
	wf := cairn.NewWorkflow("claim", func(ctx cairn.Context, _ int) (string, error) {
		if err := cairn.SetAttributes(ctx, stage.Value("waits for papers")); err != nil {
			return "", err
		}
		papers, err := cairn.NewHook[string]("papers").Token("claim 7").Wait(ctx)
		if err != nil {
			return "", err
		}
		return papers, cairn.SetAttributes(ctx, stage.Value("done"))
	})
	eng := start(wf)
	r, err := wf.Start(ctx, eng, 0)
	if err != nil {
		panic(err)
	}
	show := func() {
		info, err := r.Describe(ctx)
		if err != nil {
			panic(err)
		}
		s, _ := stage.Of(info)
		who, known := owner.Of(info)
		fmt.Println(info.Status, s, who, known)
	}
	waiting(eng, r.ID())
	if err := eng.Run(r.ID()).SetAttributes(ctx, owner.Value("grace")); err != nil {
		panic(err)
	}
	show()
	if err := cairn.NewHook[string]("sent").Send(ctx, eng, "claim 7", "three pages"); err != nil {
		panic(err)
	}
	if _, err := r.Result(ctx); err != nil {
		panic(err)
	}
	show()
	// Output:
	// running waits for papers grace true
	// completed done grace true
}

// All runs of a search, page by page.
func ExampleFilter() {
	ctx := context.Background()
	due := cairn.NewAttribute[time.Time]("due")
	day := time.Date(2026, time.May, 1, 0, 0, 0, 0, time.UTC)
	wf := cairn.NewWorkflow("invoice", func(cairn.Context, int) (int, error) { return 0, nil })
	eng := start(wf)
	for i := range 5 {
		_, err := wf.Start(ctx, eng, i, cairn.Key(fmt.Sprint("i-", i)), cairn.WithAttributes(due.Value(day.AddDate(0, 0, 7*i))))
		if err != nil {
			panic(err)
		}
	}
	filter := cairn.Filter{Where: []cairn.Condition{due.Between(day, day.AddDate(0, 1, 0))}, NewestFirst: true, Limit: 2}
	for {
		page, err := eng.List(ctx, filter)
		if err != nil {
			panic(err)
		}
		for _, info := range page.Runs {
			at, _ := due.Of(info)
			fmt.Println(info.StartKey, at.Format(time.DateOnly))
		}
		if !page.More {
			break
		}
		filter.Cursor = page.Cursor
	}
	// Output:
	// i-4 2026-05-29
	// i-3 2026-05-22
	// i-2 2026-05-15
	// i-1 2026-05-08
	// i-0 2026-05-01
}

// Who did what to a run, and why: noted by a step, at the start, and from outside, also when the run has ended.
func ExampleAnnotate() {
	ctx := context.Background()
	check := cairn.NewStep("check", func(ctx context.Context, cents int) (bool, error) {
		err := cairn.Annotate(ctx, cairn.Annotation{Name: "check.rule", Actor: "rule 12", Value: "above 1000"})
		return cents <= 1000, err
	})
	wf := cairn.NewWorkflow("expense", func(ctx cairn.Context, cents int) (string, error) {
		if ok, err := check.Do(ctx, cents); !ok {
			return "refused", err
		}
		return "paid", nil
	})
	eng := start(wf)
	r, err := wf.Start(ctx, eng, 5000, cairn.Annotations(cairn.Annotation{Name: "start.why", Actor: "ada", Value: "a new chair"}))
	if err != nil {
		panic(err)
	}
	if _, err := r.Result(ctx); err != nil {
		panic(err)
	}
	if err := eng.Run(r.ID()).Annotate(ctx, cairn.Annotation{Name: "check.appeal", Actor: "ada", Value: "it is a good chair"}); err != nil {
		panic(err)
	}
	show := func(f cairn.AnnotationFilter) {
		for a, err := range eng.Run(r.ID()).Annotations(ctx, f) {
			if err != nil {
				panic(err)
			}
			var text string
			if err := a.Value(&text); err != nil {
				panic(err)
			}
			fmt.Printf("%s by %s: %s\n", a.Name, a.Actor, text)
		}
	}
	show(cairn.AnnotationFilter{})
	fmt.Println("---")
	show(cairn.AnnotationFilter{Prefix: "check.", Actor: "ada"})
	// Output:
	// start.why by ada: a new chair
	// check.rule by rule 12: above 1000
	// check.appeal by ada: it is a good chair
	// ---
	// check.appeal by ada: it is a good chair
}
