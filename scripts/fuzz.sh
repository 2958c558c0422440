#!/usr/bin/env bash
# fuzz.sh TIME: run each fuzz target of the module for that long, or with so many inputs (2000x). A time that ends while what is known is still being read fails: Go counts that too.
set -euo pipefail
cd "$(dirname "$0")/.."
fuzztime=${1:-5s}

files=$(grep -rl --include='*_test.go' --exclude-dir=node_modules --exclude-dir='.?*' '^func Fuzz' . || true)
directories=$(xargs -r -n1 dirname <<<"$files" | sort -u)
count=0
for directory in $directories; do
	[[ -n $(go list "$directory" 2>/dev/null) ]] || continue # another module
	for target in $(go test -list '^Fuzz' "$directory" | grep '^Fuzz' || true); do
		echo "$directory $target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "$fuzztime" "$directory"
		count=$((count + 1))
	done
done
echo "$count fuzz targets"
