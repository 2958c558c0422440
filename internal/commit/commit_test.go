package commit_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/cairn-workflow/cairn/internal/commit"
	"github.com/cairn-workflow/cairn/internal/journal"
	"github.com/cairn-workflow/cairn/store"
	"github.com/cairn-workflow/cairn/store/sqlite"
)

func TestQuick(t *testing.T) {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, t.TempDir()+"/x.db", nil)
	require.NoError(t, err)
	m := journal.NewMinter(rand.Reader)
	var mu sync.Mutex
	mint := func() journal.ID {
		mu.Lock()
		defer mu.Unlock()
		id, _ := m.Mint(journal.TimeOf(time.Now()))
		return id
	}
	self := mint()
	em := journal.NewMinter(rand.Reader)
	c, err := commit.New(ctx, st, self, &commit.Config{Now: func() journal.Time { return journal.TimeOf(time.Now()) }, Mint: em.Mint})
	require.NoError(t, err)
	owner := journal.Ownership{Incarnation: self, Epoch: 1}
	var wg sync.WaitGroup
	start := time.Now()
	n := 0
	for g := 0; g < 256; g++ {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for k := 0; k < 10; k++ {
				run := mint()
				do := func(ev ...journal.Event) {
					_, err := c.Do(ctx, &journal.Command{Namespace: "default", Run: run, Guards: journal.Guards{Owner: owner}, Events: ev})
					if err != nil {
						panic(err)
					}
				}
				do(journal.Event{Data: &journal.RunCreated{Workflow: "w"}})
				do(journal.Event{Data: &journal.RunStarted{}})
				for i := 0; i < 10; i++ {
					do(journal.Event{Key: fmt.Sprintf("step#%d", i), Data: &journal.StepCompleted{Name: "step", Attempt: 1, Result: make([]byte, 200)}})
				}
				do(journal.Event{Data: &journal.RunCompleted{}})
			}
		}()
	}
	wg.Wait()
	n = 256 * 10 * 13
	t.Logf("%d events/s", int(float64(n)/time.Since(start).Seconds()))
	l, err := st.Runs(ctx, "default", store.RunFilter{}, store.Page{})
	require.NoError(t, err)
	require.Len(t, l.Data, 100)
	t.Logf("%+v", c.Stats())
	require.NoError(t, c.Close(ctx))
	require.NoError(t, st.Close())
}
