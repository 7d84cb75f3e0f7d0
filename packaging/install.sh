#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# install.sh install|uninstall|list BUILD - copy the files of the folder BUILD, and the docs, to
# where a system looks for them; or remove exactly these files again; or list them. make calls this
# script with PREFIX, LIBDIR, DESTDIR and VERSION.
#
# files() is the only list of what is installed. A file of BUILD that was not built is left out.
# uninstall also removes the folders that only symtuner uses.
set -u
build=$2
: "${PREFIX:=/usr/local}" "${DESTDIR:=}" "${VERSION:?}"
: "${LIBDIR:=$PREFIX/lib}"
share=$PREFIX/share
ar=libsymtuner_ar.so

# Print lines "MODE FILE PLACE" or "link TARGET PLACE". A PLACE that ends in / is a folder.
files()
{
    cat << END
755  $build/symtuner           $PREFIX/bin/
755  $build/libsymtuner.so     $LIBDIR/
link libsymtuner.so            $LIBDIR/libnccl-tuner-symtuner.so
link libsymtuner.so            $LIBDIR/libnccl-env-symtuner.so
link libsymtuner.so            $LIBDIR/libnccl-profiler-symtuner.so
644  include/symtuner.h        $PREFIX/include/
644  $build/symtuner.pc        $LIBDIR/pkgconfig/
755  $build/$ar                $LIBDIR/$ar.$VERSION
link $ar.$VERSION              $LIBDIR/$ar.${VERSION%%.*}
link $ar.$VERSION              $LIBDIR/$ar
644  include/symtuner_ar.h     $PREFIX/include/
644  $build/symtuner_ar.pc     $LIBDIR/pkgconfig/
755  $build/libsymtuner_ffi.so $LIBDIR/
755  $build/libsymtuner_nccl.so $LIBDIR/
644  docs/man/symtuner.1       $share/man/man1/
644  docs/man/symtuner-rules.5 $share/man/man5/
644  packaging/completion.bash $share/bash-completion/completions/symtuner
644  packaging/completion.zsh  $share/zsh/site-functions/_symtuner
644  packaging/completion.fish $share/fish/vendor_completions.d/symtuner.fish
END
    for file in README.md CHANGELOG.md LICENSE docs/*.md docs/*/*.md docs/pictures/*.svg \
            docs/example.rules; do
        echo "644 $file $share/doc/symtuner/$file"
    done
}

# Return whether FILE is to be installed. If FILE is in BUILD, it must have been built. If it is the
# header, the .pc file or a link of libsymtuner_ar.so, that library must have been built. All other
# files are installed.
wanted() # FILE
{
    case $1 in
    include/symtuner_ar.h | */symtuner_ar.pc) [ -f "$build/$ar" ] ;;
    $ar.*) [ -f "$build/$ar" ] ;;
    "$build"/*) [ -f "$1" ] ;;
    esac
}

# For each file call the function $1 with MODE FILE PATH. PATH is where the file goes, with DESTDIR.
each()
{
    files | while read -r mode file place; do
        case $place in */) place=$place${file##*/} ;; esac
        "$1" "$mode" "$file" "$DESTDIR$place" || exit 1
    done
}

put()
{
    wanted "$2" || return 0
    mkdir -p "${3%/*}" || return 1
    case $1 in
    link) ln -sf "$2" "$3" ;;
    *) install -m "$1" "$2" "$3" ;;
    esac
}
show() { if wanted "$2"; then echo "$3"; fi; }
take() { rm -f "$3"; }

case $1 in
install) each put ;;
list) each show ;;
uninstall)
    each take && for folder in docs/pictures docs/reference docs/design docs ""; do
        folder=$DESTDIR$share/doc/symtuner/$folder
        [ ! -d "$folder" ] || rmdir "$folder" || exit 1
    done ;;
*) echo "usage: install.sh install|uninstall|list BUILD" >&2; exit 2 ;;
esac
