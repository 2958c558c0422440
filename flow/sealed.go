package flow

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/payload"
)

// Sealed keeps a flow in its token, encrypted. It needs no database: whoever has the token has the flow.
//
// A token works once in each process that has seen it used: see [Guard].
type Sealed struct {
	keys      *Keys
	codec     *payload.Codec
	ttl       time.Duration
	limit     int
	guard     Guard
	unguarded bool
}

const (
	sealedTTL   = time.Hour
	sealedLimit = 4096
	paddedTo    = 64 // so that the length tells little of the content
)

// NewSealed returns a strategy whose tokens are valid for an hour and have at most 4 KiB.
func NewSealed(keys *Keys) *Sealed {
	s := &Sealed{keys: keys, ttl: sealedTTL, limit: sealedLimit, guard: NewMemoryGuard()}
	return s.Namespace("")
}

// TTL returns the strategy with another time for which tokens are valid where an [Ask] has none of its own.
func (s *Sealed) TTL(d time.Duration) *Sealed { return s.with(func(o *Sealed) { o.ttl = d }) }

// Limit returns the strategy with another limit on the bytes of a token.
func (s *Sealed) Limit(n int) *Sealed { return s.with(func(o *Sealed) { o.limit = n }) }

// Guard returns the strategy with another guard, for example one that several processes share. With nil, a token can be
// used again until its time is over.
func (s *Sealed) Guard(g Guard) *Sealed {
	return s.with(func(o *Sealed) { o.guard, o.unguarded = g, g == nil })
}

// Namespace returns the strategy for one tenant: the tokens of others are not valid.
func (s *Sealed) Namespace(name string) *Sealed {
	return s.with(func(o *Sealed) {
		if o.keys != nil {
			o.codec = o.keys.codec("sealed", name)
		}
	})
}

func (s *Sealed) with(change func(*Sealed)) *Sealed {
	next := *s
	change(&next)
	return &next
}

// sealed is what a token holds.
type sealed struct {
	State    state  `json:"s"`
	ID       string `json:"i"` // of the pause: the same in all tokens of it
	Strategy string `json:"n"` // the name of the strategy: no other takes it
}

func (s *Sealed) check(flows []*definition) error {
	var mistakes []error
	if s.keys == nil {
		mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed, "a sealed strategy has no keys"))
	}
	for _, d := range flows {
		asks := d.asks()
		for _, place := range slices.Sorted(maps.Keys(asks)) {
			if asks[place].ask.attempts > 0 && s.unguarded {
				mistakes = append(mistakes, cairnerr.Errorf(cairnerr.CodeMalformed,
					"flow %q: Ask %q limits the attempts, and the sealed strategy has no Guard that counts them", d.name, place))
			}
		}
	}
	return errors.Join(mistakes...)
}

// seal returns the token for a state.
func (s *Sealed) seal(v *sealed) (string, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	plain = append(plain, bytes.Repeat([]byte(" "), (paddedTo-len(plain)%paddedTo)%paddedTo)...)
	envelope, err := s.codec.Encode(plain)
	if err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString(envelope)
	if len(token) > s.limit {
		return "", tooLarge(v.State.Context, len(token), s.limit)
	}
	return token, nil
}

// tooLarge names the largest field of a context that has no room in a token.
func tooLarge(context json.RawMessage, size, limit int) error {
	var fields map[string]json.RawMessage
	name := ""
	if json.Unmarshal(context, &fields) == nil && len(fields) > 0 {
		name = slices.MaxFunc(slices.Sorted(maps.Keys(fields)), func(a, b string) int { return cmp.Compare(len(fields[a]), len(fields[b])) })
	}
	return cairnerr.Errorf(cairnerr.CodeStateTooLarge,
		"the token would have %d bytes, and at most %d are allowed: the largest field of the context is %q with %d bytes. Keep the flow with a handle, or raise the limit",
		size, limit, name, len(fields[name]))
}

// open reads a token. Whatever is wrong with it, the error is the same.
func (s *Sealed) open(c *call, token string) (*sealed, *definition, *node, error) {
	envelope, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(token) > s.limit {
		return nil, nil, nil, errToken
	}
	var plain []byte
	v := new(sealed)
	if s.codec.Decode(envelope, &plain) != nil || json.Unmarshal(plain, v) != nil || v.Strategy != c.strategy || v.State.expired(c.now()) {
		return nil, nil, nil, errToken
	}
	d, err := c.flow(v.State.Flow)
	if err != nil {
		return nil, nil, nil, err
	}
	st, n, err := d.current(v.State)
	if err == nil && n == nil {
		err = errToken
	}
	v.State = st
	return v, d, n, err
}

