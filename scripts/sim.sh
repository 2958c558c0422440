#!/usr/bin/env bash
# sim.sh [FLAGS]: simulate SEEDS seeds of committers and of engines. A simulation uses one processor, so the engines' seeds are dealt out to as many processes as there are
# processors. FLAGS are those of `go test`.
set -euo pipefail
cd "$(dirname "$0")/.."

parts=$(getconf _NPROCESSORS_ONLN)
programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go test -c -o "$programs/engines" ./internal/sim/enginesim

processes=()
go test -count=1 -timeout 0 -v "$@" ./internal/sim &
processes+=($!)
for ((part = 1; part <= parts; part++)); do
	run='^TestEngineSeeds$'
	((part > 1)) || run='.' # one of them does the other tests of the package as well
	(cd internal/sim/enginesim && PART=$part/$parts "$programs/engines" -test.run "$run" -test.timeout 0 -test.v) &
	processes+=($!)
done
failed=0
for process in "${processes[@]}"; do
	wait "$process" || failed=1
done
exit "$failed"
