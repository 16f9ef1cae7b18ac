#include <fcntl.h>
#include <sys/event.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <cstddef>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/readiness.h"

namespace stageload::rpc {

absl::StatusOr<Readiness> Readiness::Create() {
  const int queue = ::kqueue();
  if (queue < 0) return absl::ErrnoToStatus(errno, "make a kqueue");
  static_cast<void>(::fcntl(queue, F_SETFD, FD_CLOEXEC));
  return Readiness(queue);
}

Readiness::~Readiness() {
  if (queue_ >= 0) ::close(queue_);
}

absl::Status Readiness::Add(int descriptor, Of of, std::uint64_t token) {
  struct kevent64_s change {};
  change.ident = static_cast<std::uint64_t>(descriptor);
  change.filter = EVFILT_READ;
  change.flags = EV_ADD;
  if (of == Of::kHangUp) {
    // Input below such a mark is not told; a full buffer is, each time that it fills, and Wait()
    // drops it. The end is told whatever the mark (xnu bsd/kern/uipc_socket.c, filt_soread_common).
    change.flags |= EV_CLEAR;
    change.fflags = NOTE_LOWAT;
    change.data = INT_MAX;
  }
  change.udata = token << 1 | (of == Of::kHangUp ? 1 : 0);
  while (::kevent64(queue_, &change, 1, nullptr, 0, 0, nullptr) < 0) {
    if (errno != EINTR) {
      return absl::ErrnoToStatus(errno, absl::StrCat("watch descriptor ", descriptor));
    }
  }
  return absl::OkStatus();
}

void Readiness::Remove(int descriptor) {
  struct kevent64_s change {};
  change.ident = static_cast<std::uint64_t>(descriptor);
  change.filter = EVFILT_READ;
  change.flags = EV_DELETE;
  while (::kevent64(queue_, &change, 1, nullptr, 0, 0, nullptr) < 0 && errno == EINTR) {
  }
}

std::vector<Readiness::Ready> Readiness::Wait(std::optional<absl::Duration> within) {
  std::array<struct kevent64_s, 64> events;
  const timespec limit = absl::ToTimespec(within.value_or(absl::ZeroDuration()));
  const int count = ::kevent64(queue_, nullptr, 0, events.data(), static_cast<int>(events.size()),
                               0, within ? &limit : nullptr);
  std::vector<Ready> ready;
  for (int i = 0; i < count; ++i) {
    const struct kevent64_s& event = events[static_cast<std::size_t>(i)];
    const bool hung_up = (event.flags & (EV_EOF | EV_ERROR)) != 0;
    const bool asked_for_input = (event.udata & 1) == 0;
    if (hung_up || asked_for_input) ready.push_back({event.udata >> 1, hung_up});
  }
  return ready;
}

}  // namespace stageload::rpc
