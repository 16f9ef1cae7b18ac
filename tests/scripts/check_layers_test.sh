#!/usr/bin/env bash
# check_layers.sh on a small tree: silent while the arrow holds, and naming file and line of each
# include that breaks it.
#
# usage: check_layers_test.sh PATH_TO_CHECK_LAYERS
set -euo pipefail
check=$1
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

write() {  # write PATH LINE...
  mkdir -p "$tree/$(dirname "$1")"
  printf '%s\n' "${@:2}" >"$tree/$1"
}
fail() {
  echo "FAILED: $*" >&2
  exit 1
}

write base/units.h '#include <cstdint>'
write daemon/core/job.h '#include "base/units.h"' '#include "absl/time/time.h"'
write daemon/host/host.h '#include "daemon/core/job.h"'
write daemon/engine/engine.cc '#include "daemon/engine/engine.h"' '#include "daemon/host/host.h"'
write daemon/rpc/job_service.cc '#include <grpcpp/grpcpp.h>' '#include "stageload/v1/job.pb.h"' \
  '#include "daemon/engine/engine.h"'
write daemon/main.cc '#include "daemon/rpc/server.h"'
write client/ctl/main.cc '#include "client/ctl/print.h"' '#include "stageload/v1/job.pb.h"'
write client/ctl/simulate.cc '#include "client/ctl/replay.h"' '#include "stageload/v1/job.pb.h"'
write client/ctl/simulate_sweep.h '#include "daemon/core/policy.h"'
write client/ctl/replay.cc '#include "daemon/core/scheduler.h"' '#include "base/trace.h"'
printed=$("$check" "$tree") || fail "a tree in order was refused: $printed"
[ -z "$printed" ] || fail "a tree in order made it say: $printed"

write base/text.cc '#include "daemon/core/job.h"'
write daemon/core/scheduler.cc '' '  #  include "daemon/engine/engine.h"'
write daemon/host/linux.cc '#include "daemon/jobs/jobs.h"'
write daemon/store/store.cc '#include "stageload/v1/job.pb.h"'
write daemon/engine/frame.cc '#include <google/protobuf/message.h>'
write daemon/telemetry/hub.cc '#include <grpcpp/server.h>'
write client/ctl/queue.cc '#include "daemon/core/job.h"'
write client/ctl/simulate_print.cc '#include "daemon/engine/engine.h"'
write client/ctl/replay.h '#include "daemon/store/store.h"'
write client/lib/simulate.cc '#include "daemon/core/job.h"'
write client/ctl/show.cc '#include "client/ctl/replay.h"'
write daemon/attic/old.cc '#include "base/units.h"'
if printed=$("$check" "$tree"); then fail "a tree with twelve violations passed"; fi
for place in base/text.cc:1 daemon/core/scheduler.cc:2 daemon/host/linux.cc:1 \
  daemon/store/store.cc:1 daemon/engine/frame.cc:1 daemon/telemetry/hub.cc:1 client/ctl/queue.cc:1 \
  daemon/attic/old.cc:1 client/ctl/simulate_print.cc:1 client/ctl/replay.h:1 \
  client/lib/simulate.cc:1 client/ctl/show.cc:1; do
  grep -q "^$place: " <<<"$printed" || fail "$place is not named in: $printed"
done
lines=$(wc -l <<<"$printed")
[ "$lines" -eq 12 ] || fail "twelve violations, but $lines lines: $printed"
echo "check_layers.sh finds what it should and nothing else"
