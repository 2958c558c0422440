package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cairn-workflow/cairn/internal/pgcluster"
)

// preparePostgres makes a database on the server, whose user must be allowed to; or, if no server is named, on a throw-away one with the defaults of
// PostgreSQL, which sync to disk at each commit. The meter that it returns knows CPU (of a server that was started here, too) and bytes.
func (db *database) preparePostgres(ctx context.Context, server string) (meter func() use, err error) {
	serverCPU := func() float64 { return 0 }
	if server == "" {
		cluster, err := pgcluster.New(ctx, pgcluster.Options{Durable: true})
		if err != nil {
			return nil, fmt.Errorf("start PostgreSQL (make setup installs it): %w", err)
		}
		db.closers = append(db.closers, cluster.Stop)
		server = cluster.URL()
		serverCPU = func() float64 { return childCPU(cluster.PID()) }
	}
	control, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	db.closers = append(db.closers, func() error { return control.Close(context.WithoutCancel(ctx)) })
	address, err := db.createDatabase(ctx, control, server)
	if err != nil {
		return nil, err
	}
	db.place = func(name string) place { return place{Kind: kindPostgres, Address: address, Schema: name} }
	return func() use { return use{cpu: ownCPU() + serverCPU(), bytes: walBytes(ctx, control)} }, nil
}

// createDatabase makes an empty database, which is dropped in the end, and returns its address.
func (db *database) createDatabase(ctx context.Context, control *pgx.Conn, server string) (string, error) {
	address, err := url.Parse(server)
	if err != nil {
		return "", errors.New("bad URL of a PostgreSQL server") // the URL, which the parser's message shows, may hold a password
	}
	name := "cairn_bench_" + strings.ToLower(rand.Text())
	if _, err := control.Exec(ctx, `create database `+name); err != nil {
		return "", err
	}
	db.closers = append(db.closers, func() error {
		_, err := control.Exec(context.WithoutCancel(ctx), `drop database `+name+` with (force)`)
		return err
	})
	address.Path = "/" + name
	return address.String(), nil
}

// walBytes returns how much the server has written to its log.
func walBytes(ctx context.Context, conn *pgx.Conn) float64 {
	var n float64
	if err := conn.QueryRow(ctx, `select pg_current_wal_insert_lsn() - '0/0'::pg_lsn`).Scan(&n); err != nil {
		return 0
	}
	return n
}
