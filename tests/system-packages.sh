#!/bin/sh
# Debian packages that some tests drive: without them those tests are skipped, and say so.
packages="chromium slurm-wlm munge iproute2 nftables g++ python3-simgrid"
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || exit 0
missing=$(for package in $packages; do
    dpkg -s "$package" >/dev/null 2>&1 || echo "$package"
done)
[ -z "$missing" ] && exit 0
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086
{ apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing; } >/dev/null
