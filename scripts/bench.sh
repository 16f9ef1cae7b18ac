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

# Of each command as a whole process, its median, its own CPU time, and how many times `true` that is.
whole_processes() {
  local bin=build/release/bin home
  home=$(mktemp -d)
  export STAGELOAD_HOME=$home
  "$bin/stageloadctl" daemon start >/dev/null
  "$bin/stageloadctl" hold --queue >/dev/null # or the jobs would run beside what is measured
  hyperfine -N --warmup 5 --runs 100 --style none --export-json "$home/times.json" true \
    "$bin/stageloadctl --help" "$bin/stageloadctl submit -- true" >/dev/null 2>"$home/err" ||
    cat "$home/err" >&2
  "$bin/stageloadctl" daemon stop >/dev/null 2>&1
  jq -r '.results[0].median as $true | .results[] |
    [.command, .median * 1000, (.user + .system) * 1000, .median / $true] | @tsv' "$home/times.json" |
    awk -F '\t' '
      BEGIN { goal["--help"] = 5; goal["submit -- true"] = 15 }
      {
        sub(/^.*stageloadctl /, "", $1)
        printf "%-16s median %5.1f ms%s, %4.1f ms CPU, %4.1f x true\n", $1, $2,
          $1 in goal ? sprintf(" (goal %d)", goal[$1]) : "", $3, $4
      }'
  rm -rf "$home"
}

./scripts/install_dependencies.sh hyperfine  # which only this script needs
cmake --preset release -DSTAGELOAD_TESTS=ON >/dev/null
cmake --build --preset release --target core_bench queue_bench telemetry_bench sessions_bench \
  stageloadctl stageloadd stageload-shim >/dev/null

echo "== whole processes; what they take on an idle machine"
whole_processes

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
