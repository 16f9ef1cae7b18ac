// systemd's protocol, as sd_listen_fds(3) describes it: descriptors from 3 on, $LISTEN_FDS of them,
// meant for the process $LISTEN_PID.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "daemon/rpc/passed_socket.h"

namespace stageload::rpc {
namespace {

constexpr int kFirst = 3;

// Its value, and the variable is gone.
std::string Take(const char* name) {
  const char* value = ::getenv(name);
  std::string taken = value == nullptr ? "" : value;
  ::unsetenv(name);
  return taken;
}

}  // namespace

absl::StatusOr<std::optional<int>> TakePassedSocket() {
  const std::string pid = Take("LISTEN_PID");
  const std::string count = Take("LISTEN_FDS");
  // The name is the unit's to choose and the pidfd's id (systemd 258) says no more than the pid.
  Take("LISTEN_FDNAMES");
  Take("LISTEN_PIDFDID");
  int meant = 0;
  // Another process's: left over in an environment that was handed on.
  if (!absl::SimpleAtoi(pid, &meant) || meant != ::getpid()) return std::nullopt;
  int passed = 0;
  if (!absl::SimpleAtoi(count, &passed) || passed < 0 || passed > 1) {
    return absl::FailedPreconditionError(
        absl::StrCat("LISTEN_FDS=\"", absl::Utf8SafeCHexEscape(count),
                     "\": stageloadd takes one socket; pass it that of its clients alone"));
  }
  if (passed == 0) return std::nullopt;
  const int flags = ::fcntl(kFirst, F_GETFD);
  if (flags < 0 || ::fcntl(kFirst, F_SETFD, flags | FD_CLOEXEC) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("LISTEN_FDS=1, and descriptor ", kFirst,
                                                      " is not open; pass the socket or unset it"));
  }
  return kFirst;
}

}  // namespace stageload::rpc
