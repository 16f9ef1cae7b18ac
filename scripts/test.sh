#!/usr/bin/env bash
# Installs what is missing, builds everything and runs every test. Quick when nothing has changed.
#
# usage: test.sh [--preset release|debug|asan|tsan] [CTEST OPTION...]
#   test.sh -R Guard            only the tests whose name holds "Guard"
#   test.sh --preset asan -L unit
# With CI=true the unit tests run under the asan preset too, before the rest. Without a CTEST OPTION the
# Python package is tested and the sources are compiled for macOS at the end, too; docs/testing.md says
# how much of them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=release
if [ "${1:-}" = --preset ]; then
  preset=${2:?--preset needs a name}
  shift 2
elif [[ "${1:-}" = --preset=* ]]; then
  preset=${1#--preset=}
  shift
fi
if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
fi

cores=$(getconf _NPROCESSORS_ONLN)
# Most end-to-end tests wait for a process of theirs, not for a core.
side_by_side=$((cores * 2))

build() {  # build PRESET [TARGET...]
  echo "== building the $1 preset"
  cmake --preset "$1" -DSTAGELOAD_TESTS=ON
  cmake --build --preset "$1" --parallel "$cores" ${2:+--target "${@:2}"}
}
run_tests() {  # run_tests PRESET [CTEST OPTION...]
  echo "== testing the $1 preset"
  ctest --preset "$1" --parallel "$side_by_side" --output-on-failure --no-tests=error "${@:2}"
}

./scripts/install_dependencies.sh
./scripts/check_layers.sh
./scripts/lint_proto.sh
if [ "${CI:-}" = true ] && [ "$preset" = release ]; then
  # Homebrew's gRPC, Abseil and Protobuf are built without the sanitizer: what they do to a container
  # that ours share with them looks like an overflow of it.
  [ "$(uname)" != Darwin ] || export ASAN_OPTIONS="detect_container_overflow=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
  build asan unit_tests
  run_tests asan -L unit
fi
build "$preset"
run_tests "$preset" "$@"
if [ $# -eq 0 ] && [ "$preset" = release ]; then
  ./scripts/python_test.sh
  ./scripts/macos_cross_check.sh --quick --self-test
fi
