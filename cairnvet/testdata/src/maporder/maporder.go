// Package maporder loops over maps.
package maporder

import (
	"context"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/cairn-workflow/cairn"
)

type prices map[string]int

var charge = cairn.NewStep("charge", func(context.Context, string) (int, error) { return 0, nil })

var words = cairn.NewStream[string]("words")

var tell = cairn.NewStep("tell", func(ctx context.Context, m prices) (int, error) {
	for name := range m { // a step may do that
		_ = words.Write(ctx, name)
	}
	return 0, words.Close(ctx)
})

func chargeOne(ctx cairn.Context, name string) (int, error) { return charge.Do(ctx, name) }

func direct(ctx cairn.Context, m prices) error {
	for name := range m { // want `charge.Do is a durable call in the order of a map, which is different when the workflow is executed again: loop over slices.Sorted\(maps.Keys\(m\)\) \[maporder\]`
		if _, err := charge.Do(ctx, name, cairn.Key(name)); err != nil {
			return err
		}
	}
	for name := range maps.Keys(m) { // want `charge.Do is`
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	for range maps.Values(m) { // want `cairn.Sleep is`
		_ = cairn.Sleep(ctx, 1, cairn.Key("a"))
	}
	for name := range maps.All(m) { // want `cairn.Go is`
		_, _ = cairn.Go(ctx, name, func(ctx cairn.Context) (int, error) { return charge.Do(ctx, name, cairn.Key(name)) })
	}
	for _, name := range slices.Collect(maps.Keys(m)) { // want `helper is`
		_ = helper(ctx, name)
	}
	for name := range m { // want `words.Write is`
		_ = words.Write(ctx, name)
	}
	var shared sync.Map
	for range shared.Range { // want `cairn.Sleep is`
		_ = cairn.Sleep(ctx, 1, cairn.Key("a"))
	}
	return nil
}

func helper(ctx cairn.Context, name string) error { return nil }

func closures(ctx cairn.Context, m map[string]int) {
	pay := func(name string) { _, _ = charge.Do(ctx, name, cairn.Key(name)) }
	for name := range m { // want `pay is`
		pay(name)
	}
	for name := range m { // want `charge.Do is`
		func() { _, _ = charge.Do(ctx, name, cairn.Key(name)) }()
	}
	var again func(int)
	again = func(n int) {
		if n > 0 {
			again(n - 1)
			pay("one")
		}
	}
	for _, n := range m { // want `again is`
		again(n)
	}
	for _, name := range []string{"a", "b"} {
		pay(name)
	}
	changed := func(name string) {}
	for name := range m {
		changed(name) // nobody knows what it is
	}
	changed = pay
	changed = func(name string) { _, _ = charge.Do(ctx, name, cairn.Key(name)) }
}

func collected(ctx cairn.Context, m map[string]int) {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	for _, name := range names { // want `charge.Do is`
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	all := slices.Collect(maps.Keys(m))
	for _, name := range all { // want `charge.Do is`
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	var keys = maps.Keys(m)
	for name := range keys { // want `charge.Do is`
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	_, _ = cairn.Map(ctx, "all", all, 0, chargeOne) // want `these items are in the order of a map, .*: sort them, or use cairn.KeyBy`
	_, _ = cairn.Map(ctx, "all", all, 0, chargeOne, cairn.KeyBy(func(name string) string { return name }))
}

func sorted(ctx cairn.Context, m map[string]int, lists map[string][]string) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	names := slices.Collect(maps.Keys(m))
	slices.Sort(names)
	for _, name := range names {
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	_, _ = cairn.Map(ctx, "names", names, 0, chargeOne)
	var more []string
	for name := range m {
		more = append(more, name)
	}
	sort.Sort(sort.StringSlice(more))
	for _, name := range more {
		_, _ = charge.Do(ctx, name, cairn.Key(name))
	}
	for _, list := range lists {
		var copied []string
		for _, name := range list {
			copied = append(copied, name)
		}
		println(len(copied))
	}
	for _, list := range lists { // want `charge.Do is`
		var copied []string
		for _, name := range list {
			copied = append(copied, name)
		}
		for _, name := range copied { // in the order of the list
			_, _ = charge.Do(ctx, name, cairn.Key(name))
		}
	}
}

func harmless(ctx cairn.Context, m map[string]int) (sum int) {
	for name, price := range m {
		sum += price
		println(name, cairn.RunID(ctx), cairn.Now(ctx).String(), ctx.Err())
		logged(ctx, name)
	}
	_, _ = cairn.Do(ctx, "step", func(ctx context.Context) (int, error) {
		for name := range m {
			logged(ctx, name)
		}
		return 0, nil
	})
	return sum
}

func logged(context.Context, string) {}

func outside(m map[string]int) {
	for name := range m {
		logged(context.Background(), name)
	}
}
