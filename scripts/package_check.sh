#!/usr/bin/env bash
# Builds the packages, and installs Debian's in a clean Debian 12 that debootstrap makes: manual pages, units
# and completions are there, a command runs, and a purge leaves nothing but what is the user's. As root on
# Debian 12; the first run takes some minutes and 500 MiB of build/package, later ones half a minute.
#
# usage: package_check.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
fi
die() {
  echo "package_check: $*" >&2
  exit 1
}
[ "$(uname -s)" = Linux ] || die "only on Linux: macOS has no .deb"
[ "$(id -u)" = 0 ] || die "only root may make and enter another root; try: sudo $0"
if ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || die "debootstrap is missing; install it and try again"
  apt-get update -q
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends debootstrap
fi

folder=$PWD/build/package
clean=$folder/clean # as debootstrap makes it
root=$folder/root   # a copy, for this run
echo "== building"
# Not the release preset's folder: cpack builds all that there is, and that has no tests.
cmake -S . -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSTAGELOAD_TESTS=OFF \
  '-DCMAKE_CXX_FLAGS_RELWITHDEBINFO=-O2 -g1 -DNDEBUG' >"$folder.log" || { cat "$folder.log"; exit 1; }
cmake --build "$folder" --parallel "$(getconf _NPROCESSORS_ONLN)" >"$folder.log" ||
  { tail -n 40 "$folder.log"; exit 1; }
rm -rf "$folder/packages" "$folder.log"
(cd "$folder" && cpack >cpack.log) || { cat "$folder/cpack.log"; exit 1; }
packages=("$folder"/packages/stageload_*.deb)
[ ${#packages[@]} = 1 ] && [ -e "${packages[0]}" ] || die "cpack made no stageload_*.deb; is dpkg-dev installed?"

if [ ! -e "$clean.made" ]; then
  echo "== making a clean Debian 12 in $clean"
  rm -rf "$clean"
  mkdir -p "$clean"
  # With a reader of manual pages and what reads units, which a package does not bring along.
  debootstrap --variant=minbase --include=man-db,systemd bookworm "$clean" >"$folder/debootstrap.log" ||
    { tail -n 20 "$folder/debootstrap.log"; exit 1; }
  touch "$clean.made"
fi
trap 'rm -rf --one-file-system "$root"' EXIT
rm -rf --one-file-system "$root"
cp -a "$clean" "$root"
cp "${packages[0]}" "$root/stageload.deb"
cp /etc/resolv.conf "$root/etc/resolv.conf"

# Mounts and processes are in namespaces of their own, and so end with the script, however it ends.
# shellcheck disable=SC2016  # expanded inside
ROOT=$root unshare --mount --pid --fork --kill-child bash -euo pipefail -c '
  mount --rbind /dev "$ROOT/dev"
  mount -t proc proc "$ROOT/proc"
  mount -t tmpfs tmpfs "$ROOT/run"
  exec chroot "$ROOT" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive bash -euo pipefail -s
' <<'INSIDE'
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
quietly() { "$@" >/tmp/said 2>&1 </dev/null || { cat /tmp/said; fail "$*"; }; }
as_user() { setpriv --reuid user --regid user --init-groups env HOME=/home/user XDG_RUNTIME_DIR=/run/user "$@" </dev/null; }
# What apt and its like keep for themselves is not the package's.
files() {
  find / -xdev \( -path /proc -o -path /run -o -path /tmp -o -path /var/lib/dpkg -o -path /var/lib/apt -o \
    -path /var/cache -o -path /var/log -o -path /dev \) -prune -o -print | LC_ALL=C sort
}
quietly apt-get update -q
quietly useradd --create-home user
mkdir -m 700 /run/user
chown user:user /run/user
files >/tmp/before

echo "== installing"
quietly apt-get install -y -q --no-install-recommends /stageload.deb
echo "== manual pages, units, completions"
for page in 1/stageloadctl 1/stageload 1/stageloadd 1/stageload-shim 5/stageload-config; do
  as_user man --pager=cat "${page%/*}" "${page#*/}" >/tmp/page 2>/tmp/said || fail "man $page: $(cat /tmp/said)"
  [ ! -s /tmp/said ] || fail "man $page says: $(cat /tmp/said)"
  [ "$(wc -l </tmp/page)" -gt 15 ] || fail "man $page: $(cat /tmp/page)"
done
as_user man --pager=cat 1 stageloadctl | grep -q -- --swap-budget || fail "no option in man stageloadctl"
units=(/usr/lib/systemd/user/stageloadd.service /usr/lib/systemd/user/stageloadd.socket)
as_user systemd-analyze --user verify "${units[@]}" >/tmp/said 2>&1 || fail "verify: $(cat /tmp/said)"
[ ! -s /tmp/said ] || fail "verify says: $(cat /tmp/said)"
grep -qx 'ExecStart="/usr/bin/stageloadd" --service' "${units[0]}" || fail "ExecStart: $(cat "${units[0]}")"
grep -qx 'ListenStream=%t/stageload/stageloadd.sock' "${units[1]}" || fail "ListenStream: $(cat "${units[1]}")"
for unit in stageloadd.service stageloadd.socket; do
  [ "$(as_user systemctl --user --root=/ is-enabled "$unit" 2>/dev/null)" = disabled ] || fail "$unit is not off"
done
bash -c 'source /usr/share/bash-completion/completions/stageload && complete -p stageload' >/dev/null ||
  fail "no completion for bash"
for file in fish/vendor_completions.d/stageload.fish zsh/vendor-completions/_stageloadctl doc/stageload/copyright; do
  [ -s "/usr/share/$file" ] || fail "no /usr/share/$file"
done

echo "== a command"
as_user timeout 120 stageloadctl run -- true || fail "stageloadctl run -- true: exit code $?"
as_user timeout 120 stageloadctl run -- sh -c 'exit 7' && fail "exit code 0 of a command that exits with 7"
as_user stageloadctl queue --all
as_user stageloadctl version
[ "$(as_user stageloadctl version --json | grep -c '"0\.')" -ge 2 ] || fail "no version of the daemon"
# A service would be in its way: it belongs to the user, who ends it.
as_user stageloadctl daemon stop

echo "== purging"
quietly apt-get purge -y -q stageload
quietly apt-get autoremove --purge -y -q
files >/tmp/after
LC_ALL=C comm -3 /tmp/before /tmp/after >/tmp/differ
grep -q '/home/user/.local/state/stageload' /tmp/differ || fail "the user's own data are gone"
grep -v '/home/user/.local' /tmp/differ && fail "left or gone after the purge"
echo "passed: $(grep -c . /tmp/differ) files are left, all of them the user's"
INSIDE
for package in "$folder"/packages/*.*; do echo "made $(du -h --apparent-size "$package" | tr '\t' ' ')"; done