// reseal keeps a state under the id of its pause, or under a new one.
func (s *Sealed) reseal(c *call, st state, id string) (state, string, error) {
	if id == "" {
		id = rand.Text()
	}
	if st.Expires == 0 {
		st.Expires = c.now().Add(s.ttl).UnixMilli()
	}
	token, err := s.seal(&sealed{State: st, ID: id, Strategy: c.strategy})
	return st, token, err
}

func (s *Sealed) adopt(_ context.Context, c *call, st state) (string, time.Time, error) {
	if d, err := c.flow(st.Flow); err != nil {
		return "", time.Time{}, err
	} else if n := d.asks()[st.At]; s.unguarded && n != nil && n.ask.attempts > 0 {
		return "", time.Time{}, cairnerr.Errorf(cairnerr.CodeUnsupported, "Ask %q limits the attempts, and the sealed strategy has no Guard that counts them", st.At)
	}
	st, token, err := s.reseal(c, st, "")
	return token, st.expiry(), err
}

func (s *Sealed) start(ctx context.Context, c *call, d *definition, st state) (*turned, error) {
	out, err := c.turn(ctx, d, st, nil)
	if err != nil {
		return nil, err
	}
	return s.keep(ctx, c, d, out)
}

// keep makes the token for what a turn came to, unless another strategy is to keep it.
func (s *Sealed) keep(ctx context.Context, c *call, d *definition, out outcome) (*turned, error) {
	t := &turned{flow: d, outcome: out}
	if out.ask != nil && out.swap == "" {
		var err error
		if t.outcome.state, t.token, err = s.reseal(c, out.state, ""); err != nil {
			return nil, err
		}
		t.expires = t.outcome.state.expiry()
	}
	return t, c.place(ctx, t)
}

// again makes the token for a pause that goes on, because its form was filled in wrongly.
func (s *Sealed) again(c *call, d *definition, out outcome, id string) (*turned, error) {
	st, token, err := s.reseal(c, out.state, id)
	out.state = st
	return &turned{flow: d, outcome: out, token: token, expires: st.expiry()}, err
}

func (s *Sealed) show(_ context.Context, c *call, token string) (*turned, error) {
	v, d, n, err := s.open(c, token)
	if err != nil {
		return nil, err
	}
	return &turned{flow: d, outcome: outcome{state: v.State, ask: n}, token: token, expires: v.State.expiry()}, nil
}

func (s *Sealed) resume(ctx context.Context, c *call, token string, in *submission) (t *turned, err error) {
	v, d, n, err := s.open(c, token)
	if err != nil {
		return nil, err
	}
	input, wrong := n.read(in.input)
	if len(wrong) > 0 { // nothing was taken, so nothing is counted
		return &turned{flow: d, outcome: outcome{state: v.State, ask: n, wrong: wrong}, token: token, expires: v.State.expiry()}, nil
	}
	became := Unchanged
	if !s.unguarded {
		tries, taken := s.guard.Take(ctx, v.ID, v.State.expiry())
		if taken != nil {
			return nil, taken
		}
		defer func() {
			if given := s.guard.Give(context.WithoutCancel(ctx), v.ID, became); given != nil {
				t, err = nil, errors.Join(err, failed(given)) // who cannot be counted does not go on
			}
		}()
		v.State.Tries = tries
		if most := n.ask.attempts; most > 0 && tries >= most {
			return nil, errOver
		}
	}
	out, err := c.turn(ctx, d, v.State, input)
	switch {
	case err != nil:
		if n.ask.burn {
			became = Answered
		}
		return nil, err
	case len(out.wrong) > 0:
		became = Wrong
		if most := n.ask.attempts; most > 0 && out.state.Tries >= most {
			return nil, errOver
		}
		return s.again(c, d, out, v.ID)
	}
	next, err := s.keep(ctx, c, d, out)
	if err == nil || n.ask.burn {
		became = Answered
	}
	return next, err
}
