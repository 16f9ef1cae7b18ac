#!/usr/bin/env bash
# Lints proto/ by the rules in proto/buf.yaml. buf comes from PATH, else from npm at a fixed version;
# where there is neither, it says so and leaves the check out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../proto"

buf_from_npm=@bufbuild/buf@1.50.0

if command -v buf >/dev/null; then
  buf lint
elif ! command -v npx >/dev/null; then
  echo "== proto lint left out: neither buf nor npx is on PATH"
  exit 0
elif ! npx --yes "$buf_from_npm" --version >/dev/null 2>&1; then
  echo "== proto lint left out: buf is not on PATH and npm cannot fetch $buf_from_npm"
  exit 0
else
  npx --yes "$buf_from_npm" lint
fi
echo "== proto lint: clean"
