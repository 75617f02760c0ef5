#!/bin/sh
# Debian packages that some tests drive, and g++ for what is built: without them those tests are
# skipped, and say so.
packages="chromium slurm-wlm munge iproute2 nftables g++ python3-simgrid"
packages="$packages gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user"
# The kernel of the backend is built with Python's headers, which Debian has in a package of its own.
${PYTHON:-python3} -c 'import os, sysconfig
raise SystemExit(not os.path.exists(sysconfig.get_paths()["include"] + "/Python.h"))' ||
    packages="$packages python3-dev"
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
missing=$(for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || echo "$package"
done)
[ -z "$missing" ] && exit 0
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null
