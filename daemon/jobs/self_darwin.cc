#include <libproc.h>
#include <sys/sysctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "daemon/jobs/darwin_kernel_darwin.h"
#include "daemon/jobs/darwin_process.h"
#include "daemon/jobs/self.h"

namespace stageload::jobs {

const std::string& BootId() {
  // Read once: it is the same for the life of this process.
  static const std::string id = [] {
    std::array<char, 64> text{};  // 37 with its zero (xnu bsd/kern/kern_sysctl.c, bootsessionuuid)
    std::size_t size = text.size() - 1;
    if (::sysctlbyname("kern.bootsessionuuid", text.data(), &size, nullptr, 0) != 0 ||
        text[0] == '\0') {
      return std::string("-");
    }
    return std::string(text.data());
  }();
  return id;
}

absl::StatusOr<core::ProcessIdentity> IdentityOfChild(std::int32_t pid) {
  return IdentityOf(PlainDarwinKernel(), pid);
}

absl::StatusOr<core::ProcessIdentity> ReadSelf() { return IdentityOfChild(::getpid()); }

std::vector<core::ProcessIdentity> LivingChildren(std::size_t most) {
  std::vector<core::ProcessIdentity> children;
  // The call cannot say that there were more than it had room for: the rest is not named.
  std::vector<pid_t> pids(most + 64);
  const int bytes = static_cast<int>(pids.size() * sizeof(pid_t));
  const int count = ::proc_listchildpids(::getpid(), pids.data(), bytes);
  if (count <= 0) return children;
  pids.resize(std::min(pids.size(), static_cast<std::size_t>(count)));
  for (const pid_t pid : pids) {
    if (children.size() == most) break;
    siginfo_t about{};
    const bool ended =
        pid <= 0 ||
        ::waitid(P_PID, static_cast<id_t>(pid), &about, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        about.si_pid == pid;
    const absl::StatusOr<core::ProcessIdentity> identity = IdentityOfChild(pid);
    if (!ended && identity.ok()) children.push_back(*identity);
  }
  return children;
}

// There is no subreaper on macOS: orphans go to launchd, and the daemon knows them by what it has
// seen of the tree and by the unique id of who forked them.
void AdoptOrphans() {}

}  // namespace stageload::jobs
