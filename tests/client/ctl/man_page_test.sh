#!/usr/bin/env bash
# The manual pages: mandoc and groff have nothing to say against them, and they name each option and key
# that the programs have.
#
# usage: man_page_test.sh STAGELOADCTL STAGELOADD FOLDER
set -euo pipefail
ctl=$1
daemon=$2
pages=$3
fail() {
  echo "FAILED: $*" >&2
  exit 1
}
for tool in mandoc groff; do
  command -v $tool >/dev/null || { echo "skipped: no $tool"; exit 77; }
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$ctl" man-page --template "$pages/stageloadctl.1.in" --output "$folder/stageloadctl.1"
cp "$pages"/*.[15] "$folder"

for page in "$folder"/*; do
  name=$(basename "$page")
  # What is wrong, and not what is said about its style.
  said=$(mandoc -T lint -W warning "$page" 2>&1) || fail "mandoc on $name: $said"
  said=$(groff -ww -mandoc -z "$page" 2>&1) && [ -z "$said" ] || fail "groff on $name: $said"
  # Without the overstriking that makes it bold.
  groff -ww -mandoc -T ascii -P -cbu "$page" >"$folder/$name.txt"
  [ "$(wc -l <"$folder/$name.txt")" -gt 15 ] || fail "$name is empty"
done

# has PAGE WORD...: the page has an item of each word.
has() {
  local page=$1 word
  shift
  [ $# -gt 0 ] || fail "nothing to look for in $page"
  for word in "$@"; do
    grep -qE -- "^     ([^ ]+, )*$word([ ,=]|$)" "$folder/$page.txt" || fail "$page has no $word"
  done
}
# The options in help, at the begin of a line.
options_of() { "$@" --help | sed -n 's/^  \(-[^ ]*\).*/\1/p' | tr , '\n' | sort -u; }

# shellcheck disable=SC2046  # one word each
has stageloadd.1 $(options_of "$daemon")
keys() {
  echo 'no_such_key = 1' >"$folder/config.toml"
  STAGELOAD_HOME=$folder "$daemon" --check-config 2>&1 | sed 's/.*the keys are //' | tr -d ,
}
# shellcheck disable=SC2046
has stageload-config.5 $(keys)
# The page's commands come from the tree of commands, and help does; so a few of them will do.
for command in submit 'daemon install' simulate; do
  grep -q "^   $command$" "$folder/stageloadctl.1.txt" || fail "stageloadctl.1 has no $command"
  # shellcheck disable=SC2046,SC2086
  has stageloadctl.1 $(options_of "$ctl" $command | grep -v -e '^-h$' -e '^--help$')
done
grep -q "man-page\|complete-words" "$folder/stageloadctl.1.txt" && fail "stageloadctl.1 has what help hides"
echo "passed: $(cat "$folder"/*.txt | wc -l) lines"
