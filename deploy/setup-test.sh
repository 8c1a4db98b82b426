#!/usr/bin/env bash
# Run a command with what the tests need:
#
#   deploy/setup-test.sh go test ./...
#
# Programs that are missing are installed. A private PostgreSQL and a private
# container engine are started for the command and stopped after it; the tests
# find them by
#
#   SUANLI_TEST_POSTGRES  URL of a database to make schemas in
#   SUANLI_TEST_DOCKER    address of a container engine's API
#   SUANLI_TEST_ENGINE_RESTART  program that kills that engine and starts it
#                         again; set for a private engine only
#
# SUANLI_TEST_PACKAGES names packages to install for further tests. Either of the
# first two may be set beforehand, and is then used as it is; an engine that runs
# already is used, too. Where something cannot be had, this says so, and the
# tests that need it skip.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/machine.sh"
[ $# -gt 0 ] || { say "usage: $0 COMMAND [ARGUMENT...]"; exit 2; }

# Short, since sockets are in it and their paths may have 107 characters.
dir=$(mktemp -d "${SUANLI_TEST_DIR:-/tmp}/suanli-test.XXXXXX")
chmod 755 "$dir"
postgres=
cleanup() {
	set +e
	stop_engine "$dir/engine"
	if [ -n "$postgres" ]; then
		as_database_user "$postgres/pg_ctl" -D "$dir/postgres/data" -m immediate -w stop >/dev/null 2>&1
	fi
	remove_tree "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# postgres_programs prints the folder of the newest PostgreSQL server.
postgres_programs() {
	local d
	d=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -t/ -k5 -n | tail -n 1)
	if [ -n "$d" ] && [ -x "$d/initdb" ]; then
		echo "$d"
	elif d=$(command -v initdb); then
		dirname "$d"
	else
		return 1
	fi
}

# PostgreSQL refuses to run as root.
as_database_user() {
	if [ "$(id -u)" = 0 ]; then
		(cd / && runuser -u postgres -- "$@")
	else
		"$@"
	fi
}

start_postgres() {
	postgres=$(postgres_programs) || return 1
	mkdir "$dir/postgres"
	chmod 700 "$dir/postgres"
	if [ "$(id -u)" = 0 ]; then chown postgres "$dir/postgres"; fi
	{
		as_database_user "$postgres/initdb" -D "$dir/postgres/data" -U postgres -A trust -E UTF8 --locale=C -N &&
			as_database_user "$postgres/pg_ctl" -D "$dir/postgres/data" -l "$dir/postgres/log" -w -t 60 \
				-o "-k $dir/postgres -c listen_addresses= -c max_connections=300 -c fsync=off -c synchronous_commit=off -c full_page_writes=off" start
	} >"$dir/postgres.log" 2>&1 </dev/null
}

# have_browser reports whether there is one of those that e2e looks for.
have_browser() {
	local name
	for name in "${SUANLI_TEST_CHROMIUM:-}" chromium chromium-browser google-chrome-stable google-chrome; do
		[ -z "$name" ] || ! command -v "$name" >/dev/null 2>&1 || return 0
	done
	return 1
}

want curl curl
want nftables nft
want iptables iptables
want iproute2 ip
want e2fsprogs mkfs.ext4
want mount losetup
want openssh-client ssh
want openssh-server sshd
want busybox-static busybox
want file file
want mmdebstrap mmdebstrap
[ -n "${SUANLI_TEST_POSTGRES:-}" ] || postgres_programs >/dev/null || packages+=(postgresql)
if [ -z "${SUANLI_TEST_DOCKER:-}" ] && ! running_engine >/dev/null; then
	want docker.io dockerd
fi
# What some tests need beyond that: names of packages, which are programs, too.
for package in ${SUANLI_TEST_PACKAGES:-}; do
	want "$package" "$package"
done
install_wanted || say "going on with what there is"
# Tests of the console are in a browser, where there is a console to show. It comes
# apart from the rest, which is needed even where no browser can be had.
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 && command -v node >/dev/null 2>&1 &&
	[ -e "$here/../internal/console/dist/index.html" ] && [ -e "$here/../console/node_modules/@playwright/test/cli.js" ] &&
	! have_browser; then
	packages=(chromium)
	install_wanted || say "there is no browser: the tests of the console in one skip"
fi

if [ -z "${SUANLI_TEST_POSTGRES:-}" ]; then
	if start_postgres; then
		export SUANLI_TEST_POSTGRES="postgres://postgres@/postgres?host=$dir/postgres"
	else
		tail -n 10 "$dir/postgres.log" "$dir/postgres/log" 2>/dev/null >&2 || true
		say "there is no PostgreSQL: the tests on it skip"
	fi
fi

if [ -z "${SUANLI_TEST_DOCKER:-}" ]; then
	if engine=$(running_engine); then
		export SUANLI_TEST_DOCKER=$engine
	elif [ "$(id -u)" != 0 ]; then
		say "no container engine runs, and only root can start one: the tests on it skip (sudo make test runs them)"
	elif command -v dockerd >/dev/null 2>&1 && start_engine "$dir/engine"; then
		export SUANLI_TEST_DOCKER="unix://$dir/engine/engine.sock"
		printf '#!/usr/bin/env bash\nset -eu\n. "%s"\nkill_engine "%s"\n' "$here/machine.sh" "$dir/engine" >"$dir/restart-engine"
		chmod 755 "$dir/restart-engine"
		export SUANLI_TEST_ENGINE_RESTART="$dir/restart-engine"
	else
		say "there is no container engine: the tests on it skip"
	fi
fi

say "PostgreSQL: ${SUANLI_TEST_POSTGRES:-none}; container engine: ${SUANLI_TEST_DOCKER:-none}"
status=0
"$@" </dev/null || status=$?
exit $status
