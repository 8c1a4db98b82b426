#!/bin/sh
# Build an image's file system with PyTorch in it as a tar, for CPUs, from this
# machine's distribution. Needs root, mmdebstrap and the network; for the tests of
# training on several nodes:
#
#   deploy/torch-image/build.sh torch.tar
#   suanli image push torch:1 torch.tar
set -eu
out=${1:?usage: build.sh OUTPUT.tar}
. /etc/os-release
suite=${VERSION_CODENAME:?the distribution does not name its release}
case "$ID" in
ubuntu) components=main,universe ;;
*) components=main ;;
esac
mmdebstrap --quiet --format=tar --variant=minbase --components="$components" --include=python3-torch,python3-numpy \
	--aptopt='Apt::Install-Recommends "false"' --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
	"$suite" "$out.part"
mv "$out.part" "$out"
