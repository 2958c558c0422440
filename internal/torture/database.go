package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// The databases that can be tortured.
const (
	SQLite   = "sqlite"
	Postgres = "postgres"
)

// database is what all processes work on.
type database struct {
	kind    string
	dir     string // on the small file system, if there is one
	full    error  // why the disk cannot be full, nil: it can
	cluster *pgcluster.Cluster

	mu sync.Mutex // held by who does something to the server or to the disk
}

func newDatabase(ctx context.Context, kind, work string) (*database, error) {
	d := &database{kind: kind, dir: filepath.Join(work, "database")}
	if err := os.Mkdir(d.dir, 0o755); err != nil {
		return nil, err
	}
	d.full = mountSmall(d.dir)
	if kind != Postgres {
		return d, nil
	}
	if err := d.serve(ctx); err != nil {
		return nil, errors.Join(err, unmount(d)) // so that the directory can be removed
	}
	return d, nil
}

// serve starts the server, whose directory is that of the database.
func (d *database) serve(ctx context.Context) (err error) {
	if err := os.Setenv("TMPDIR", d.dir); err != nil {
		return err
	}
	d.cluster, err = pgcluster.New(ctx, pgcluster.Options{Durable: true})
	return err
}

// url is the address for processes, each of which is content with few connections: there are many of them, and those of the dead linger.
func (d *database) url() string {
	if d.kind == Postgres {
		return d.cluster.URL() + "&pool_max_conns=4"
	}
	return "sqlite:" + filepath.Join(d.dir, "torture.db")
}

// restart restarts the server, or lets it crash and come back later.
func (d *database) restart(ctx context.Context, b *blow) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b.Kind == blowRestart {
		return d.cluster.Restart(ctx)
	}
	if err := d.cluster.StopImmediate(); err != nil {
		return err
	}
	pause(ctx, b.Lasts)
	return d.up(ctx)
}

// up starts the server if it is down, also if that was its own decision.
func (d *database) up(ctx context.Context) error {
	if d.cluster == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	return d.cluster.Start(ctx)
}

// cut ends connections, and returns how many.
func (d *database) cut(ctx context.Context, share float64) (int64, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	conn, err := pgx.Connect(ctx, d.cluster.URL())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx) //nolint:errcheck // it has done what it was for
	tag, err := conn.Exec(ctx, `select pg_terminate_backend(pid) from pg_stat_activity
		where pid <> pg_backend_pid() and backend_type = 'client backend' and random() < $1`, share)
	return tag.RowsAffected(), err
}

// fullFor lets the disk be full for a while. A server that ended because of it is started again.
func (d *database) fullFor(ctx context.Context, b *blow) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := fill(d.dir)
	pause(ctx, b.Lasts)
	return errors.Join(err, empty(d.dir), d.up(ctx))
}

// end stops the server and removes the database, or moves it to where it can be looked at.
func (d *database) end(keep string) error {
	if keep == "" {
		if d.cluster != nil {
			return d.cluster.Stop()
		}
		return nil
	}
	var err error
	if d.cluster != nil {
		err = d.cluster.StopImmediate()
	}
	if err = errors.Join(err, os.CopyFS(keep, os.DirFS(d.dir))); err != nil {
		err = fmt.Errorf("torture: keep the database: %w", err)
	}
	if d.cluster != nil {
		err = errors.Join(err, d.cluster.Stop())
	}
	return err
}
