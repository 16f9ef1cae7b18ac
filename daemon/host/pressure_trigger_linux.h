// A trigger of the kernel's pressure stall information: its descriptor has POLLPRI whenever tasks
// have had to wait for memory for a while, at most once in a window.
//
// Threading: one owner; anybody may poll the descriptor while it lives.
#ifndef STAGELOAD_DAEMON_HOST_PRESSURE_TRIGGER_LINUX_H_
#define STAGELOAD_DAEMON_HOST_PRESSURE_TRIGGER_LINUX_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace stageload::host {

class PressureTrigger {
 public:
  // `path` is /proc/pressure/memory or a stand-in. An error where the kernel has none of it, or
  // does not let this user have it.
  static absl::StatusOr<PressureTrigger> Set(const std::string& path);

  PressureTrigger(PressureTrigger&& other) noexcept
      : descriptor_(std::exchange(other.descriptor_, -1)) {}
  PressureTrigger& operator=(PressureTrigger&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~PressureTrigger();

  int descriptor() const { return descriptor_; }

 private:
  explicit PressureTrigger(int descriptor) : descriptor_(descriptor) {}

  int descriptor_ = -1;
};

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_PRESSURE_TRIGGER_LINUX_H_
