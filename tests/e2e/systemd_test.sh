#!/usr/bin/env bash
# `stageloadctl daemon`, and scripts/live_test.sh, before a real `systemd --user`, which runs in
# namespaces of its own: process numbers, mounts and cgroups. Needs root, as `unshare` does.
#
# usage: systemd_test.sh STAGELOADCTL
set -euo pipefail
ctl=$1
. "$(dirname "$0")/systemd_user.sh"

if [ "${2:-}" != inside ]; then
  make_folder systemd
  enter "$ctl"
fi
start_systemd

status() { "$ctl" daemon status --json | jq -r "$1"; }
state_of() { "$ctl" show --json "$1" | jq -r .state; }
doctor_on() { "$ctl" doctor --json | jq -r ".checks[] | select(.check == \"$1\").verdict"; }

job=$("$ctl" submit --wait-free 0 -- sleep 300)
[ "$(status .daemon.started_by)" = AUTOSTART ] || fail "no daemon of a client to replace"
"$ctl" daemon install || fail "install"
[ "$(status .daemon.started_by)" = SERVICE ] || fail "the service has not replaced it"
[ "$(status .service.condition)" = "active (running)" ] || fail "condition: $(status .service.condition)"
"$ctl" daemon install | grep -q "installed already" || fail "install again"
[ "$(systemctl --user is-enabled stageloadd.service stageloadd.socket | sort -u)" = enabled ] || fail "not enabled"
systemctl --user disable stageloadd.service stageloadd.socket 2>/dev/null
"$ctl" daemon install | grep -q renewed: || fail "installed already, though disabled"
[ "$(systemctl --user is-enabled stageloadd.service stageloadd.socket | sort -u)" = enabled ] || fail "still not enabled"
[ "$(state_of "$job")" = RUNNING ] || fail "the job did not run on"

# Connects wait while it restarts: by command, and after a crash.
export STAGELOAD_NO_AUTOSTART=1
for _ in 1 2 3 4 5 6; do "$ctl" daemon restart || fail "restart"; done &
restarts=$!
while kill -0 $restarts 2>/dev/null; do
  # A call that is on its way is cut off; none may find nobody.
  "$ctl" queue >"$folder/out" 2>&1 || grep -q "went away\|shutting down\|CANCELLED" "$folder/out" ||
    fail "refused while it restarts: $(cat "$folder/out")"
done
wait $restarts || fail "six restarts in a row"
kill -KILL "$(status .daemon.pid)"
"$ctl" queue >"$folder/out" 2>&1 || fail "refused after a crash: $(cat "$folder/out")"
[ "$(state_of "$job")" = RUNNING ] || fail "the job did not outlive six restarts and a crash"

# Nothing is ended for a config with which none could start.
mkdir -p "$HOME/.config/stageload"
echo 'nonsense = 1' >"$HOME/.config/stageload/config.toml"
"$ctl" daemon restart 2>"$folder/err" && fail "restart with a broken config"
grep -q "nonsense" "$folder/err" || fail "restart said: $(cat "$folder/err")"
"$ctl" queue >/dev/null || fail "the daemon was ended for a config that is broken"

# A reload of the unit is one of the config, and neither ends nor replaces the daemon.
pid=$(status .daemon.pid)
echo 'memory_pool = "7G"' >"$HOME/.config/stageload/config.toml"
systemctl --user reload stageloadd || fail "systemctl reload"
reloaded() { "$ctl" history | grep -q "config_reloaded.*memory_pool"; }
for _ in $(seq 100); do
  reloaded && break
  sleep 0.1
done
reloaded || fail "not read again: $("$ctl" history)"
[ "$(status .daemon.pid)" = "$pid" ] || fail "the reload has replaced the daemon"
rm "$HOME/.config/stageload/config.toml"

"$ctl" daemon stop || fail "stop"
[ "$("$ctl" daemon status --json | jq -r .running)" = false ] || fail "it runs after a stop"
all_is_gone() {
  [ ! -e "$(status .socket)" ] || fail "$1 leaves the socket's file"
  [ "$(doctor_on daemon)" != fail ] || fail "after $1 doctor takes the daemon for one that has crashed"
}
all_is_gone stop
"$ctl" daemon start || fail "start"
[ "$(status .daemon.started_by)" = SERVICE ] || fail "not the service"

# Its socket's file is removed, and then the daemon that makes its own is killed.
answers_as_another() {
  for _ in $(seq 100); do
    pid=$(status .daemon.pid) || true # 69: none runs now
    [ "$pid" = null ] || [ "$pid" = "$1" ] || return 0
    sleep 0.1
  done
  fail "$2: $(status .service.condition)"
}
pid=$(status .daemon.pid)
rm "$(status .socket)"
answers_as_another "$pid" "no daemon makes the lost socket anew"
kill -KILL "$pid"
answers_as_another "$pid" "none takes the place of the one that was killed"
"$ctl" daemon restart || fail "restart after the socket was lost"

