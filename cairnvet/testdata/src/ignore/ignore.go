// Package ignore ignores.
package ignore

import (
	"math/rand/v2"
	"time"

	"github.com/cairn-workflow/cairn"
)

func hidden(ctx cairn.Context) {
	_ = time.Now() //cairnvet:ignore time people read it
	//cairnvet:ignore time people read it
	_ = time.Now()
	_ = time.Now() // want `time.Now in`

	//cairnvet:ignore time people read it
	//cairnvet:ignore random people like it
	_ = time.Now().Add(rand.N(time.Second))

	_ = time.Now() //cairnvet:ignore time a comment after code is about its line only
	_ = time.Now() // want `time.Now in`

	//cairnvet:ignore time it is about one line

	_ = time.Now() // want `time.Now in`
	//cairnvet:ignore random another rule
	_ = time.Now() // want `time.Now in`
}

func broken(ctx cairn.Context) {
	//cairnvet:ignore time // want `this hides nothing: say why time is ignored here \[ignore\]`
	_ = time.Now() // want `time.Now in`
	//cairnvet:ignore // want `this hides nothing: say which rule is ignored, and why`
	_ = time.Now() // want `time.Now in`
	//cairnvet:ignore clock because // want `this hides nothing: there is no rule "clock"; there are goroutine, time, random, maporder, loopkey, wait, sharedcontext, deferred, impure \[ignore\]`
	_ = time.Now() // want `time.Now in`
	//cairnvet:disable time because // want `the only comment of this kind is "//cairnvet:ignore rule reason"`
	_ = time.Now() // want `time.Now in`
}
