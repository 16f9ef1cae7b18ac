#!/usr/bin/env bash
# The units that `cmake --install` brings along, before a real `systemd --user` in namespaces of its own:
# off, until they are enabled; then systemd runs the daemon, and `stageloadctl daemon` goes by that.
# Needs root, as `unshare` does.
#
# usage: packaged_unit_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
. "$(dirname "$0")/systemd_user.sh"

if [ "${2:-}" != inside ]; then
  make_folder packaged
  for component in runtime units; do
    cmake --install "$build" --prefix "$folder/home/.local" --component $component >"$folder/said" 2>&1 ||
      { cat "$folder/said"; exit 1; }
  done
  # Where systemd looks for a user's own packages.
  mkdir -p "$folder/home/.local/share/systemd"
  mv "$folder/home/.local/lib/systemd/user" "$folder/home/.local/share/systemd/user"
  enter "$build"
fi
start_systemd
export STAGELOAD_NO_AUTOSTART=1

ctl=$HOME/.local/bin/stageloadctl
units=(stageloadd.socket stageloadd.service)
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
