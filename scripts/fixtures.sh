#!/usr/bin/env bash
# fixtures.sh: write the databases in internal/upgrade/testdata that are missing, each with the code of the commit that is named below. It needs the
# repository's history and PostgreSQL. What is there is not overwritten.
set -euo pipefail
cd "$(dirname "$0")/.."

# The last commit of each version of the schema, as VERSION-COMMIT: 9e5ae2f and before still changed migrations in place.
commits=(v1-a605d8f v2-9e5ae2f v2-b670f65 v3-df55b63 v4-5ae349c v5-7a9e6cf v6-6e3b59e v6-f824bb2 v8-0a0b8a9)

target=$PWD/internal/upgrade/testdata
go build -o .tools/bin/pgrun ./internal/pgcluster/pgrun
pgrun=$PWD/.tools/bin/pgrun
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# program COMMIT: build the writing program with the code of a commit. Where that has no such primitive, nothing is in its place.
program() {
	local at=$work/$1
	mkdir -p "$at"
	git archive "$1" | tar -x -C "$at"
	rm -rf "$at/internal/upgrade"
	cp -r internal/upgrade "$at/internal/upgrade"
	local workflows=$at/internal/upgrade/workflows write=$at/internal/upgrade/write
	[[ -e $at/child.go ]] || printf 'package workflows\n\nfunc families() []Scenario { return nil }\n' >"$workflows/families.go"
	[[ -e $at/stream.go ]] || printf 'package workflows\n\nfunc streams() []Scenario { return nil }\n' >"$workflows/streams.go"
	[[ -e $at/export.go ]] || printf 'package main\n\nimport (\n"context"\n"github.com/cairn-workflow/cairn"\n)\n\nfunc export(context.Context, *cairn.Engine, map[string]string, string) error { return nil }\n' >"$write/export.go"
	if [[ ! -e $at/cairn.go ]]; then
		rm "$write"/*.go
		cp "$write/journal.go.txt" "$write/main.go"
	fi
	(cd "$at" && go build -o "$work/write-$1" ./internal/upgrade/write)
}

for fixture in "${commits[@]}"; do
	commit=${fixture#*-}
	[[ -e $target/$fixture.db.gz && -e $target/$fixture.sql.gz ]] && continue
	echo "fixtures: $fixture"
	program "$commit"
	"$work/write-$commit" "sqlite:$work/$fixture.db" "$target/$fixture"
	gzip -9n <"$work/$fixture.db" >"$target/$fixture.db.gz"
	# shellcheck disable=SC2016 # the variable is that of the inner shell
	"$pgrun" -- bash -c '"$1" "$CAIRN_TEST_POSTGRES_URL" && pg_dump --inserts --no-owner --schema=cairn "$CAIRN_TEST_POSTGRES_URL" >"$2"' - "$work/write-$commit" "$work/$fixture.sql"
	sed '/^\\/d' "$work/$fixture.sql" | gzip -9n >"$target/$fixture.sql.gz" # without the commands of psql
done
