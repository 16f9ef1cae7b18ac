# Sourced by tests that need a real `systemd --user`, which runs in namespaces of its own: process
# numbers, mounts and cgroups. Needs root, as `unshare` does.
systemd=/lib/systemd/systemd
skip() {
  echo "skipped: $*"
  exit 77
}
fail() {
  echo "FAILED: $*" >&2
  tail -n 40 "$folder/log" "$HOME"/.local/state/stageload/log/stageloadd.log >&2 || true
  exit 1
}

# make_folder NAME: $folder, for as long as the test runs outside
make_folder() {
  [ "$(id -u)" = 0 ] || skip "only root can unshare here"
  [ -x $systemd ] && command -v systemctl >/dev/null || skip "no systemd"
  command -v jq >/dev/null || skip "no jq"
  unshare --fork --pid --mount --cgroup --mount-proc true 2>/dev/null || skip "unshare is refused"
  folder=$(mktemp -d "/tmp/sl-$1.XXXXXX")
  trap 'rm -rf "$folder"' EXIT
}
# enter ARGUMENT: runs the test again, inside, with a second argument that says so
enter() {
  # The end of its first process is the end of all in it.
  SL_FOLDER=$folder unshare --fork --pid --kill-child --mount --cgroup --mount-proc "$0" "$1" inside
  exit
}

# Inside: a user manager for the home $folder/home.
start_systemd() {
  folder=$SL_FOLDER
  mount --make-rprivate /
  umount -R /sys/fs/cgroup 2>/dev/null || true
  mount -t cgroup2 cgroup2 /sys/fs/cgroup || skip "no cgroup2"
  mount -t tmpfs tmpfs /run
  mkdir -p /run/systemd/system "$folder/run" "$folder/home" # without the first, "not booted with systemd"
  chmod 700 "$folder/run"
  unset "${!STAGELOAD_@}" XDG_CONFIG_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS
  export XDG_RUNTIME_DIR=$folder/run HOME=$folder/home
  $systemd --user --unit=basic.target >"$folder/log" 2>&1 &
  for _ in $(seq 100); do
    systemctl --user is-system-running >/dev/null 2>&1 && break
    sleep 0.1
  done
  systemctl --user is-system-running >/dev/null || skip "systemd --user does not run: $(tail -n 3 "$folder/log")"
}
