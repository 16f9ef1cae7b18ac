#!/usr/bin/env bash
# Builds and tests everything against the newest gRPC, Protobuf, Abseil and g++, in a Debian sid root made
# by debootstrap, with what is newer yet in experimental: about what Homebrew has today. As root on Linux;
# the first run takes an hour on 2 cores and some 4 GiB of build/newest, which later ones use again. What
# was compiled is kept in this machine's ccache, so one that was interrupted goes on where it was.
#
# usage: newest_check.sh [--update] [CTEST OPTION...]
#   --update    take what sid has today, where there is a root from an earlier run
#   newest_check.sh -L unit      only the unit tests
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
fi
update=
if [ "${1:-}" = --update ]; then
  update=yes
  shift
fi

die() {
  echo "newest_check: $*" >&2
  exit 1
}
[ "$(uname -s)" = Linux ] || die "only on Linux; on macOS scripts/test.sh has Homebrew's newest anyway"
[ "$(id -u)" = 0 ] || die "only root may make and enter another root; try: sudo $0"

checkout=$PWD
root=$checkout/build/newest/root
if ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || die "debootstrap is missing; install it and try again"
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap
fi
if [ ! -e "$root.made" ]; then
  echo "== making a sid root in $root"
  rm -rf "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase sid "$root"
  # A mirror that stands still for some weeks will do.
  echo 'Acquire::Check-Valid-Until "false";' >"$root/etc/apt/apt.conf.d/stageload"
  sed 's/ sid / experimental /' "$root/etc/apt/sources.list" \
    >"$root/etc/apt/sources.list.d/experimental.list"
  touch "$root.made"
  update=yes
fi

# Runs a command in the root, with the checkout as /stageload. All mounts are in a namespace of their own,
# so they end with it, however it ends.
inside() {
  # shellcheck disable=SC2016  # expanded inside
  CHECKOUT=$checkout ROOT=$root NPM_CACHE=$(npm config get cache 2>/dev/null || true) \
  COMPILED=$(ccache --get-config cache_dir 2>/dev/null || true) unshare --mount bash -euo pipefail -c '
    mount --rbind /dev "$ROOT/dev"
    mount --rbind /sys "$ROOT/sys"
    mount -t proc proc "$ROOT/proc"
    mkdir -p "$ROOT/stageload"
    mount --bind "$CHECKOUT" "$ROOT/stageload"
    cp /etc/resolv.conf "$ROOT/etc/resolv.conf"
    if [ -d "$COMPILED" ]; then
      mkdir -p "$ROOT/root/ccache"
      mount --bind "$COMPILED" "$ROOT/root/ccache"
    fi
    # What npm has here already it needs not fetch there.
    if [ -d "$NPM_CACHE" ]; then
      mkdir -p "$ROOT/root/.npm"
      mount --bind "$NPM_CACHE" "$ROOT/root/.npm"
    fi
    exec chroot "$ROOT" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
      LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive CCACHE_DIR=/root/ccache "$@"
  ' inside "$@"
}

if [ -n "$update" ]; then
  inside apt-get update -q
  inside apt-get upgrade -y -q --no-install-recommends
fi
inside apt-get install -y -q --no-install-recommends -t experimental \
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
inside /stageload/scripts/install_dependencies.sh
# Abseil's headers have to be those of the libraries that gRPC was built with, which experimental may be ahead of.
abseil=$(inside dpkg-query -W -f '${Depends}\n' 'libgrpc++1*' | grep -o 'libabsl[0-9]*' | sort -u | tail -1)
headers=$(inside apt-cache madison libabsl-dev | awk '{print $3}' | grep "^${abseil#libabsl}\." | head -1) ||
  die "no libabsl-dev for $abseil, which this gRPC needs; try again when Debian has built gRPC anew"
inside apt-get install -y -q --no-install-recommends --allow-downgrades "libabsl-dev=$headers"
echo "== the newest are"
inside dpkg-query -W -f '${Package} ${Version}\n' \
  g++ libgrpc++-dev libprotobuf-dev libabsl-dev libspdlog-dev libcli11-dev libsqlite3-dev cmake

cores=$(getconf _NPROCESSORS_ONLN)
# Not a preset: their folders belong to this machine's own compiler.
build=/stageload/build/newest/build
inside cmake -S /stageload -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG' -DSTAGELOAD_TESTS=ON
inside cmake --build "$build" --parallel "$cores" -- -k 0  # all that is wrong, in one run
inside ctest --test-dir "$build" --parallel $((cores * 2)) --output-on-failure --no-tests=error "$@"
