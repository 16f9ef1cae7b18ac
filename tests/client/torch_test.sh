#!/usr/bin/env bash
# The public header torch.h with the libtorch of this machine: compiled, linked and run.
#
# usage: torch_test.sh COMPILER PROJECT_FOLDER FOLDER_OF_LIBTORCH'S_API FOLDER_OF_LIBTORCH.SO [OPTION...]
set -euo pipefail
compiler=$1 project=$2 api=$3 libraries=$4
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
# libtorch's own headers are two folders: <torch/torch.h>, and what it includes as <ATen/...>, which is
# the compiler's own folder where a distribution packages it.
root=${api%/torch/csrc/api/include}
[ "$root" = /usr/include ] && root=$api
"$compiler" -std=c++20 -O1 -Wall -Wextra -Werror "${@:5}" -I "$project/client/include" \
  -isystem "$api" -isystem "$root" "$project/tests/client/torch_test.cc" \
  -o "$out/torch_test" -L "$libraries" -Wl,-rpath,"$libraries" -lgtest -lgtest_main -ltorch \
  -ltorch_cpu -lc10 -lpthread
"$out/torch_test"
