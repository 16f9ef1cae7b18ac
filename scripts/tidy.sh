#!/usr/bin/env bash
# Runs clang-tidy over our own sources, or over those that hold one of the given words in their path.
# Slow (several seconds a file), so not a part of test.sh.
#
# usage: tidy.sh [WORD...]      for example: tidy.sh daemon/core daemon/engine
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
database=${STAGELOAD_TIDY_BUILD:-build/release}
command -v clang-tidy >/dev/null || {
  echo "tidy: clang-tidy is not on PATH (Debian: clang-tidy; Homebrew: llvm)" >&2
  exit 1
}
[ -f "$database/compile_commands.json" ] || cmake --preset release -B "$database"

# Only files that the build compiles here: the other platform's cannot be parsed.
sources=$(sed -n 's/^ *"file": "\(.*\)".*/\1/p' "$database/compile_commands.json" |
  grep -E "^$PWD/(base|client|daemon|tests)/" | sort -u)
[ $# -eq 0 ] || sources=$(grep -F "$(printf '%s\n' "$@")" <<<"$sources")
echo "== clang-tidy over $(wc -l <<<"$sources") files"
tr '\n' '\0' <<<"$sources" |
  xargs -0 -n 1 -P "$(getconf _NPROCESSORS_ONLN)" clang-tidy --quiet -p "$database"
