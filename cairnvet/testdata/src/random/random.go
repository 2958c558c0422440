// Package random draws lots.
package random

import (
	"context"
	secret "crypto/rand"
	"io"
	old "math/rand"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"

	"github.com/cairn-workflow/cairn"
)

func workflow(ctx cairn.Context, buffer []byte) (string, error) {
	_ = rand.IntN(6)                             // want `rand.IntN in a workflow is different when it is executed again: use cairn.Rand\(ctx\) \[random\]`
	_ = rand.N(6)                                // want `rand.N in`
	_ = old.Intn(6)                              // want `rand.Intn in`
	rand.Shuffle(len(buffer), func(int, int) {}) // want `rand.Shuffle in`
	_, _ = secret.Read(buffer)                   // want `rand.Read in a workflow .* a step for secrets`
	_, _ = io.ReadFull(secret.Reader, buffer)    // want `rand.Reader in`
	_ = uuid.New()                               // want `uuid.New in a workflow .* use cairn.NewID`
	_ = uuid.Must(uuid.NewV7())                  // want `uuid.NewV7 in`
	_ = ulid.Make()                              // want `ulid.Make in`
	return uuid.NewString(), nil                 // want `uuid.NewString in`
}

func fine(ctx cairn.Context, name string) (string, error) {
	dice := cairn.Rand(ctx)
	_ = dice.IntN(6)
	_ = rand.New(rand.NewPCG(1, 2)).IntN(6)
	_ = old.New(old.NewSource(1)).Intn(6)
	_ = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name))
	if _, err := uuid.Parse(name); err != nil {
		return cairn.NewID(ctx), nil
	}
	return cairn.Do(ctx, "token", func(context.Context) (string, error) { return secret.Text(), nil })
}

func outside() int { return rand.IntN(6) }
