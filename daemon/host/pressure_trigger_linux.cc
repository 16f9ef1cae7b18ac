#include "daemon/host/pressure_trigger_linux.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stageload::host {
namespace {

// Microseconds in which some task had to wait, in a window of so many. Without CAP_SYS_RESOURCE
// only windows of whole 2 s are taken, and before Linux 6.5 none (kernel/sched/psi.c,
// psi_trigger_create). The share is the same in both: 15 %.
constexpr std::string_view kFine = "some 150000 1000000";
constexpr std::string_view kCoarse = "some 300000 2000000";

// With its zero, which the kernel writes over (psi_write).
bool Write(int descriptor, std::string_view trigger) {
  return ::write(descriptor, trigger.data(), trigger.size() + 1) >= 0;
}

}  // namespace

absl::StatusOr<PressureTrigger> PressureTrigger::Set(const std::string& path) {
  PressureTrigger trigger(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
  if (trigger.descriptor_ < 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("open ", path, " for writing"));
  }
  if (Write(trigger.descriptor_, kFine) || Write(trigger.descriptor_, kCoarse)) return trigger;
  return absl::ErrnoToStatus(errno, absl::StrCat("write \"", std::string(kCoarse), "\" to ", path));
}

PressureTrigger::~PressureTrigger() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

}  // namespace stageload::host
