#!/usr/bin/env bash
# `cmake --install`: completions, manual pages and units lie where shells, man and systemd look for them, and
# the units name the folder that was installed into.
#
# usage: install_test.sh BUILD_FOLDER
set -euo pipefail
build=$1
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
prefix="$folder/50% of it"
install() { cmake --install "$build" --prefix "$1" "${@:2}" >"$folder/said" 2>&1 || fail "$(cat "$folder/said")"; }
for component in runtime zsh units; do install "$prefix" --component $component; done
cd "$prefix"
for file in bin/stageloadctl bin/stageload bin/stageloadd bin/stageload-shim \
  share/bash-completion/completions/stageloadctl share/bash-completion/completions/stageload \
  share/fish/vendor_completions.d/stageloadctl.fish share/fish/vendor_completions.d/stageload.fish \
  share/zsh/site-functions/_stageloadctl share/man/man1/stageloadctl.1 share/man/man1/stageload.1 \
  share/man/man1/stageloadd.1 share/man/man1/stageload-shim.1 share/man/man5/stageload-config.5 \
  share/doc/stageload/LICENSE share/doc/stageload/README.md share/doc/stageload/docs/daemon.md; do
  [ -s "$file" ] || fail "$file is not installed; what is: $(find . -type f)"
done
for shell in bash/bash-completion/completions/stageloadctl zsh/zsh/site-functions/_stageloadctl \
  fish/fish/vendor_completions.d/stageloadctl.fish; do
  bin/stageloadctl completion "${shell%%/*}" | cmp - "share/${shell#*/}" || fail "${shell#*/} is not what is printed"
done
# Where Debian's package has a licence, what is linked in comes with it.
if [ -s /usr/share/doc/libgrpc-dev/copyright ]; then
  [ -s share/doc/stageload/licenses/libgrpc-dev ] || fail "the licence of gRPC is not installed"
fi
# A copy that is moved finds its programs beside each other.
STAGELOAD_HOME=$folder/home bin/stageload --version | grep -qx 'stageload [0-9.]*' || fail "stageload --version"

if [ "$(uname -s)" = Darwin ]; then
  [ ! -e lib/systemd ] || fail "units on macOS"
  exit
fi
cd lib/systemd/user
# systemd reads %% as %.
grep -qxF "ExecStart=\"${prefix//%/%%}/bin/stageloadd\" --service" stageloadd.service || fail "$(cat stageloadd.service)"
grep -qxF 'ListenStream=%t/stageload/stageloadd.sock' stageloadd.socket || fail "$(cat stageloadd.socket)"
grep -q '{{\|daemon install`, which' ./* && fail "not filled in: $(cat ./*)"
grep -q '^Environment' ./* && fail "of one user: $(cat ./*)"
# Staged, they name the place where they will be.
DESTDIR=$folder/stage install /opt/stageload --component units
grep -qxF 'ExecStart="/opt/stageload/bin/stageloadd" --service' \
  "$folder/stage/opt/stageload/lib/systemd/user/stageloadd.service" || fail "DESTDIR"
command -v systemd-analyze >/dev/null || exit 0
said=$(HOME=$folder XDG_RUNTIME_DIR=$folder systemd-analyze --user verify "$PWD"/stageloadd.{service,socket} 2>&1) ||
  fail "systemd-analyze: $said"
[ -z "$said" ] || fail "systemd-analyze says: $said"
