#!/usr/bin/env bash
# Each shell takes the script that is for it.
#
# usage: shell_scripts_test.sh FOLDER
set -euo pipefail
cd "$1"
skipped=
check() {  # check SHELL FILE
  command -v "$1" >/dev/null || { skipped+=" $1"; return; }
  said=$("$1" -n "$2" 2>&1) && [ -z "$said" ] || { echo "FAILED: $1 -n $2: $said" >&2; exit 1; }
}
check bash stageloadctl.bash
check zsh _stageloadctl
check fish stageloadctl.fish
[ -z "$skipped" ] || { echo "skipped: no$skipped"; exit 77; }
