#!/usr/bin/env bash
# Checks the arrow of docs/architecture.md on every #include of ours: the linker cannot see a header
# that is taken from a room above. Prints each violation as file:line and exits 1.
#
# usage: check_layers.sh [ROOT]
set -euo pipefail
root=${1:-$(dirname "${BASH_SOURCE[0]}")/..}
cd "$root"

folders=()
for folder in base client daemon; do
  [ -d "$folder" ] && folders+=("$folder")
done
[ ${#folders[@]} -gt 0 ] || {
  echo "check_layers: $PWD has none of base, client, daemon" >&2
  exit 2
}

# shellcheck disable=SC2016  # the program is awk, not shell
find "${folders[@]}" \( -name '*.h' -o -name '*.cc' \) -print0 | sort -z | xargs -0 awk '
  BEGIN {
    # What each room may include, itself aside. "proto" is generated code and its libraries.
    below["base"]      = ""
    below["core"]      = "base"
    below["host"]      = "core base"
    below["jobs"]      = "core base"
    below["store"]     = "core base"
    below["telemetry"] = "core base"
    below["engine"]    = "host jobs store telemetry core base"
    below["rpc"]       = "engine host jobs store telemetry core base proto"
    # main.cc and config.cc: the only place where the parts meet.
    below["daemon"]    = "rpc engine host jobs store telemetry core base"
    below["client"]    = "base proto"
    # The one exception of the design: client/ctl/simulate* and replay* run the rules over a
    # recording. The rest of the client may not get at the rules through them.
    below["client/ctl/simulate"] = "client core base proto"
    for (room in below) {
      allowed[room, room] = 1
      count = split(below[room], names, " ")
      for (i = 1; i <= count; i++) allowed[room, names[i]] = 1
    }
  }

  # The room that a path of ours or an included header belongs to; "" when it is nobody of ours.
  function room_of(path,    parts, count) {
    if (path ~ /\.pb\.h$/ || path ~ /^(grpc|grpcpp|grpc\+\+|google\/protobuf)\//) return "proto"
    if (path ~ /^client\/ctl\/(simulate|replay)[^\/]*$/) return "client/ctl/simulate"
    count = split(path, parts, "/")
    if (parts[1] == "daemon") return count > 2 ? parts[2] : "daemon"
    if (parts[1] == "base" || parts[1] == "client") return parts[1]
    return ""
  }

  /^[ \t]*#[ \t]*include[ \t]*[<"]/ {
    header = $0
    sub(/^[^<"]*[<"]/, "", header)
    sub(/[>"].*$/, "", header)
    from = room_of(FILENAME)
    to = room_of(header)
    if (to == "") next
    if (!(from in below)) {
      printf "%s:%d: daemon/%s is no room that check_layers.sh knows\n", FILENAME, FNR, from
      bad++
    } else if (!((from, to) in allowed)) {
      printf "%s:%d: %s may not include %s (%s)\n", FILENAME, FNR, from, header, to
      bad++
    }
  }

  END { exit (bad > 0) }
' || exit 1
