#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# deb.sh TREE OUT - make a Debian package of the folder TREE and write it into the folder OUT. Call
# it after `make install` has filled TREE, with PREFIX=/usr. make sets VERSION, DATE (of the last
# commit, in seconds) and DEBIAN_FROM (who makes the package: NAME <ADDRESS>).
#
# All libraries are in one package, symtuner, because a library works only with the others of its
# release.
set -eu
tree=$1
: "${VERSION:?}" "${DATE:?}" "${DEBIAN_FROM:?}"
doc=$tree/usr/share/doc/symtuner
machine=$(dpkg --print-architecture)

# the newest version of glibc that any file asks for
libc=$(find "$tree/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec objdump -T {} + |
    grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -1)

find "$tree/usr" -type f \( -name '*.so*' -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
chmod 644 $(find "$tree/usr/lib" -type f -name '*.so*') # Debian wants libraries not executable
find "$tree/usr/share/man" -type f -exec gzip -9n {} +
{
    echo "symtuner ($VERSION) unstable; urgency=medium"
    echo
    echo "  * CHANGELOG.md says what is new."
    echo
    echo " -- $DEBIAN_FROM  $(LC_ALL=C date -uRd "@$DATE")"
} | gzip -9n > "$doc/changelog.gz"
{
    year=$(date -ud "@$DATE" +%Y)
    echo "symtuner is copyright $year of its authors, under the Apache License 2.0, which is"
    echo "/usr/share/common-licenses/Apache-2.0."
    echo
    cat packaging/third-party.txt
} > "$doc/copyright"
rm "$doc/LICENSE"

mkdir -p "$tree/DEBIAN"
cat > "$tree/DEBIAN/control" << END
Package: symtuner
Version: $VERSION
Architecture: $machine
Maintainer: $DEBIAN_FROM
Section: libs
Priority: optional
Depends: libc6 (>= ${libc#GLIBC_})
Installed-Size: $(du -sk "$tree/usr" | cut -f1)
Description: faster NCCL collectives on symmetric memory
 A plugin for NCCL that gives its kernels on symmetric memory the CTA counts
 that were measured to be fast, or follows rules. With it come a command that
 explains NCCL's choices and a library of kernels for all-reduce,
 reduce-scatter and all-gather.
END
echo "libsymtuner_ar ${VERSION%%.*} symtuner (>= $VERSION)" > "$tree/DEBIAN/shlibs"
echo "activate-noawait ldconfig" > "$tree/DEBIAN/triggers"
(cd "$tree" && find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum > DEBIAN/md5sums)
SOURCE_DATE_EPOCH=$DATE dpkg-deb --root-owner-group --build "$tree" \
    "$2/symtuner_${VERSION}_$machine.deb"
