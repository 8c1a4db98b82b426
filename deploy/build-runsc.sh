#!/usr/bin/env bash
# Build gVisor's runsc from its Go module. The module's tags are of no use to Go, so
# a commit of its branch for the go command is named.
#
#   deploy/build-runsc.sh OUTPUT
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/machine.sh"
out=${1:?usage: build-runsc.sh OUTPUT}
version=v0.0.0-20260905035102-160fafc42237
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$(dirname "$out")"
out=$(cd "$(dirname "$out")" && pwd)/$(basename "$out")
cd "$dir"
cat >go.mod <<-END
	module runsc
	go 1.26.3
	require gvisor.dev/gvisor $version
END
printf '//go:build tools\n\npackage runsc\n\nimport _ "gvisor.dev/gvisor/runsc"\n' >tools.go
say "building runsc of gVisor $version (minutes)"
"${GO:-go}" mod tidy >tidy.log 2>&1 || { tail -n 5 tidy.log >&2; exit 1; }
CGO_ENABLED=0 "${GO:-go}" build -trimpath -ldflags "-s -w -X gvisor.dev/gvisor/runsc/version.version=$version" -o "$out.part" gvisor.dev/gvisor/runsc
mv "$out.part" "$out"
