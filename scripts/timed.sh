#!/usr/bin/env bash
# timed.sh NAME COMMAND...: run the command, then print its name and how many seconds it took.
set -uo pipefail
name=$1
shift
start=$SECONDS
"$@"
code=$?
took=$((SECONDS - start))
if ((code == 0)); then
	printf '%s  %ds\n' "$name" "$took"
else
	printf '%s  %ds  FAILED\n' "$name" "$took" >&2
fi
exit "$code"
