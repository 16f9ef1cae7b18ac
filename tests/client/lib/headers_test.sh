#!/usr/bin/env bash
# Each public header compiles alone with nothing but the public folder, and pulls in nothing but the
# standard library and its like: no type of gRPC, protobuf or Abseil, and none of ours.
#
# usage: headers_test.sh COMPILER INCLUDE_FOLDER
set -euo pipefail
compiler=$1
include=$2
checked=0
for header in "$include"/stageload/*.h; do
  # Of libtorch, and no part of the library: tests/client/torch_test.sh.
  [ "${header##*/}" = torch.h ] && continue
  for name in $(sed -n 's/^[ \t]*#[ \t]*include[ \t]*\([<"][^>"]*[>"]\).*/\1/p' "$header"); do
    case $name in
      \"stageload/*.h\") ;;
      \<*[./]* | \"*) echo "FAILED: ${header##*/} includes $name" >&2; exit 1 ;;
    esac
  done
  "$compiler" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -I "$include" \
    -x c++ "$header" || {
    echo "FAILED: ${header##*/} does not compile alone" >&2
    exit 1
  }
  checked=$((checked + 1))
done
[ "$checked" -ge 4 ] || { echo "FAILED: only $checked headers in $include/stageload" >&2; exit 1; }
echo "$checked public headers stand alone"
