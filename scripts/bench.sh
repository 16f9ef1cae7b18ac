#!/usr/bin/env bash
# Measures what the design promises, as ratios within one run: a figure of one machine says little, how
# it grows says much. Builds the release preset first.
#
# usage: bench.sh [BENCHMARK OPTION...]      such as --benchmark_filter=Sample
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
fi

./scripts/install_dependencies.sh
cmake --preset release -DSTAGELOAD_TESTS=ON >/dev/null
cmake --build --preset release --target core_bench queue_bench telemetry_bench sessions_bench >/dev/null

echo "== one step of the core with n starts queued and 100 active clients"
build/release/bench/core_bench --benchmark_format=csv --benchmark_min_time=0.5 "$@" 2>/dev/null |
  awk -F, '
    $1 ~ /^"/ {
      gsub(/"/, "", $1)
      if ($9 == "true") {
        print $1 ": " $10 > "/dev/stderr"
        failed = 1
        next
      }
      split($1, name, "/")
      ratio = name[1] == before ? sprintf("  %.2f x for 2 n", $4 / cpu) : ""
      printf "%-18s n = %6d  %8.1f us CPU%s\n", name[1], name[2], $4, ratio
      before = name[1]
      cpu = $4
    }
    END { exit failed }'

echo "== a long queue in a real daemon"
build/release/bench/queue_bench build/release/bin/stageloadd build/release/bin/stageloadctl

echo "== a thousand subscribers of telemetry, a hundred of which never read"
build/release/bench/telemetry_bench build/release/bin/stageloadd

echo "== a thousand sessions that do nothing"
build/release/bench/sessions_bench build/release/bin/stageloadd
