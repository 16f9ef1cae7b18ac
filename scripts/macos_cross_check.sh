#!/usr/bin/env bash
# Compiles everything of ours for macOS on Apple silicon and on Intel, on Linux and with warnings as
# errors, and links it: what needs no library but libSystem whole, the rest with the symbols of those
# libraries left open. Quick when nothing has changed.
#
# usage: macos_cross_check.sh [--quick] [--self-test]
#   --quick      leaves out the tests that are not linked whole, and for Intel the programs, too
#   --self-test  afterwards, puts mistakes in to see that it would fail
#
# It installs a cross compiler and the source of Abseil into build/macos, by pip and by apt-get,
# the latter from Debian's or Ubuntu's own source package.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

quick=
self_test=
for option in "$@"; do
  case $option in
    --quick) quick=yes ;;
    --self-test) self_test=yes ;;
    --help | -h)
      sed -n '2,/^set /{/^#/s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
      exit 0
      ;;
    *)
      echo "macos_cross_check: $option is no option of it" >&2
      exit 2
      ;;
  esac
done
if [ "$(uname -s)" != Linux ]; then
  echo "== macOS: cross check left out: it is for Linux; elsewhere the build itself is the check"
  exit 0
fi

into=$PWD/build/macos
architectures=(arm64 x86_64)
oldest_macos=13.0
# No symbol of these may be open.
complete=(stageload-shim stageload-load stageload-probe base_test core_test darwin_host_test
  darwin_jobs_test jobs_test job_files_test load_test log_test probe_test process_test)
cores=$(getconf _NPROCESSORS_ONLN)

die() {
  echo "macos_cross_check: $*" >&2
  exit 1
}

# --- the compiler -----------------------------------------------------------------------------------
install_zig() {
  # Also when this script has changed: it writes the tools.
  if [ "$into/tools.installed" -nt "${BASH_SOURCE[0]}" ] &&
    cmp -s scripts/macos_zig.txt "$into/tools.installed"; then
    return
  fi
  if ! cmp -s scripts/macos_zig.txt "$into/tools.installed"; then
    echo "== macOS: installing the cross compiler"
    rm -rf "$into/zig" "$into/tools.installed"
    mkdir -p "$into"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
      --no-deps --only-binary :all: \
      --require-hashes --requirement scripts/macos_zig.txt --target "$into/zig"
    chmod +x "$into/zig/ziglang/zig"
  fi
  local arch
  for arch in "${architectures[@]}"; do make_tools "$arch"; done
  cp scripts/macos_zig.txt "$into/tools.installed"
}

# Programs with the names that CMake wants. To compile, they call zig's clang themselves, with what
# zig would give it: without the debug information and the instructions of this year's chips that zig
# adds, and with -fsyntax-only, which it does not know.
make_tools() {  # make_tools ARCHITECTURE
  local folder=$into/$1 zig=$into/zig/ziglang/zig target tool
  target=-target\ ${1/arm64/aarch64}-macos.$oldest_macos
  mkdir -p "$folder"
  for tool in ar ranlib; do
    printf '#!/bin/sh\nexec "%s" %s "$@"\n' "$zig" "$tool" >"$folder/$tool"
  done
  for tool in cc c++; do
    (
      cd "$into"  # zig says paths that are relative to where it is
      : >"$folder/empty.${tool/cc/c}"
      # shellcheck disable=SC2086  # two words
      ZIG_GLOBAL_CACHE_DIR=$folder/cache ZIG_VERBOSE_CC=1 "$zig" "$tool" $target \
        -c "$folder/empty.${tool/cc/c}" -o "$folder/empty.o" 2>&1 | tr ' ' '\n' |
        awk -v into="$into/" '
          last == "-target" { print }
          last == "-isystem" { print (/^\// ? "" : into) $0 }
          /^-(target|isystem|nostdinc|nostdinc\+\+|mmacos-version-min=.*|D_LIB.*)$/ { print }
          { last = $0 }
          END { print "-Wno-unused-command-line-argument" }' >"$folder/$tool.flags"
      rm -rf "$folder/cache" "$folder"/empty.*
    )
    cat >"$folder/$tool" <<EOF
#!/bin/sh
# Compiles with zig's clang, links with zig. With -DSTAGELOAD_SYNTAX_ONLY it only looks for mistakes,
# and what it makes is empty.
for word; do
  case \$word in
    -c | -E | -x) compile=yes ;;
    -DSTAGELOAD_SYNTAX_ONLY) look=yes ;;
  esac
  [ "\$last" != -o ] || out=\$word
  last=\$word
done
case \${compile-link}\${look-} in
  link) exec "$zig" $tool $target "\$@" ;;
  yes) exec "$zig" clang @"$folder/$tool.flags" "\$@" ;;
  yesyes) "$zig" clang @"$folder/$tool.flags" -fsyntax-only "\$@" && : >"\$out" ;;
  linkyes) : >"\$out" ;;
esac
EOF
  done
  chmod +x "$folder"/{ar,ranlib,cc,c++}
}

