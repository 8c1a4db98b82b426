#!/bin/sh
# Build an image's file system with JupyterLab in it as a tar: Python from this
# machine's distribution, JupyterLab from PyPI (or the index that PIP_INDEX_URL or
# pip's own configuration names). Needs root, mmdebstrap and the network; for the
# tests, and for a cloud whose hosts reach no public registry:
#
#   deploy/jupyter-image/build.sh jupyter.tar
#   suanli image push jupyter:1 jupyter.tar
#   suanli rent --where 'gpu_count = 1' --template jupyterlab --image cloud://jupyter:1 --name lab
set -eu
out=${1:?usage: build.sh OUTPUT.tar}
here=$(cd "$(dirname "$0")" && pwd)
. /etc/os-release
suite=${VERSION_CODENAME:?the distribution does not name its release}
include=bash,dash,coreutils,libc-bin,libc6,grep,sed,findutils,procps,ca-certificates,python3,python3-pip,libstdc++6,libgcc-s1
case "$ID" in
ubuntu) components=main,universe ;;
*) components=main ;;
esac
mmdebstrap --quiet --format=tar --variant=extract --components="$components" --include="$include" \
	--extract-hook="$here/../demo-image/finish.sh \"\$1\"" \
	--extract-hook="$here/install.sh \"\$1\"" \
	"$suite" "$out.part"
mv "$out.part" "$out"
