#!/usr/bin/env bash
# Homebrew's formula: ruby takes it, each program that it names is installed where it says, and
# nothing that is installed for running is left unnamed.
#
# usage: formula_test.sh BUILD_FOLDER FORMULA
set -euo pipefail
build=$1
formula=$2
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

command -v ruby >/dev/null || {
  echo "skipped: no ruby"
  exit 77
}
ruby -wc "$formula" >/dev/null || fail "ruby -c"

# Homebrew's own words, in so far as this formula uses them, that write down what they are given.
said=$(ruby - "$formula" <<'RUBY'
class Place
  def initialize(name) = @name = name
  def /(other) = Place.new("#{@name}/#{other}")
  def to_s = @name
end
class Formula
  def self.method_missing(name, *words, **) = nil
  def self.test = nil # else Kernel#test
  def self.respond_to_missing?(*) = true
  def self.service(&block) = (@@service = block)
  def self.said = Service.new.instance_eval(&@@service)
  # What the formula itself installs, beside what CMake does.
  def std_cmake_args = []
  def system(*) = nil
  def bin = Place.new("bin")
  def generate_completions_from_executable(program, *words, shells:)
    shells.each { |shell| puts("completion #{shell}: #{program} #{words.join(" ")} #{shell}") }
  end
end
class Service
  def opt_bin = Place.new("bin")
  def var = Place.new("var")
  def std_service_path_env = "PATH"
  def run(words) = puts("run #{words.join(" ")}")
  def keep_alive(value) = puts("keep_alive #{value}")
  def process_type(value) = puts("process_type #{value}")
  def environment_variables(**) = nil
  def error_log_path(_) = nil
end
load ARGV[0]
Stageload.said
Stageload.new.install
RUBY
)
grep -qx "run bin/stageloadd --service" <<<"$said" || fail "the service runs: $said"
grep -qx "keep_alive true" <<<"$said" || fail "the service is not kept alive: $said"
# Jobs inherit it (docs/daemon.md).
grep -qx "process_type interactive" <<<"$said" || fail "jobs would be throttled: $said"

grep -qx "completion bash: bin/stageloadctl completion bash" <<<"$said" || fail "no completion for bash: $said"
# Manual pages and completions that its test looks for.
for file in $(grep -oE '(man[15]|zsh_completion)/"[^"]*"' "$formula" | tr -d '"'); do
  grep -q "/${file#*/}\"" "$build/cmake_install.cmake" || fail "${file#*/} is not installed"
done

# What CMake installs, by its own script: nothing has to be built for that.
installed=$(grep -ho '"[^"]*/bin/stageload[a-z-]*"' "$build/cmake_install.cmake" | tr -d '"' |
  sed 's|.*/bin/|bin/|' | sort -u)
for program in $(grep -o 'bin/"[a-z-]*"' "$formula" | tr -d '"' | sed 's|^opt_||' | sort -u) \
  $(grep -o '#{bin}/[a-z-]*' "$formula" | sed 's|#{bin}|bin|' | sort -u); do
  grep -qx "$program" <<<"$installed" || fail "$program is not installed; what is: $installed"
done
for program in bin/stageloadd bin/stageloadctl bin/stageload-shim; do
  grep -q "${program#bin/}" "$formula" || fail "$program is installed and not tested by the formula"
done
