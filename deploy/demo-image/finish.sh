#!/bin/sh
# What the packages' own scripts would have done, as far as the demo needs it,
# and away with what only a compiler or a reader of manuals would miss.
set -eu
root=$1
cd "$root"
ln -sf dash bin/sh
[ -e etc/passwd ] || printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' > etc/passwd
[ -e etc/group ] || printf 'root:x:0:\nnogroup:x:65534:\n' > etc/group
mkdir -p root tmp opt/demo proc sys dev run workspace etc/ld.so.conf.d
chmod 1777 tmp
# The alternatives system would point at OpenBLAS.
for d in usr/lib/*/openblas-pthread; do
	echo "/$d" >> etc/ld.so.conf.d/00-openblas.conf
done
ldconfig -r .
rm -rf usr/include usr/share/doc usr/share/man usr/share/locale usr/share/info usr/lib/gcc usr/share/perl usr/lib/*/perl \
	usr/lib/python3/dist-packages/pythran usr/lib/python3/dist-packages/*/tests usr/lib/*/lib*san.so.* \
	usr/bin/*-linux-gnu-* usr/lib/*/*.a var/cache/apt var/lib/apt var/log
