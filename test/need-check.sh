#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs libcheck (https://libcheck.github.io) and xz, which reads the recorded decisions, if they
# are missing and this user may install packages.
command -v pkg-config >/dev/null && pkg-config --exists check && command -v xz >/dev/null && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "make test: libcheck or xz is missing; install them (Debian:" \
         "apt-get install check pkg-config xz-utils)" >&2
    exit 1
fi
echo "make test: installing libcheck and xz"
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends check pkg-config xz-utils >/dev/null 2>&1 && exit 0
apt-get update -qq && apt-get install -qq -y --no-install-recommends check pkg-config \
    xz-utils >/dev/null