# One that was started by hand has the home when the service starts, as at a login: systemd's socket
# takes the place of its own.
for command in start restart install; do
  "$ctl" daemon stop || fail "stop"
  "$(dirname "$ctl")/stageloadd" 2>"$folder/err" &
  by_hand=$!
  answers_as_another null "no daemon by hand: $(cat "$folder/err")"
  systemctl --user start stageloadd.socket stageloadd.service || fail "systemctl start"
  if [ $command = start ]; then
    "$ctl" doctor --json >"$folder/out" || true
    jq -e ".checks[] | select(.check == \"daemon\") | .fix | contains(\"\`kill $by_hand\`\")" "$folder/out" >/dev/null ||
      fail "doctor: $(cat "$folder/out")"
    jq -e ".checks[] | select(.check == \"service\") | .text | contains(\"pid $by_hand has the home\")" "$folder/out" >/dev/null ||
      fail "doctor: $(cat "$folder/out")"
  fi
  began=$SECONDS
  "$ctl" daemon $command >"$folder/out" 2>&1 || fail "$command: $(cat "$folder/out")"
  [ $((SECONDS - began)) -lt 14 ] || fail "$command waits for one that cannot answer"
  grep -q "^ended: stageloadd, pid $by_hand, " "$folder/out" || fail "$command: $(cat "$folder/out")"
  wait $by_hand || fail "it has not left in order"
  [ "$(status .daemon.started_by)" = SERVICE ] || fail "$command has not given the home to the service"
done

sed -i s/KillMode=process/KillMode=control-group/ "$HOME/.config/systemd/user/stageloadd.service"
"$ctl" daemon install | grep -q renewed: || fail "a stale unit is not renewed"
[ "$(state_of "$job")" = RUNNING ] || fail "the job did not outlive the renewal"
"$ctl" daemon uninstall || fail "uninstall"
[ -z "$(ls -A "$HOME/.config/systemd/user")" ] || fail "left: $(ls -AR "$HOME/.config/systemd/user")"
all_is_gone uninstall
"$ctl" daemon uninstall | grep -qx "not installed" || fail "uninstall again"

# The files are removed by hand while it runs, and the next time once it is stopped.
for stops in no yes; do
  "$ctl" daemon install >/dev/null || fail "install"
  [ $stops = no ] || systemctl --user stop stageloadd.socket stageloadd.service
  rm "$HOME"/.config/systemd/user/stageloadd.*
  "$ctl" daemon uninstall | grep -q "^uninstalled: " || fail "uninstall without the files"
  [ -z "$(find "$HOME/.config/systemd/user" ! -type d)" ] ||
    fail "left: $(ls -AR "$HOME/.config/systemd/user")"
  all_is_gone "uninstall without the files"
  "$ctl" daemon uninstall | grep -qx "not installed" || fail "uninstall again"
done
rmdir "$HOME"/.config/systemd/user/*.wants 2>/dev/null || true

# For another home, and back.
"$ctl" daemon install >/dev/null || fail "install"
here=$(status .socket)
STAGELOAD_HOME=$folder/other "$ctl" daemon install >/dev/null || fail "install for another home"
[ ! -e "$here" ] || fail "the socket of the home before is left"
[ "$(doctor_on daemon)" != fail ] || fail "doctor takes the daemon of the home before for crashed"
"$ctl" daemon uninstall >/dev/null || fail "uninstall"

# Units that systemd cannot load.
"$ctl" daemon install >/dev/null || fail "install"
"$ctl" daemon stop >/dev/null || fail "stop"
for unit in service socket; do echo nonsense >"$HOME/.config/systemd/user/stageloadd.$unit"; done
systemctl --user daemon-reload
"$ctl" daemon uninstall || fail "uninstall of units that cannot be loaded"
[ -z "$(find "$HOME/.config/systemd/user" ! -type d)" ] || fail "left: $(ls -AR "$HOME/.config/systemd/user")"
rmdir "$HOME"/.config/systemd/user/*.wants 2>/dev/null || true

# A variable of this shell that the manager does not have.
XDG_CONFIG_HOME=$folder/xdg "$ctl" daemon install || fail "install with another XDG_CONFIG_HOME"
[ -e "$HOME/.config/systemd/user/stageloadd.socket" ] || fail "not where systemd reads"
XDG_CONFIG_HOME=$folder/xdg "$ctl" daemon uninstall || fail "uninstall with another XDG_CONFIG_HOME"
[ -z "$(ls -A "$HOME/.config/systemd/user")" ] || fail "left: $(ls -AR "$HOME/.config/systemd/user")"

unset STAGELOAD_NO_AUTOSTART
"$ctl" cancel "$job" >/dev/null
"$ctl" daemon stop >/dev/null
# As in CI: for the user's own home, which is the one made above.
CI=true "$(dirname "$0")/../../scripts/live_test.sh" "$(dirname "$ctl")" || fail "scripts/live_test.sh"
echo "passed, with $(systemctl --version | head -n 1)"
