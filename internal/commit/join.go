package commit

import (
	"context"

	"github.com/cairn-workflow/cairn/cairnerr"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/internal/store"
)

// maxJoinTries is how often somebody else may be faster with the same start key. Who is has committed, and is found with the next look.
const maxJoinTries = 10

// Join writes a command that makes a run into a transaction of the user's, reduced as the committer would. It is the one way around
// the committer: what it writes must come with the user's commit or not at all, and nobody owns the new run.
func Join(ctx context.Context, st store.Joiner, tx store.UserTx, cmd *journal.Command, env journal.Env) (*journal.Result, error) {
	if err := cmd.Check(); err != nil {
		return nil, err
	}
	joined, err := st.Join(ctx, tx, env.Now)
	if err != nil {
		return nil, err
	}
	for range maxJoinTries {
		outside := journal.NewOutside()
		for _, key := range cmd.StartKeys() {
			started, found, err := joined.Started(ctx, key)
			if err != nil {
				return nil, err
			}
			if found {
				outside.StartKeys[key] = started
			}
		}
		state := journal.NewState(cmd.Namespace)
		res, err := state.Reduce(cmd, env, outside)
		if err != nil || res.Existing {
			return res, err
		}
		change := &store.RunChange{State: state, New: true, Events: res.Appended, Rows: state.Changed()}
		if inserted, err := joined.Insert(ctx, change); err != nil || inserted {
			return res, err
		}
	}
	return nil, cairnerr.Errorf(cairnerr.CodeTxConflict, "other transactions keep using the same start key")
}
