#!/usr/bin/env bash
# tmpdir.sh: print where tests above the stores put their databases: in memory if this machine has 4 GiB to spare there,
# because hundreds of throw-away databases need no disk. Whoever sets TMPDIR decides it.
set -euo pipefail

memory=/dev/shm
free=$(df --output=avail --block-size=1M "$memory" 2>/dev/null | tail -n 1 || echo 0)
if [[ -z ${TMPDIR:-} && -w $memory && ${free:-0} -ge 4096 ]]; then
	echo "$memory"
else
	echo "${TMPDIR:-/tmp}"
fi
