// Package pgcluster starts private, throw-away PostgreSQL servers for tests and benchmarks.
//
// A [Cluster] lives in a temporary directory, listens on a loopback port of its own, trusts every connection and is gone
// after [Cluster.Stop]: no process, no directory. It never touches a server that is already running on the machine.
//
//	cluster, err := pgcluster.New(ctx, pgcluster.Options{})
//	if err != nil { ... }
//	defer cluster.Stop()
//	pool, err := pgxpool.New(ctx, cluster.URL())
//
// # No server is left behind
//
// On Linux the server receives SIGQUIT (immediate shutdown) from the kernel when the process that started it ends, however
// it ends: kill -9 and a panicking test included. The directory of a process that was killed stays until the next [New] on
// the same machine, which removes what has no living owner. On other systems only Stop ends the server.
//
// # Root
//
// PostgreSQL refuses to run as root. A process of root starts the server as the user postgres, or nobody where there is no
// such user, and gives it the directory.
//
// Package pgtest (below this one) hands a fresh database to each test; the program pgrun runs a command beside a cluster.
package pgcluster
