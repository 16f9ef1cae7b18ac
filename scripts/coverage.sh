#!/usr/bin/env bash
# Prints how many lines of our sources a test program runs, and which it does not. Builds into
# build/coverage/ without optimisation; needs gcov, which comes with g++ (with clang: GCOV="llvm-cov gcov").
#
# usage: coverage.sh [--at-least PERCENT] SOURCE-PREFIX TEST-PROGRAM...
#   coverage.sh --at-least 95 daemon/host/darwin darwin_host_test
# Exits 1 when the sources together have less than PERCENT of their lines run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

at_least=0
if [ "${1:-}" = --at-least ]; then
  at_least=${2:?--at-least needs a number}
  shift 2
fi
if [ $# -lt 2 ] || [ "$1" = --help ] || [ "$1" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 2
fi
prefix=$1
shift
build=build/coverage
read -ra gcov <<<"${GCOV:-gcov}"

# Without ccache: what a compiler cache gives back may name the sources of another checkout.
export CCACHE_DISABLE=1
cmake --preset debug -B "$build" -DSTAGELOAD_TESTS=ON -DCMAKE_CXX_FLAGS=--coverage >/dev/null
cmake --build "$build" --parallel "$(getconf _NPROCESSORS_ONLN)" --target "$@" >/dev/null
find "$build" -name '*.gcda' -delete
for program in "$@"; do
  "$build/tests/$program" --gtest_brief=1
done

# One text with every line of every source that was compiled for these programs:
# "        -:   12:text", "        7:...", "    #####:..." for one that was never run.
listing=$build/coverage.txt
find "$PWD/$build" -name '*.gcda' -print0 | sort -z |
  xargs -0 "${gcov[@]}" --stdout --relative-only --source-prefix "$PWD" 2>/dev/null >"$listing"

awk -v prefix="$prefix" -v at_least="$at_least" '
  { match($0, /^ *[^:]*: *[0-9]+:/); head = substr($0, 1, RLENGTH); text = substr($0, RLENGTH + 1) }
  { split(head, part, ":"); count = part[1]; line = part[2] + 0; gsub(/[ *]/, "", count) }
  line == 0 && text ~ /^Source:/ { file = substr(text, 8); next }
  index(file, prefix) != 1 || file !~ /\.cc$/ || count == "-" || line == 0 { next }
  # A template is listed once for each type, a source once for each program that has it.
  { lines[file, line] = 1; texts[file, line] = text; if (count !~ /^[#=]/) run[file, line] = 1 }
  END {
    for (key in lines) {
      split(key, part, SUBSEP)
      all[part[1]]++; in_all++
      if (key in run) { ran[part[1]]++; ran_in_all++ }
      else missed = missed sprintf("%s:%d:%s\n", part[1], part[2], texts[key])
    }
    if (in_all == 0) { print "coverage: no line of " prefix "*.cc is in these programs"; exit 1 }
    command = "sort"
    for (file in all) printf "%6.1f %%  %4d of %4d lines  %s\n", 100 * ran[file] / all[file],
                             ran[file], all[file], file | command
    close(command)
    printf "%6.1f %%  %4d of %4d lines  in all\n", 100 * ran_in_all / in_all, ran_in_all, in_all
    if (missed != "") { print "never run:"; command = "sort -t: -k1,1 -k2,2n"; printf "%s", missed | command; close(command) }
    if (100 * ran_in_all / in_all < at_least) {
      printf "coverage: less than %s %%\n", at_least
      exit 1
    }
  }
' "$listing"
