package flow

import (
	"context"
	"encoding/json"
	"regexp"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
)

// Strategy keeps flows while they are paused. [NewSealed] keeps them in their tokens, [NewHandle] in a database.
type Strategy interface {
	// start does the first turn of a flow.
	start(ctx context.Context, c *call, d *definition, st state) (*turned, error)
	// resume does the next turn. The token has no name of a strategy any more.
	resume(ctx context.Context, c *call, token string, in *submission) (*turned, error)
	// show returns what a flow waits for.
	show(ctx context.Context, c *call, token string) (*turned, error)
	// adopt keeps a flow that another strategy has kept until now, and returns its token.
	adopt(ctx context.Context, c *call, st state) (token string, expires time.Time, err error)
	// check returns all that is wrong with keeping the flows.
	check(flows []*definition) error
}

// Strategies are strategies by their names, which stand before the dot of each token: letters, digits, _ and -.
type Strategies map[string]Strategy

var strategyName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

func isStrategyName(name string) bool { return strategyName.MatchString(name) }

// call is what a strategy needs from the handler.
type call struct {
	turner
	strategy string                                 // the name of the strategy
	base     string                                 // of links
	flow     func(name string) (*definition, error) // that may be resumed
	// place makes a pause known: to the strategy that keeps it from now on, and to whom an outlet delivers it. The turn
	// counts only if that succeeds.
	place func(context.Context, *turned) error
}

// submission is what somebody has sent to a pause.
type submission struct {
	input json.RawMessage
	nonce string // names the request: repeated, it gets the same answer; "": none
}

// turned is what became of a turn.
type turned struct {
	flow    *definition
	outcome outcome
	token   string    // under which the flow is kept, without the name of the strategy; "": it is not kept yet
	expires time.Time // zero: never

	strategy string // that keeps it
	sent     string // the outlet that has delivered it, "": none
}

// The errors of tokens. What is wrong with a token is not told, because that would help to forge one.
var (
	errToken = cairnerr.Errorf(cairnerr.CodeTokenInvalid, "the token is not valid, or its time is over")
	errOver  = cairnerr.Errorf(cairnerr.CodePauseOver, "this was done before, or there are no attempts left")
)

// expired reports whether the time of a pause is over.
func (st *state) expired(now time.Time) bool { return st.Expires != 0 && st.Expires <= now.UnixMilli() }

func (st *state) expiry() time.Time {
	if st.Expires == 0 {
		return time.Time{}
	}
	return time.UnixMilli(st.Expires).UTC()
}
