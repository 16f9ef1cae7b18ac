#!/usr/bin/env bash
# From a clean clone to a queue that works: installs what is missing, builds, and runs three real jobs
# in a pool of memory that has room for two. Exits with 0 only if all went as it should.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

./scripts/install_dependencies.sh
echo "== building"
cmake --preset release
cmake --build --preset release --parallel "$(getconf _NPROCESSORS_ONLN)" \
  --target stageloadd stageloadctl stageload-shim stageload-load

bin=$PWD/build/release/bin
ctl=$bin/stageloadctl
# A home of its own, and nothing of the caller's daemon. /tmp and not $TMPDIR: a socket's path is short.
STAGELOAD_HOME=$(cd "$(mktemp -d /tmp/stageload.XXXXXX)" && pwd -P)
export STAGELOAD_HOME
unset STAGELOAD_SOCKET STAGELOAD_DAEMON STAGELOAD_NO_AUTOSTART

clean_up() {
  if "$ctl" --no-autostart cancel 1 2 3 >/dev/null 2>&1; then
    "$ctl" --no-autostart wait 1 2 3 >/dev/null 2>&1 || true
  fi
  "$ctl" daemon stop >/dev/null 2>&1 || true
  rm -rf "$STAGELOAD_HOME"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
  sed 's/^/  log: /' "$STAGELOAD_HOME"/log/* >&2 2>/dev/null || true
  echo "quickstart: $*" >&2
  exit 1
}

# --- how much memory there is to show it with -------------------------------------------------------
mib_of() {  # mib_of FIELD: of the machine, in MiB
  "$ctl" status --json | sed -n "s/^ *\"$1\": \([0-9][0-9]*\).*/\1/p" | head -n 1 |
    awk '{ printf "%d", $1 / 1048576 }'
}
"$ctl" daemon start >/dev/null
available=$(mib_of available_bytes)
total=$(mib_of total_bytes)
"$ctl" daemon stop >/dev/null
if [ -z "$available" ] || [ -z "$total" ]; then
  fail "stageloadctl status does not say how much memory there is"
fi

size=1G
pool=2.5G
if [ "$available" -lt 3584 ]; then
  # Two jobs and a half beside the tenth of all memory that is kept free.
  mib=$(((available - total / 10) * 2 / 5))
  [ "$mib" -ge 32 ] || fail "only $available MiB of memory are available, too few to show anything"
  [ "$mib" -le 1024 ] || mib=1024
  size=${mib}M
  pool=$((mib * 5 / 2))M
  echo "== only $available MiB of memory are available: jobs of $size in place of 1G"
fi
echo "memory_pool = \"$pool\"" >"$STAGELOAD_HOME/config.toml"

# --- three jobs --------------------------------------------------------------------------------------
echo
echo "== three jobs of $size each, in a memory pool of $pool"
# --wait-free 0: this is about the pool, so that a busy machine may show it too.
submit() {  # submit DURATION
  "$ctl" submit --wait-free 0 --memory "$size" -- "$bin/stageload-load" --hold "$size" --for "$1"
}
for duration in 6s 9s 3s; do
  id=$(submit "$duration")
  echo "\$ stageloadctl submit --memory $size -- stageload-load --hold $size --for $duration"
  echo "$id"
done
echo

state_of() { sed -n 's/^state  *//p' <<<"$1"; }
blockers_of() { sed -n 's/^waits for  *//p' <<<"$1"; }
row() { printf '%5s  %-4s %-10s %s\n' "$@" | sed 's/ *$//'; }
row TIME JOB STATE 'WAITS FOR'
last=("" "" "" "")
third_waited=no
third_waited_for=
begin=$SECONDS
while :; do
  ended=0
  for id in 1 2 3; do
    shown=$("$ctl" show "$id")
    state=$(state_of "$shown")
    blockers=$(blockers_of "$shown")
    if [ "$state $blockers" != "${last[$id]}" ]; then
      row "$((SECONDS - begin))s" "$id" "$state" "$blockers"
      last[id]="$state $blockers"
    fi
    [ "$state" = COMPLETED ] && ended=$((ended + 1))
    case $state in FAILED | CANCELLED | OUT_OF_MEMORY | NO_ROOM | UNKNOWN) fail "job $id ended as $state" ;; esac
  done
  if [[ "${last[1]} ${last[2]}" = "RUNNING  RUNNING " && "${last[3]}" = "PENDING MEMORY: needs "* ]]; then
    third_waited=yes
    third_waited_for=${last[3]#PENDING }
  fi
  [ "$ended" -eq 3 ] && break
  [ $((SECONDS - begin)) -lt 120 ] || fail "the jobs have not ended after two minutes"
  sleep 0.2
done
"$ctl" wait 1 2 3 || fail "a job did not exit with 0"
[ "$third_waited" = yes ] || fail "the third job did not wait for memory while the other two ran"
echo
echo "\$ stageloadctl queue --all"
"$ctl" queue --all
echo
echo "Two ran at once; the third waited, with $third_waited_for."

# --- a guarded command -------------------------------------------------------------------------------
echo
echo "== a command here, under a swap budget"
echo "\$ stageload guard --swap-budget 8G -- sh -c 'exit 7'"
code=0
"$bin/stageload" guard --wait-free 0 --swap-budget 8G -- sh -c 'exit 7' || code=$?
echo "exit code $code"
[ "$code" -eq 7 ] || fail "the command exited with 7, the guard with $code"

"$ctl" daemon stop >/dev/null || fail "the daemon does not stop"

cat <<END

== All of it works. What to type next:

  export PATH="$bin:\$PATH"
  stageloadctl submit --memory 12G -- python train.py        # queues it and prints its id
  stageloadctl queue                                         # what runs, what waits and for what
  stageloadctl logs -f 1                                     # its output, until it ends
  stageloadctl status                                        # the machine, and who holds what
  stageload guard --swap-budget 8G -- python generate.py     # runs it here, stops it over budget
  stageloadctl --help
END
