#!/usr/bin/env bash
# setup.sh: find or install what building and testing Cairn needs. Quick and silent when all is there.
set -euo pipefail

say() { printf 'setup: %s\n' "$*" >&2; }

have_go() { command -v go >/dev/null; }

have_compiler() {
	local compiler
	compiler=$(go env CC)
	command -v "${compiler%% *}" >/dev/null
}

have_postgres() {
	[[ -n ${CAIRN_TEST_POSTGRES_URL:-} ]] && return
	command -v initdb >/dev/null && command -v postgres >/dev/null && return
	local directory
	for directory in /usr/lib/postgresql/*/bin; do
		[[ -x $directory/initdb && -x $directory/postgres ]] && return
	done
	return 1
}

if ! have_go; then
	say 'Go is missing: install the version that go.mod names, or a newer one.'
	exit 1
fi

missing=()
have_compiler || missing+=(gcc libc6-dev)
have_postgres || missing+=(postgresql)
((${#missing[@]} == 0)) && exit 0

if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
	say "installing ${missing[*]}"
	export DEBIAN_FRONTEND=noninteractive
	# The package would start a server of its own; the tests start theirs.
	if [[ " ${missing[*]} " == *' postgresql '* ]]; then
		mkdir -p /etc/postgresql-common
		[[ -e /etc/postgresql-common/createcluster.conf ]] ||
			echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
	fi
	apt-get update -qq
	apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
	if have_compiler && have_postgres; then
		exit 0
	fi
fi

have_compiler || say 'a C compiler is missing (the race detector needs one): install gcc or clang, or set CC.'
have_postgres || say 'a PostgreSQL server is missing: install it (initdb and postgres on PATH), or set CAIRN_TEST_POSTGRES_URL.'
exit 1
