#!/usr/bin/env bash
# What can only be seen on a real machine, Mac or Linux: reads its memory, records, guards and queues
# commands, ends a daemon under its jobs, has launchd or systemd run one, and asks `doctor`. Each step has
# what must come out; the first that does not ends it, with a message and exit code 1.
#
# usage: live_test.sh [--no-service] [FOLDER]
#   FOLDER        the programs' (build/release/bin)
#   --no-service  installs nothing
#
# Everything happens in a STAGELOAD_HOME that goes away again. The service is installed for that home, too;
# with CI=true for the user's own, as a user would. Where one is installed already, or no service manager
# answers, that step is left out but for `daemon install --dry-run`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

service=yes
case ${1:-} in
-h | --help)
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
  ;;
--no-service)
  service=no
  shift
  ;;
esac
bin=$(cd "${1:-build/release/bin}" 2>/dev/null && pwd -P) || {
  echo "live_test: there is no folder ${1:-build/release/bin}; ./scripts/quickstart.sh builds what is in it" >&2
  exit 1
}
ctl=$bin/stageloadctl
load=$bin/stageload-load
system=$(uname -s)

# /tmp and not $TMPDIR: a socket's path is short.
home=$(cd "$(mktemp -d /tmp/stageload-live.XXXXXX)" && pwd -P)
export STAGELOAD_HOME=$home
unset STAGELOAD_SOCKET STAGELOAD_DAEMON STAGELOAD_NO_AUTOSTART
installed=no # by us
step=start

