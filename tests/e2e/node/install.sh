#!/usr/bin/env bash
# Puts the Node client and the packages of its lock file into a folder of the build. Quick when
# nothing has changed; needs npm's registry, or what npm keeps from an earlier time, otherwise.
#
# usage: install.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail
source=$1
build=$2
for program in node npm; do
  command -v "$program" >/dev/null || {
    echo "FAILED: there is no $program; scripts/install_dependencies.sh installs it" >&2
    exit 1
  }
done
mkdir -p "$build"
cp "$source/package.json" "$source/package-lock.json" "$source/client.mjs" "$build/"
cd "$build"
if [ -d node_modules ] && cmp -s package-lock.json node_modules/.installed-lock; then
  echo "the packages are there"
  exit 0
fi
npm ci --ignore-scripts --prefer-offline --no-audit --no-fund || {
  echo "FAILED: the packages of tests/e2e/node/package-lock.json can be had neither from npm's" \
    "registry nor from its cache; see npm's own words above" >&2
  exit 1
}
cp package-lock.json node_modules/.installed-lock
