// Which of many descriptors have input, or have lost their other end: epoll on Linux, kqueue on
// macOS. Not poll(2), which on macOS tells no hang-up of a descriptor that is not asked for input,
// and forgets one whose input nobody asked for (xnu bsd/kern/sys_generic.c, poll_nocancel and
// poll_callback).
//
// Threading: one thread.
#ifndef STAGELOAD_DAEMON_RPC_READINESS_H_
#define STAGELOAD_DAEMON_RPC_READINESS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace stageload::rpc {

class Readiness {
 public:
  enum class Of { kInput, kHangUp };
  struct Ready {
    std::uint64_t token = 0;
    bool hung_up = false;  // else there is input
  };

  // ResourceExhausted when no descriptor is left.
  static absl::StatusOr<Readiness> Create();
  Readiness(Readiness&& other) noexcept : queue_(std::exchange(other.queue_, -1)) {}
  Readiness& operator=(Readiness&&) = delete;
  ~Readiness();

  // A hang-up is told with kInput, too. `token` is below 2^63. Descriptors stay the caller's, who
  // removes one before it is closed or handed to somebody else: a duplicate would keep it here.
  absl::Status Add(int descriptor, Of of, std::uint64_t token);
  void Remove(int descriptor);

  // Blocks until one is ready; none for longer than `within`, or when a signal came. What stays
  // ready is told again.
  std::vector<Ready> Wait(std::optional<absl::Duration> within);

 private:
  explicit Readiness(int queue) : queue_(queue) {}

  int queue_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_READINESS_H_
