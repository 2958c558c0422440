#!/usr/bin/env bash
# torture.sh [FLAG...]: build the torture program and run it for MINUTES on each store. With OTHER=COMMIT, half of the workers execute the
# program as of that commit; a commit from before there was one gets today's workflows on its own engine.
set -euo pipefail
cd "$(dirname "$0")/.."

go build -o bin/torture ./internal/torture/torture
flags=(--minutes "${MINUTES:-10}")
if [[ -n ${OTHER:-} ]]; then
	tree=$(mktemp -d)
	trap 'git worktree remove --force "$tree/other"; rm -rf "$tree"' EXIT
	git worktree add --quiet --detach "$tree/other" "$OTHER"
	[[ -d $tree/other/internal/torture ]] || cp -r internal/torture "$tree/other/internal/torture"
	go build -C "$tree/other" -o "$PWD/bin/torture-other" ./internal/torture/torture
	flags+=(--other "$PWD/bin/torture-other")
fi
bin/torture "${flags[@]}" "$@"
