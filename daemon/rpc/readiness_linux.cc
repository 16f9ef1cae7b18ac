#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/readiness.h"

namespace stageload::rpc {

absl::StatusOr<Readiness> Readiness::Create() {
  const int queue = ::epoll_create1(EPOLL_CLOEXEC);
  if (queue < 0) return absl::ErrnoToStatus(errno, "make an epoll");
  return Readiness(queue);
}

Readiness::~Readiness() {
  if (queue_ >= 0) ::close(queue_);
}

absl::Status Readiness::Add(int descriptor, Of of, std::uint64_t token) {
  epoll_event event{};
  event.events = of == Of::kInput ? EPOLLIN : 0U;  // EPOLLHUP and EPOLLERR come unasked
  event.data.u64 = token;
  if (::epoll_ctl(queue_, EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
  return absl::ErrnoToStatus(errno, absl::StrCat("watch descriptor ", descriptor));
}

void Readiness::Remove(int descriptor) { ::epoll_ctl(queue_, EPOLL_CTL_DEL, descriptor, nullptr); }

std::vector<Readiness::Ready> Readiness::Wait(std::optional<absl::Duration> within) {
  std::array<epoll_event, 64> events;
  const int milliseconds =
      within
          ? static_cast<int>(absl::ToInt64Milliseconds(absl::Ceil(*within, absl::Milliseconds(1))))
          : -1;
  const int count =
      ::epoll_wait(queue_, events.data(), static_cast<int>(events.size()), milliseconds);
  std::vector<Ready> ready;
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    ready.push_back({event.data.u64, (event.events & (EPOLLHUP | EPOLLERR)) != 0});
  }
  return ready;
}

}  // namespace stageload::rpc
