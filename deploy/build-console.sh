#!/usr/bin/env bash
# Builds the web console into internal/console/dist, from where it becomes part of
# the binary. Without Node, or where its packages cannot be had, the binary is built
# without a console, and this says so; with CONSOLE=required that is an error.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../console"

without() {
	echo "$1: built without the web console (Node 20.19 or newer and its packages make it)" >&2
	[ "${CONSOLE:-}" != required ]
	exit
}

if [ "${CONSOLE:-}" = none ]; then
	without "CONSOLE=none"
fi
command -v npm >/dev/null 2>&1 || without "npm is not installed"
node -e 'const [a, b] = process.versions.node.split(".").map(Number); process.exit(a > 20 || (a === 20 && b >= 19) ? 0 : 1)' ||
	without "Node $(node --version) is too old"

mark=node_modules/.suanli-lock
if ! cmp -s package-lock.json "$mark"; then
	timeout 300 npm ci --no-progress --loglevel=error || without "npm ci failed"
	cp package-lock.json "$mark"
fi
npm run --silent api >/dev/null
npm run --silent build -- --logLevel warn
