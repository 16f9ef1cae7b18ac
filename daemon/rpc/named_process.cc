#include "daemon/rpc/named_process.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"

namespace stageload::rpc {
namespace {

constexpr int kMaxDepth = 64;  // of a process tree; a table in motion could show a loop

}  // namespace

absl::Status CheckMayName(const Parts& parts, const Peer& peer, std::int32_t pid,
                          const std::string& purpose) {
  if (pid == 1 || pid == ::getpid()) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("pid: process ", pid, " is ",
                                                pid == 1 ? "the machine's first" : "stageloadd",
                                                " itself, which is not one to ", purpose)),
        kInvalidField, "pid");
  }
  const absl::StatusOr<host::Process> named = parts.find_process(pid);
  if (!named.ok()) {
    return WithReason(
        absl::InvalidArgumentError(absl::StrCat("pid: there is no process ", pid, " to ", purpose)),
        kInvalidField, "pid");
  }
  if (named->uid == peer.uid) return absl::OkStatus();
  absl::StatusOr<host::Process> process = named;
  for (int depth = 0; process.ok() && depth < kMaxDepth; ++depth) {
    if (process->identity.pid == peer.pid) return absl::OkStatus();
    process = parts.find_process(process->parent);
  }
  return WithReason(absl::PermissionDeniedError(
                        absl::StrCat("pid: process ", pid, " belongs to user ", named->uid,
                                     " and does not descend from the caller ", peer.pid)),
                    kPeerRefused, "pid");
}

}  // namespace stageload::rpc
