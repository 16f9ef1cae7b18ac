#!/usr/bin/env bash
# Builds the Python package's wheel and tests it against the daemon of the release preset, which must be
# built: mypy --strict, ruff, pytest with the newest grpcio and protobuf, and pytest with the oldest that
# the package claims, on Python 3.9 where there is one. Everything is made in build/python.
#
# usage: python_test.sh [--quick] [PYTEST OPTION...]
#   --quick   not with the oldest, which is left out also where Python is newer than 3.11
# Tests of release() need a torch: Debian's python3-torch, which is installed if it is missing, or the
# wheel on a Mac. Elsewhere they are skipped, unless the python3 that is found has one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ "${1:-}" = --help ] || [ "${1:-}" = -h ]; then
  sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
  exit 0
fi
oldest=true
if [ "${1:-}" = --quick ]; then
  oldest=false
  shift
fi

project=$PWD
package=$project/client/python
out=$project/build/python
# Of pyproject.toml.
oldest_versions=(grpcio==1.51.1 protobuf==4.21.6)
# Most tests wait for a process of theirs, not for a core.
side_by_side=4

# Debian's own python is the one that sees Debian's torch.
python=python3
install_torch() {
  [ -r /etc/os-release ] && [ "$(. /etc/os-release && echo "$ID")" = debian ] || return 0
  python=/usr/bin/python3
  "$python" -c 'import torch' 2>/dev/null && return 0
  local root=()
  [ "$(id -u)" = 0 ] || root=(sudo)
  echo "== installing python3-torch"
  ${root[@]+"${root[@]}"} apt-get update -q
  ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends python3-torch python3-venv
}

# Makes build/python/NAME and installs what is named, unless that was done already.
make_venv() {  # make_venv NAME PYTHON REQUIREMENT...
  local venv=$out/$1 stamp
  stamp=$("$2" -c 'import sys; print(sys.version)'; echo "${@:3}"; cat "$package/pyproject.toml")
  if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$stamp" ]; then
    echo "== making $venv"
    rm -rf "$venv"
    local seen=()
    [ "$1" = venv ] && seen=(--system-site-packages)
    "$2" -m venv ${seen[@]+"${seen[@]}"} "$venv"
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --upgrade pip
    "$venv/bin/python" -m pip install -q --disable-pip-version-check --upgrade "${@:3}"
    echo "$stamp" >"$venv/stamp"
  fi
}

requirements() {  # requirements EXTRA: of pyproject.toml
  sed -n "/^$1 = \[/,/^\]/p" "$package/pyproject.toml" | grep -o '"[^"]*"' | tr -d '"'
}

test_wheel() {  # test_wheel VENV [PYTEST OPTION...]
  local bin=$out/$1/bin
  "$bin/python" -m pip install -q --disable-pip-version-check --no-deps --force-reinstall \
    "$out"/dist/*.whl
  echo "== pytest on $("$bin/python" -c 'import sys, grpc, google.protobuf as p
print("Python", sys.version.split()[0], "grpcio", grpc.__version__, "protobuf", p.__version__)')"
  (cd "$package/tests" && STAGELOAD_BIN=$project/build/release/bin "$bin/python" -m pytest -q \
    -n "$side_by_side" -p no:cacheprovider --rootdir "$package/tests" -c "$package/pyproject.toml" \
    . "${@:2}")
}

if [ ! -x build/release/bin/stageloadd ]; then
  echo "python_test: build the programs first: ./scripts/quickstart.sh or ./scripts/test.sh" >&2
  exit 1
fi
mkdir -p "$out"
install_torch
new_requirements=()
while IFS= read -r one; do new_requirements+=("$one"); done < <(requirements test; requirements check)
[ "$(uname -s)" = Darwin ] && new_requirements+=(torch)
make_venv venv "$python" grpcio protobuf "${new_requirements[@]}"
bin=$out/venv/bin

echo "== ruff"
(cd "$package" && "$bin/ruff" check -q --no-cache . && "$bin/ruff" format -q --no-cache --check .)

echo "== building the wheel"
rm -rf "$out/dist" "$out/wheel"
"$bin/python" -m build --no-isolation --outdir "$out/dist" "$package" >"$out/build.log" 2>&1 || {
  cat "$out/build.log"
  exit 1
}
ls "$out/dist"
"$bin/python" -m zipfile -l "$out"/dist/*.whl | grep 'licenses/LICENSE ' >/dev/null || {
  echo "python_test: the wheel has no LICENSE" >&2
  exit 1
}

echo "== mypy"
"$bin/python" -m zipfile -e "$out"/dist/*.whl "$out/wheel"
(cd "$out/wheel" && "$bin/mypy" --config-file "$package/pyproject.toml" --cache-dir "$out/mypy" \
  stageload_client "$package/tests" "$package/setup.py")

test_wheel venv "$@"
if $oldest; then
  # The oldest grpcio has wheels for these only.
  old_python=
  for one in python3.9 python3.10 python3.11 "$python"; do
    if "$one" -c 'import sys; sys.exit(sys.version_info >= (3, 12))' 2>/dev/null; then
      old_python=$one
      break
    fi
  done
  if [ -z "$old_python" ]; then
    echo "== left out: ${oldest_versions[*]} need Python 3.9, 3.10 or 3.11, and there is none here"
    exit 0
  fi
  old_requirements=()
  while IFS= read -r one; do old_requirements+=("$one"); done < <(requirements test)
  make_venv oldest "$old_python" "${oldest_versions[@]}" "${old_requirements[@]}"
  test_wheel oldest "$@"
fi
