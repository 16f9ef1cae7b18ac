#!/usr/bin/env bash
# Installs what the build and the tests need and this machine lacks: apt-get on Debian 12 and Ubuntu
# 24.04 or newer, Homebrew on macOS. Asks for nothing and touches nothing when all is there.
# docs/dependencies.md says what each is for.
#
# usage: install_dependencies.sh [PACKAGE...]   also these, whose names are the same everywhere
set -euo pipefail

debian_packages=(
  g++ cmake ninja-build ccache mold pkg-config
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev libabsl-dev libre2-dev
  libspdlog-dev libsqlitecpp-dev libsqlite3-dev libcli11-dev libtomlplusplus-dev
  nlohmann-json3-dev libncurses-dev libgtest-dev libgmock-dev libbenchmark-dev tmux gnuplot-nox jq
  file python3 python3-venv ruby systemd zsh fish mandoc groff-base dpkg-dev
)
brew_formulae=(
  cmake ninja ccache pkgconf
  grpc protobuf abseil re2
  spdlog sqlitecpp sqlite cli11 tomlplusplus
  nlohmann-json googletest google-benchmark tmux gnuplot jq fish groff
)

debian_packages+=(${@+"$@"})
brew_formulae+=(${@+"$@"})

die() {
  echo "install_dependencies: $*" >&2
  exit 1
}

install_with_apt() {
  local missing=() package
  # Debian's conflict with a node from elsewhere, so one that is there is taken as it is.
  command -v node >/dev/null || debian_packages+=(nodejs)
  command -v npm >/dev/null || debian_packages+=(npm)
  python3 -m pip --version >/dev/null 2>&1 || debian_packages+=(python3 python3-pip)
  for package in "${debian_packages[@]}"; do
    if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
      missing+=("$package")
    fi
  done
  [ ${#missing[@]} -eq 0 ] && return

  local root=()
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
      die "these packages are missing and only root may install them: ${missing[*]}"
    root=(sudo)
  fi
  echo "== installing ${missing[*]}"
  # The ${array[@]+...} form: an empty array is an unset variable to bash 3.2 and 4.3 under set -u.
  ${root[@]+"${root[@]}"} apt-get update -q
  ${root[@]+"${root[@]}"} env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -q --no-install-recommends "${missing[@]}"
}

install_with_brew() {
  command -v brew >/dev/null ||
    die "Homebrew is needed to install ${brew_formulae[*]}; see https://brew.sh"
  local installed missing=() formula
  command -v npm >/dev/null || brew_formulae+=(node)
  installed=$(brew list --formula -1)
  for formula in "${brew_formulae[@]}"; do
    grep -qx "$formula" <<<"$installed" || missing+=("$formula")
  done
  [ ${#missing[@]} -eq 0 ] && return
  echo "== installing ${missing[*]}"
  brew install "${missing[@]}"
}

if [ "$(uname -s)" = Darwin ]; then
  install_with_brew
elif command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
  install_with_apt
else
  die "only Debian, Ubuntu and macOS are known here. Install what these packages hold and build with" \
    "'cmake --preset release && cmake --build build/release': ${debian_packages[*]}"
fi
