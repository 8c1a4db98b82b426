#!/bin/sh
# Install JupyterLab inside of the new root, by its own Python, so that versions
# fit. It reaches the package index as this machine does.
set -eu
root=$1
cleanup() { rm -f "$root/etc/resolv.conf" "$root/etc/pip.conf" "$root/dev/null" "$root/dev/urandom"; }
trap cleanup EXIT
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
for conf in /etc/pip.conf "$HOME/.config/pip/pip.conf" "$HOME/.pip/pip.conf"; do
	if [ -e "$conf" ]; then cp -L "$conf" "$root/etc/pip.conf"; fi
done
mkdir -p "$root/etc/ssl/certs"
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
	cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
fi
rm -f "$root/dev/null" "$root/dev/urandom"
mknod -m 666 "$root/dev/null" c 1 3
mknod -m 666 "$root/dev/urandom" c 1 9
# Newer distributions guard their own packages from pip; this root is no machine.
PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1 \
	chroot "$root" /usr/bin/python3 -m pip install --quiet --no-cache-dir --no-compile --only-binary :all: jupyterlab
chroot "$root" /usr/local/bin/jupyter lab --version >/dev/null
rm -rf "$root/root/.cache" "$root/tmp/"*