# --- Abseil -----------------------------------------------------------------------------------------
# The source package of the very libabsl-dev whose headers gRPC's headers are used with. Many machines
# have no lists of source packages, so it asks with lists of its own, made from the machine's.
install_abseil() {
  local package keyring lists=$into/apt
  # shellcheck disable=SC2016  # the fields are dpkg's
  package=$(dpkg-query -W -f '${source:Package}=${source:Version}' libabsl-dev) ||
    die "libabsl-dev is not installed; run scripts/install_dependencies.sh"
  if [ "$(cat "$into/abseil.installed" 2>/dev/null)" = "$package" ]; then return; fi
  echo "== macOS: fetching the source of $package"
  rm -rf "$into/abseil" "$into/abseil.installed" "$lists"
  mkdir -p "$into/abseil" "$lists"/{parts,lists/partial,cache/archives/partial}
  for keyring in /usr/share/keyrings/{debian,ubuntu}-archive-keyring.gpg; do
    [ ! -e "$keyring" ] || break
  done
  # shellcheck disable=SC2016  # the fields are apt-get's
  apt-get indextargets --format '$(ORIGIN) $(REPO_URI) $(RELEASE) $(COMPONENT)' \
    'Identifier: Packages' | sort -u |
    sed -nE "s#^(Debian|Ubuntu) #deb-src [signed-by=$keyring] #p" >"$lists/sources.list"
  [ -s "$lists/sources.list" ] || die "apt-get knows no lists of Debian or Ubuntu: run apt-get update"
  (
    cd "$lists"
    options=(-q -o Dir::Etc::SourceList="$lists/sources.list" -o Dir::Etc::SourceParts="$lists/parts"
      -o Dir::State::Lists="$lists/lists" -o Dir::Cache="$lists/cache" -o APT::Sandbox::User=root)
    apt-get "${options[@]}" update
    apt-get "${options[@]}" source --download-only "$package"
  ) >"$lists/log" 2>&1 || {
    cat "$lists/log" >&2
    die "the source of $package cannot be had"
  }
  tar -xf "$lists"/*.orig.tar.* -C "$into/abseil" --strip-components=1
  echo "$package" >"$into/abseil.installed"
}

# --- building ---------------------------------------------------------------------------------------
# Programs have no ending in their names, and nothing else in these folders is executable. An empty
# one was only looked through.
programs_of() {  # programs_of ARCHITECTURE
  find "build/macos-$1" -mindepth 2 -maxdepth 2 -regex '.*/\(bin\|tests\|bench\)/[^/.]*' \
    -type f -perm -u+x -size +0 | sort
}
build() {  # build ARCHITECTURE
  echo "== macOS: building for $1"
  local targets=() programs
  if [ -n "$quick" ]; then
    targets=("${complete[@]}")
    [ "$1" = x86_64 ] || targets+=(stageloadd stageloadctl)
  fi
  cmake --preset "macos-$1" -DSTAGELOAD_TESTS=ON >"$into/configure-$1.log" 2>&1 || {
    cat "$into/configure-$1.log" >&2
    die "cannot configure for $1"
  }
  cmake --build --preset "macos-$1" --parallel "$cores" ${targets[@]+--target "${targets[@]}"}
  mapfile -t programs < <(programs_of "$1")
  if [ -n "$quick" ]; then  # what is left of another run may be old
    mapfile -t programs < <(printf '%s\n' "${programs[@]}" |
      grep -E "/($(IFS='|' && echo "${targets[*]}"))\$")
  fi
  ./scripts/macos_open_symbols.py "${complete[@]/#/--complete=}" "${programs[@]}"
}

# --- what it would find -----------------------------------------------------------------------------
# A source with a mistake is compiled as the build compiles it, and has to be refused for that mistake.
expect_refused() {  # expect_refused SOURCE SED-SCRIPT TEXT-OF-THE-ERROR
  local wrong=$into/mistake/$1 command
  mkdir -p "$(dirname "$wrong")"
  sed "$2" "$1" >"$wrong"
  ! cmp -s "$1" "$wrong" || die "self-test: nothing of $1 matches $2"
  command=$(jq -r --arg file "$PWD/$1" \
    'map(select(.file == $file))[0] | .command | sub(" -o .*"; "")' build/macos-arm64/compile_commands.json)
  if (cd build/macos-arm64 && CCACHE_DISABLE=1 sh -c "$command -o /dev/null -c '$wrong'") \
    >"$into/mistake/log" 2>&1; then
    die "self-test: $1 was compiled with $2"
  fi
  grep -q -- "$3" "$into/mistake/log" || {
    cat "$into/mistake/log" >&2
    die "self-test: $1 with $2 was refused for another reason"
  }
  echo "refused as it should be: $1 with $2"
}
# A program for which something of ours is missing.
expect_open_symbol() {
  local program=$into/mistake/program
  echo 'namespace stageload { void Missing(); } int main() { stageload::Missing(); }' >"$program.cc"
  "$into/arm64/c++" -c "$program.cc" -o "$program.o"
  "$into/arm64/c++" "$program.o" -o "$program" -Wl,-undefined,dynamic_lookup
  if ./scripts/macos_open_symbols.py "$program" 2>"$into/mistake/log"; then
    die "self-test: a program was taken that lacks something of ours"
  fi
  echo "refused as it should be: $(cat "$into/mistake/log")"
}
run_self_test() {
  echo "== macOS: putting mistakes in"
  expect_refused daemon/host/darwin_processes.cc s/ri_phys_footprint/ri_phys_footprints/ \
    "no member named 'ri_phys_footprints'"
  expect_refused daemon/jobs/darwin_kernel_darwin.cc 's/NOTE_EXIT;/NOTE_EXITED;/' \
    "undeclared identifier 'NOTE_EXITED'"
  expect_refused daemon/rpc/peer.cc s/LOCAL_PEERPID,/LOCAL_PEER_PID,/ "identifier 'LOCAL_PEER_PID'"
  expect_open_symbol
  rm -r "$into/mistake"
}

install_zig
install_abseil
for arch in "${architectures[@]}"; do build "$arch"; done
for arch in "${architectures[@]}"; do
  echo "== macOS: linked whole for $arch"
  for program in "${complete[@]}"; do
    file "$(find "build/macos-$arch"/{bin,tests} -maxdepth 1 -name "$program")"
  done
done
[ -z "$self_test" ] || run_self_test
