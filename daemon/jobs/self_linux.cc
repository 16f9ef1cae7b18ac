#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/self.h"

namespace stageload::jobs {

const std::string& BootId() {
  // Read once: it is the same for the life of this process.
  static const std::string id = [] {
    const absl::StatusOr<std::string> text = ReadWhole(AT_FDCWD, "/proc/sys/kernel/random/boot_id");
    if (!text.ok() || text->empty()) return std::string("-");
    return text->substr(0, text->find('\n'));
  }();
  return id;
}

absl::StatusOr<core::ProcessIdentity> IdentityOfChild(std::int32_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/stat");
  const absl::StatusOr<std::string> stat = ReadWhole(AT_FDCWD, path);
  if (!stat.ok()) return stat.status();
  // The name in parentheses may hold anything, so count from its end (proc(5)): field 3 is first
  // after it, start time is field 22.
  const std::size_t name_end = stat->rfind(')');
  std::vector<std::string> fields;
  if (name_end != std::string::npos) fields = absl::StrSplit(stat->substr(name_end + 1), ' ');
  core::ProcessIdentity identity{.pid = pid, .start = 0};
  if (fields.size() < 21 || !absl::SimpleAtoi(fields[20], &identity.start)) {
    return absl::InternalError(absl::StrCat(path, " is not as proc(5) says: ", *stat));
  }
  return identity;
}

absl::StatusOr<core::ProcessIdentity> ReadSelf() { return IdentityOfChild(::getpid()); }

std::vector<core::ProcessIdentity> LivingChildren(std::size_t most) {
  std::vector<core::ProcessIdentity> children;
  // A kernel without CONFIG_PROC_CHILDREN does not have the list; then they are not named.
  const std::string path = absl::StrCat("/proc/self/task/", ::getpid(), "/children");
  const absl::StatusOr<std::string> list = ReadWhole(AT_FDCWD, path);
  if (!list.ok()) return children;
  const std::vector<std::string> pids = absl::StrSplit(*list, ' ', absl::SkipEmpty());
  for (const std::string& text : pids) {
    std::int32_t pid = 0;
    if (children.size() == most || !absl::SimpleAtoi(text, &pid)) break;
    siginfo_t about{};
    const bool ended =
        ::waitid(P_PID, static_cast<id_t>(pid), &about, WEXITED | WNOHANG | WNOWAIT) != 0 ||
        about.si_pid == pid;
    const absl::StatusOr<core::ProcessIdentity> identity = IdentityOfChild(pid);
    if (!ended && identity.ok()) children.push_back(*identity);
  }
  return children;
}

void AdoptOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

}  // namespace stageload::jobs
