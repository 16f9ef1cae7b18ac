#!/usr/bin/env bash
# docs/examples/parked.py does what docs/mps-memory.md says: its footprint goes away and comes back
# while it holds the memory all the time.
#
# usage: parked_test.sh STAGELOADCTL TREE
set -euo pipefail
ctl=$1
tree=$2
STAGELOAD_HOME=$(cd "$(mktemp -d /tmp/sl-parked.XXXXXX)" && pwd -P)
export STAGELOAD_HOME PATH="${ctl%/*}:$PATH"
unset STAGELOAD_SOCKET STAGELOAD_DAEMON STAGELOAD_NO_AUTOSTART
trap '"$ctl" --no-autostart daemon stop >/dev/null 2>&1 || true; rm -rf "$STAGELOAD_HOME"' EXIT

trace=$STAGELOAD_HOME/parked.jsonl
"$ctl" record --quiet --interval 100ms -o "$trace" -- python3 "$tree/docs/examples/parked.py" 0.25
# The footprint at the end of each stage, in MiB.
ends=$(jq -rs '
  [.[] | select(.kind == "stage")] as $stages | [.[] | select(.type == "sample")] as $samples |
  [range($stages | length) as $i | ($stages[$i + 1].t // 1e9) as $until |
    [$samples[] | select(.t < $until)] | last.footprint / 1048576 | floor] | join(" ")' "$trace")
echo "MiB at the end of loaded, parked, touched, freed: $ends"
read -r loaded parked touched freed <<<"$ends"
[ "$loaded" -ge 256 ] && [ "$parked" -lt 128 ] && [ "$touched" -ge 256 ] && [ "$freed" -lt 128 ]