cancel_all() {
  "$ctl" --no-autostart queue --json 2>/dev/null | jq -r '.jobs[]?.id' 2>/dev/null |
    while read -r id; do "$ctl" --no-autostart cancel "$id" >/dev/null 2>&1; done
}
clean_up() {
  set +e # the rest is tidied also when one thing is gone already
  if [ "$installed" = yes ]; then
    cancel_all # the service's, of the user's own home
    "$ctl" daemon uninstall >/dev/null 2>&1
  fi
  export STAGELOAD_HOME=$home
  cancel_all
  "$ctl" --no-autostart daemon stop >/dev/null 2>&1
  rm -rf "$home"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

tail_of() { tail -n 40 "$@" 2>/dev/null | sed 's/^/  log: /' >&2 || true; }
fail() {
  tail_of "$home"/log/stageloadd.log
  if [ "$installed" = yes ]; then
    tail_of "$HOME"/Library/Logs/stageload/* "$HOME"/.local/state/stageload/log/stageloadd.log
  fi
  echo "live_test: $step: $*" >&2
  exit 1
}
ok() { printf 'ok    %-10s %s\n' "$step" "$*"; }
left_out() { printf 'skip  %-10s %s\n' "$step" "$*"; }

# expect JSON EXPRESSION WHAT: jq's EXPRESSION is true of JSON
expect() {
  [ "$(jq -r "$2" <<<"$1" 2>&1)" = true ] || fail "$3; it must be that $2, and this came out:
$1"
}
gib() { awk -v bytes="$1" 'BEGIN { printf "%.1f GiB", bytes / 1073741824 }'; }
# eventually SECONDS COMMAND...: it succeeds by then
eventually() {
  local until=$((SECONDS + $1))
  shift
  until "$@" >/dev/null 2>&1; do
    [ "$SECONDS" -lt "$until" ] || return 1
    sleep 0.1
  done
}
daemon_pid() { "$ctl" daemon status --json | jq -r '.daemon.pid // empty'; }
state_of() { "$ctl" show --json "$1" | jq -r .state; }
is_in_state() { [ "$(state_of "$1")" = "$2" ]; }
is_gone() { ! kill -0 "$1"; }

for needed in "$bin/stageloadd" "$ctl" "$bin/stageload-shim" "$load"; do
  [ -x "$needed" ] || fail "there is no program $needed; ./scripts/quickstart.sh builds it"
done
command -v jq >/dev/null || fail "jq is needed; ./scripts/install_dependencies.sh installs it"

# --- one reading of the machine ------------------------------------------------------------------------
# The same must come out of the kernel by another way.
check_host() { # check_host JSON
  expect "$1" '.level_percent > 0 and .level_percent <= 100' "the level is no percentage"
  expect "$1" '.available_bytes > 0 and .available_bytes <= .total_bytes' "what is available is not a part of all"
  expect "$1" '.swap_used_bytes >= 0 and .swap_used_bytes <= .swap_total_bytes' "the swap is not plausible"
  if [ "$system" = Darwin ]; then
    local level total wired
    level=$(sysctl -n kern.memorystatus_level)
    total=$(sysctl -n hw.memsize)
    wired=$(vm_stat | awk '/page size of/ { page = $8 } /wired down/ { print $4 * page }')
    expect "$1" ".total_bytes == $total" "hw.memsize says $total"
    expect "$1" ".level_percent - $level | fabs <= 20" "kern.memorystatus_level says $level just now"
    expect "$1" ".wired_bytes / $wired | . > 0.5 and . < 2" "vm_stat says that $wired bytes are wired"
    expect "$1" '.compressed_bytes >= 0 and (.pressure | IN("NORMAL", "WARN", "CRITICAL"))' \
      "a counter of macOS is missing"
  else
    local total
    total=$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo)
    # Less under the limit of a cgroup.
    expect "$1" ".total_bytes > 0 and .total_bytes <= $total" "/proc/meminfo says $total"
  fi
}
step=probe
probe=$("$bin/stageloadd" --probe) || fail "stageloadd --probe exits with $?: $probe"
expect "$probe" 'has("errors") | not' "something could not be read"
check_host "$(jq .host <<<"$probe")"
expect "$probe" '.processes > 1' "there are no processes"
expect "$probe" '.self.footprint_bytes > 0 and (.self.command_line | endswith("--probe"))' \
  "it cannot read itself"
expect "$probe" '.clock.continuous_ns >= .clock.awake_ns and .boot_id != ""' "the clocks are not plausible"
ok "$(jq -r '"level \(.host.level_percent | floor) %, \(.processes) processes"' <<<"$probe")"

step=daemon
"$ctl" daemon start >/dev/null || fail "no daemon starts"
eventually 10 sh -c "'$ctl' status --json | jq -e .frame.host.level_percent" || fail "status has no sample"
status=$("$ctl" status --json)
check_host "$(jq .frame.host <<<"$status")"
available=$(jq .frame.host.available_bytes <<<"$status")
ok "pid $(daemon_pid), $(gib "$available") available"

# What the commands below take; little enough for any machine.
mib=256
[ "$available" -ge 3221225472 ] || mib=64
bytes=$((mib * 1048576))

# --- a recording -----------------------------------------------------------------------------------------
step=record
trace=$home/run.jsonl
code=0
"$ctl" record --quiet --interval 100ms -o "$trace" -- sh -c '
  "$1" mark --require --stage load && "$2" --hold "$3" --for 1500ms && exit 7' sh "$ctl" "$load" "${mib}M" >/dev/null ||
  code=$?
[ "$code" -eq 7 ] || fail "the command exited with 7, record with $code"
summary=$("$ctl" summary --json "$trace")
expect "$summary" ".peak_footprint >= $bytes and .peak_footprint < $bytes * 1.5" \
  "the peak is not the $mib MiB that the command took"
expect "$summary" '.ended and .samples >= 8 and .min_level > 0' "the trace is not whole"
expect "$summary" '[.stages[].stage] | index("load") != null' "the stage is missing"
"$ctl" plot "$trace" -o "$home/run.html" || fail "plot does not draw it"
grep -q '<html' "$home/run.html" || fail "plot made no page"
ok "$(jq -r '"\(.samples) samples, peak \(.peak_footprint / 1048576 | floor) MiB"' <<<"$summary") of $mib taken"

# --- a guarded command -----------------------------------------------------------------------------------
step=guard
code=0
said=$("$ctl" guard --wait-free 0 --kill-free 0 -- sh -c 'cat; exit 7' <<<"hello") || code=$?
[ "$code/$said" = 7/hello ] || fail "'cat; exit 7' came to exit code $code and '$said'"
code=0
"$ctl" guard --wait-free 0 --kill-free 0 --time 1s -- sleep 600 2>/dev/null || code=$?
[ "$code" -eq 1 ] || fail "a guard whose command --time ends exits with 1, this one with $code"
"$ctl" guard --wait-free 0 --kill-free 0 -- sh -c 'echo $$ >"$1"; sleep 600' sh "$home/command" 2>/dev/null &
guard=$!
eventually 10 test -s "$home/command" || fail "the guarded command does not start"
kill -TERM "$guard"
code=0
wait "$guard" || code=$?
[ "$code" -eq 143 ] || fail "a guard that gets SIGTERM exits with 143, this one with $code"
eventually 10 is_gone "$(cat "$home/command")" || fail "the command outlives its guard's SIGTERM"
code=0
"$ctl" guard --memory 1000T -- true 2>"$home/refused" || code=$?
[ "$code" -ne 0 ] || fail "a command that can never fit was run"
ok "exit codes, stdin, --time and SIGTERM; $(head -n 1 "$home/refused")"

# --- jobs ------------------------------------------------------------------------------------------------
step=submit
id=$("$ctl" submit --wait-free 0 --kill-free 0 -- sh -c 'echo out; echo err >&2; exit 3')
code=0
"$ctl" wait "$id" >/dev/null || code=$?
[ "$code" -eq 3 ] || fail "the job exits with 3, wait says $code"
is_in_state "$id" FAILED || fail "it is $(state_of "$id")"
[ "$("$ctl" logs "$id" 2>&1 | sort | tr '\n' ' ')" = "err out " ] || fail "its log is not what it wrote"

id=$("$ctl" submit --wait-free 0 --kill-free 0 -- sh -c 'sleep 600 & echo $!; wait')
eventually 10 sh -c "'$ctl' logs $id | grep -q ." || fail "the job does not start"
child=$("$ctl" logs "$id")
"$ctl" cancel "$id" >/dev/null
"$ctl" wait "$id" >/dev/null 2>&1 || true
is_in_state "$id" CANCELLED || fail "a cancelled job is $(state_of "$id")"
eventually 10 is_gone "$child" || fail "a process of a cancelled job is left"
ok "exit code, log, cancel with all descendants"

# submit_held CODE: a job, $id, that runs until let_go, which waits for it, and then exits with CODE
submit_held() {
  rm -f "$home/go"
  # shellcheck disable=SC2016  # expanded in the job
  id=$("$ctl" submit --wait-free 0 --kill-free 0 -- \
    sh -c 'while [ ! -e "$1" ]; do sleep 0.1; done; exit "$2"' sh "$home/go" "$1")
  eventually 10 is_in_state "$id" RUNNING || fail "the job is $(state_of "$id")"
}
let_go() { # let_go CODE
  touch "$home/go"
  code=0
  "$ctl" wait "$id" >/dev/null || code=$?
  [ "$code" -eq "$1" ] || fail "the job exits with $1 under another daemon, wait says $code"
}
# another_daemon PID WHAT: it is no more that one, and the job runs on
another_daemon() {
  [ "$(daemon_pid)" != "$1" ] || fail "$2: it is the same daemon"
  is_in_state "$id" RUNNING || fail "$2: the job is $(state_of "$id")"
}

# A daemon that is killed under a job finds it again.
step=adoption
submit_held 5
first=$(daemon_pid)
kill -KILL "$first"
eventually 10 is_gone "$first" || fail "the daemon does not end"
"$ctl" daemon start >/dev/null || fail "the next daemon does not start"
another_daemon "$first" "after a crash"
let_go 5
ok "a job goes on under the next daemon, and its exit code is known"

# Clients that have gone are seen to have.
step=clients
descriptors() {
  if [ "$system" = Darwin ]; then lsof -p "$1" | wc -l; else find "/proc/$1/fd" -mindepth 1 | wc -l; fi
}
pid=$(daemon_pid)
before=$(descriptors "$pid")
for _ in $(seq 30); do "$ctl" queue >/dev/null; done
few_are_left() { [ "$(descriptors "$pid")" -le $((before + 5)) ]; }
eventually 20 few_are_left ||
  fail "after 30 clients the daemon has $(descriptors "$pid") open files, and had $((before)) before"
ok "30 have come and gone, and left nothing open"

# --- doctor ----------------------------------------------------------------------------------------------
step=doctor
code=0
doctor=$("$ctl" doctor --json) || code=$?
expect "$doctor" '[.. | objects | select(has("verdict")).verdict] | length > 5' "there is nothing of it"
[ "$code" -eq 0 ] || fail "it finds what has failed, exit code $code:
$("$ctl" doctor || true)"
ok "$(jq -r '[.. | objects | select(has("verdict")).verdict] | "\(map(select(. == "ok")) | length) of \(length) checks are ok, none has failed"' <<<"$doctor")"
"$ctl" daemon stop >/dev/null || fail "the daemon does not stop"

# --- launchd or systemd ----------------------------------------------------------------------------------
step=service
plan=$("$ctl" daemon install --dry-run --json) || fail "daemon install --dry-run exits with $?"
expect "$plan" '(.files | length > 0) and (.commands | length > 0)' "it would do nothing"
if [ "$system" = Darwin ]; then
  jq -r '.files[0].text' <<<"$plan" >"$home/planned.plist"
  plutil -lint "$home/planned.plist" >/dev/null || fail "plutil refuses the plist: $(plutil -lint "$home/planned.plist")"
  answers=yes
else
  answers=no
  systemctl --user show stageloadd.socket --property=ActiveState >/dev/null 2>&1 && answers=yes
fi
ok "would install $(jq -r '[.files[].path | sub(".*/"; "")] | join(", ")' <<<"$plan")"
before=$("$ctl" daemon status --json || true)
if [ "$service" = no ]; then
  left_out "as was asked"
elif [ "$(jq -r '.service.installed or .service.installed_for_another_home' <<<"$before")" = true ]; then
  left_out "a service is installed here already"
elif [ "$answers" = no ]; then
  left_out "no systemd --user answers here"
else
  [ "${CI:-}" != true ] || unset STAGELOAD_HOME
  installed=yes
  "$ctl" daemon install || fail "daemon install exits with $?"
  is_service() { "$ctl" daemon status --json | jq -e '.running and .service.installed and .daemon.started_by == "SERVICE"'; }
  eventually 20 is_service || fail "it is installed, and not run: $("$ctl" daemon status --json || true)"
  "$ctl" daemon install | grep -q already || fail "installing it again is not told as needless"
  doctor=$("$ctl" doctor) || fail "doctor finds what has failed with the service:
$doctor"
  submit_held 6
  first=$(daemon_pid)
  "$ctl" daemon restart || fail "daemon restart exits with $?"
  eventually 20 is_service || fail "after a restart it is not run: $("$ctl" daemon status --json || true)"
  another_daemon "$first" "after daemon restart"
  first=$(daemon_pid)
  kill -KILL "$first"
  "$ctl" --no-autostart queue >/dev/null || fail "no daemon answers after the one before was killed"
  eventually 20 is_service || fail "after a crash it is not run again: $("$ctl" daemon status --json || true)"
  another_daemon "$first" "after the daemon's crash"
  let_go 6
  "$ctl" clear "$id" >/dev/null 2>&1 || fail "clear exits with $?"
  "$ctl" daemon uninstall || fail "daemon uninstall exits with $?"
  installed=no
  after=$("$ctl" daemon status --json || true)
  expect "$after" '.service.installed | not' "it is still installed"
  jq -r '.files[].path' <<<"$plan" | while read -r file; do
    [ ! -e "$file" ] || fail "daemon uninstall leaves $file"
  done
  ok "installed, run, restarted and killed under a job, uninstalled"
fi

echo "== live test passed on $system $(uname -m)"
