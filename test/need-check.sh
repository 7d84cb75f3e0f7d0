#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Install libcheck (https://libcheck.github.io) when it is missing and we may.
command -v pkg-config >/dev/null && pkg-config --exists check && exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    echo "make test: libcheck is missing; install it (Debian: apt-get install check pkg-config)" >&2
    exit 1
fi
echo "make test: installing libcheck"
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends check pkg-config >/dev/null 2>&1 && exit 0
apt-get update -qq && apt-get install -qq -y --no-install-recommends check pkg-config >/dev/null
