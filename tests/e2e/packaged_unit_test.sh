#!/usr/bin/env bash
# The units that `cmake --install` brings along, before a real `systemd --user` in namespaces of its own:
# off, until they are enabled; then systemd runs the daemon, and `stageloadctl daemon` goes by that.
# Needs root, as `unshare` does.
#
# usage: packaged_unit_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
systemd=/lib/systemd/systemd
skip() {
  echo "skipped: $*"
  exit 77
}

if [ "${2:-}" != inside ]; then
  [ "$(id -u)" = 0 ] || skip "only root can unshare here"
  [ -x $systemd ] && command -v systemctl >/dev/null || skip "no systemd"
  command -v jq >/dev/null || skip "no jq"
  unshare --fork --pid --mount --cgroup --mount-proc true 2>/dev/null || skip "unshare is refused"
  folder=$(mktemp -d /tmp/sl-packaged.XXXXXX)
  trap 'rm -rf "$folder"' EXIT
  for component in runtime units; do
    cmake --install "$build" --prefix "$folder/home/.local" --component $component >"$folder/said" 2>&1 ||
      { cat "$folder/said"; exit 1; }
  done
  # Where systemd looks for a user's own packages.
  mkdir -p "$folder/home/.local/share/systemd"
  mv "$folder/home/.local/lib/systemd/user" "$folder/home/.local/share/systemd/user"
  # The end of its first process is the end of all in it.
  SL_FOLDER=$folder unshare --fork --pid --kill-child --mount --cgroup --mount-proc "$0" "$build" inside
  exit
fi

folder=$SL_FOLDER
mount --make-rprivate /
umount -R /sys/fs/cgroup 2>/dev/null || true
mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip "no cgroup2"
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/system "$folder/run" # without it, "not booted with systemd"
chmod 700 "$folder/run"
unset "${!STAGELOAD_@}" XDG_CONFIG_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS
export XDG_RUNTIME_DIR=$folder/run HOME=$folder/home STAGELOAD_NO_AUTOSTART=1
$systemd --user --unit=basic.target >"$folder/log" 2>&1 &
for _ in $(seq 100); do
  systemctl --user is-system-running >/dev/null 2>&1 && break
  sleep 0.1
done
systemctl --user is-system-running >/dev/null || skip "systemd --user does not run: $(tail -n 3 "$folder/log")"

ctl=$HOME/.local/bin/stageloadctl
units=(stageloadd.socket stageloadd.service)
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$folder/log" "$HOME"/.local/state/stageload/log/stageloadd.log >&2 || true
  exit 1
}
status() { "$ctl" daemon status --json | jq -r "$1"; }

[ "$(systemctl --user is-enabled "${units[@]}" | sort -u)" = disabled ] || fail "they are on"
[ "$(status .running)" = false ] || fail "it runs without being asked to"
systemctl --user enable --now "${units[@]}" 2>"$folder/said" || fail "enable: $(cat "$folder/said")"
"$ctl" run --wait-free 0 -- true || fail "no run before the service"
[ "$(status .daemon.started_by)" = SERVICE ] || fail "it is not the service's"

"$ctl" daemon status >"$folder/said"
grep -q "of a package.*active (running)" "$folder/said" || fail "status: $(cat "$folder/said")"
before=$(status .daemon.pid)
"$ctl" daemon restart || fail "restart"
[ "$(status .daemon.pid)" != "$before" ] && [ "$(status .daemon.started_by)" = SERVICE ] || fail "not restarted"
"$ctl" daemon stop || fail "stop"
sleep 1 # systemd starts one again after half a second, if it does
[ "$(status .running)" = false ] || fail "it runs after a stop"
systemctl --user start "${units[@]}"
"$ctl" queue >/dev/null || fail "not started again"

# One of the user's goes before the package's.
"$ctl" daemon install || fail "install over the package's"
[ "$(status .service.installed)" = true ] || fail "not installed: $("$ctl" daemon status)"
[ "$(systemctl --user show -P FragmentPath stageloadd.service)" = "$HOME/.config/systemd/user/stageloadd.service" ] ||
  fail "the package's goes first"
"$ctl" daemon uninstall || fail "uninstall"
[ "$(systemctl --user is-enabled "${units[@]}" | sort -u)" = disabled ] || fail "left enabled"
[ -e "$HOME/.local/share/systemd/user/stageloadd.service" ] || fail "the package's unit is gone"
echo "passed, with $(systemctl --version | head -n 1)"
