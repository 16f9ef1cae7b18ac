#include <fcntl.h>
#include <sys/prctl.h>
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
namespace {

std::string BootId() {
  const absl::StatusOr<std::string> text = ReadWhole(AT_FDCWD, "/proc/sys/kernel/random/boot_id");
  if (!text.ok() || text->empty()) return "-";
  return text->substr(0, text->find('\n'));
}

}  // namespace

absl::StatusOr<Self> ReadSelf() {
  const absl::StatusOr<std::string> stat = ReadWhole(AT_FDCWD, "/proc/self/stat");
  if (!stat.ok()) return stat.status();
  // The name in parentheses may hold anything, so count from its end (proc(5)): field 3 is first
  // after it, start time is field 22.
  const std::size_t name_end = stat->rfind(')');
  std::vector<std::string> fields;
  if (name_end != std::string::npos) fields = absl::StrSplit(stat->substr(name_end + 1), ' ');
  Self self;
  self.identity.pid = ::getpid();
  if (fields.size() < 21 || !absl::SimpleAtoi(fields[20], &self.identity.start)) {
    return absl::InternalError(absl::StrCat("/proc/self/stat is not as proc(5) says: ", *stat));
  }
  self.boot_id = BootId();
  return self;
}

void AdoptOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); }

}  // namespace stageload::jobs
