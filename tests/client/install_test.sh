#!/usr/bin/env bash
# Installs into a folder of its own, moves that, builds the example of docs/examples with what is in
# it, once by CMake and once by pkg-config, and runs both with the daemon that was installed.
#
# usage: install_test.sh BUILD_FOLDER SOURCE_FOLDER COMPILER [COMPILER FLAG...]
set -euo pipefail
build=$1
source=$2
compiler=$3
flags=("${@:4}")

folder=$(mktemp -d /tmp/sl-install.XXXXXX)
prefix=$folder/there
export STAGELOAD_HOME=$folder/home
unset STAGELOAD_NO_AUTOSTART STAGELOAD_SOCKET STAGELOAD_DAEMON
end() {
  if [ -S "$STAGELOAD_HOME/stageloadd.sock" ]; then
    "$prefix/bin/stageloadctl" daemon stop >/dev/null || true
  fi
  rm -rf "$folder"
}
trap end EXIT
fail() {
  echo "FAILED: $*" >&2
  [ -f "$folder/log" ] && tail -n 40 "$folder/log" >&2
  exit 1
}
quietly() { "$@" >"$folder/log" 2>&1; }

quietly cmake --install "$build" --prefix "$folder/first" || fail "cmake --install"
mv "$folder/first" "$prefix"
for file in bin/stageloadd bin/stageloadctl bin/stageload bin/stageload-shim; do
  [ -x "$prefix/$file" ] || fail "$file is not installed"
done
[ "$(readlink "$prefix/bin/stageload")" = stageloadctl ] ||
  fail "stageload is not the same program as stageloadctl"
# A unit has to name the whole path of what it runs.
grep -rl --exclude-dir=systemd "$folder/first" "$prefix" >"$folder/log" && fail "these know where they were installed first"

quietly cmake -G Ninja -S "$source/docs/examples" -B "$folder/by-cmake" -DCMAKE_PREFIX_PATH="$prefix" \
  -DCMAKE_CXX_COMPILER="$compiler" -DCMAKE_CXX_FLAGS="${flags[*]-}" ||
  fail "find_package(Stageload CONFIG)"
quietly cmake --build "$folder/by-cmake" || fail "the example, by CMake"

PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name stageload.pc)")
export PKG_CONFIG_PATH
read -ra found <<<"$(pkg-config --cflags --libs stageload)"
quietly "$compiler" -std=c++20 ${flags[@]+"${flags[@]}"} "$source/docs/examples/pipeline.cc" \
  "${found[@]}" -o "$folder/by-pkg-config" || fail "the example, by pkg-config"

# Nobody has started a daemon: the library finds the installed one in PATH.
export PATH=$prefix/bin:$PATH
for program in "$folder/by-cmake/pipeline" "$folder/by-pkg-config"; do
  printed=$("$program" night 4 20 0 2>"$folder/log") || fail "$program exits with $?"
  expected=$(printf 'night: %s\n' "text encoder" transformer decode "done")
  [ "$printed" = "$expected" ] || fail "$program printed: $printed"
done
pid=$(head -n 1 "$STAGELOAD_HOME/stageloadd.lock")
case $(readlink "/proc/$pid/exe" 2>/dev/null || echo "$prefix/bin/stageloadd") in
  "$prefix/bin/stageloadd") ;;
  *) fail "another daemon than the installed one runs" ;;
esac
echo "installed, moved, built by CMake and by pkg-config, and run"
