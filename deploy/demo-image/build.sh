#!/bin/sh
# Build the demo image's file system as a tar from this machine's own
# distribution packages: Python, scikit-learn and a shell. Needs root and
# mmdebstrap. Packages are unpacked and not configured, which takes seconds
# instead of minutes and is enough for programs that have no services.
set -eu
out=${1:?usage: build.sh OUTPUT.tar}
here=$(cd "$(dirname "$0")" && pwd)
. /etc/os-release
suite=${VERSION_CODENAME:?the distribution does not name its release}
include=bash,dash,coreutils,libc-bin,libc6,grep,sed,findutils,procps,ca-certificates,iproute2,tzdata
include=$include,python3-minimal,python3-sklearn,libopenblas0-pthread
case "$ID" in
ubuntu) components=main,universe ;;
*) components=main ;;
esac
mmdebstrap --quiet --format=tar --variant=extract --components="$components" --include="$include" \
	--extract-hook="$here/finish.sh \"\$1\"" \
	--extract-hook="copy-in $here/train.py /opt/demo" \
	"$suite" "$out.part"
mv "$out.part" "$out"
