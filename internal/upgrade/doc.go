// Package upgrade holds databases that were written by earlier programs, one for each version of the schema, against the program of today: they are
// opened, brought up to date, and their runs go on. It has tests only.
//
// In testdata, v2-9e5ae2f.db.gz is a SQLite file with schema version 2, written by the program of commit 9e5ae2f; v2-9e5ae2f.sql.gz is the same as a dump of
// PostgreSQL; and v2-9e5ae2f/ has the runs as that program exported them, if it could. They are never changed. Whoever adds a migration adds the
// last commit before it to scripts/fixtures.sh and runs "make fixtures", which writes what is missing with the code of that commit: the
// workflows of this package's folder workflows, started and stopped by the program in the folder write.
package upgrade
