#!/usr/bin/env bash
# packages.sh all|unit|store|sim|torture: list the Go packages of one group. The stores, the committer, the simulation and the
# torture have groups of their own because they take long; unit is all the rest.
set -euo pipefail
cd "$(dirname "$0")/.."

all=$(go list ./...) # fails where a package does not parse, so that none is left out unseen
store='^github.com/cairn-workflow/cairn/(store|internal/store|internal/commit)(/|$)'
sim='^github.com/cairn-workflow/cairn/internal/sim(/|$)'
torture='^github.com/cairn-workflow/cairn/internal/torture(/|$)'

select_lines() { grep "$@" <<<"$all" || true; }

case ${1:-all} in
all) echo "$all" ;;
unit) select_lines -Ev "$store|$sim|$torture" ;;
store) select_lines -E "$store" ;;
sim) select_lines -E "$sim" ;;
torture) select_lines -E "$torture" ;;
*)
	echo "usage: $0 all|unit|store|sim|torture" >&2
	exit 2
	;;
esac
