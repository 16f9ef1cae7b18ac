// Exits on Linux: a pidfd polls readable once all threads of its process are gone (pidfd_open(2)).
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/exit_watcher.h"
#include "daemon/jobs/pidfd_linux.h"

namespace stageload::jobs {
namespace {

// Only this very process, and only when it is a child of ours that has ended: ECHILD for others.
// waitid(P_PIDFD) needs Linux 5.4.
void Reap(int handle) {
  siginfo_t about{};
  while (::waitid(P_PIDFD, static_cast<id_t>(handle), &about, WEXITED | WNOHANG) != 0 &&
         errno == EINTR) {
  }
}

}  // namespace

class ExitWatcher::Impl {
 public:
  Impl(OnExit on_exit, Descriptor epoll) : on_exit_(std::move(on_exit)), epoll_(std::move(epoll)) {}

  absl::Status Watch(const core::ProcessIdentity& identity, const StillThere& still_there);
  absl::Status WatchUrgent(int descriptor, std::function<void()> on_urgent);
  int descriptor() const { return epoll_.get(); }
  void Handle();

 private:
  struct Watched {
    core::ProcessIdentity identity;
    Descriptor handle;
  };

  absl::Status Add(int descriptor, std::uint32_t events, std::uint64_t token,
                   const std::string& what);
  void Ended(std::uint64_t token);
  bool CallUrgent(std::uint64_t token);

  const OnExit on_exit_;
  const Descriptor epoll_;

  std::mutex mutex_;  // guards what follows; not held during a callback
  std::uint64_t next_token_ = 0;
  std::map<std::uint64_t, Watched> watched_;
  std::set<core::ProcessIdentity> identities_;
  std::map<std::uint64_t, std::function<void()>> urgent_;
};

absl::Status ExitWatcher::Impl::Watch(const core::ProcessIdentity& identity,
                                      const StillThere& still_there) {
  absl::StatusOr<Descriptor> handle = OpenPid(identity.pid);
  if (!handle.ok()) return handle.status();
  if (!still_there(identity)) {
    Reap(handle->get());
    return absl::NotFoundError(absl::StrCat("process ", identity.pid, " is gone"));
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!identities_.insert(identity).second) return absl::OkStatus();  // watched already
  const std::uint64_t token = next_token_++;
  const absl::Status added =
      Add(handle->get(), EPOLLIN, token, absl::StrCat("watch process ", identity.pid));
  if (!added.ok()) {
    identities_.erase(identity);
    return added;
  }
  watched_.emplace(token, Watched{identity, *std::move(handle)});
  return absl::OkStatus();
}

absl::Status ExitWatcher::Impl::Add(int descriptor, std::uint32_t events, std::uint64_t token,
                                    const std::string& what) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = token;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0) return absl::OkStatus();
  const int error = errno;
  const std::string why(absl::ErrnoToStatus(error, what).message());
  return error == ENOSPC || error == ENOMEM ? absl::ResourceExhaustedError(why)
                                            : absl::InternalError(why);
}

absl::Status ExitWatcher::Impl::WatchUrgent(int descriptor, std::function<void()> on_urgent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::uint64_t token = next_token_++;
  // Edge-triggered, so that one that stays urgent, or fails, does not keep the thread busy.
  const absl::Status added =
      Add(descriptor, EPOLLPRI | EPOLLET, token, absl::StrCat("watch descriptor ", descriptor));
  if (added.ok()) urgent_.emplace(token, std::move(on_urgent));
  return added;
}

// False when it is not one of WatchUrgent().
bool ExitWatcher::Impl::CallUrgent(std::uint64_t token) {
  std::function<void()> on_urgent;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = urgent_.find(token);
    if (found == urgent_.end()) return false;
    on_urgent = found->second;
  }
  on_urgent();
  return true;
}

void ExitWatcher::Impl::Ended(std::uint64_t token) {
  core::ProcessIdentity identity;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = watched_.find(token);
    if (found == watched_.end()) return;
    identity = found->second.identity;
    Reap(found->second.handle.get());
    // A child between fork and exec may share the handle, so closing alone might not take it out.
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.handle.get(), nullptr);
    watched_.erase(found);
    identities_.erase(identity);
  }
  on_exit_(identity);
}

void ExitWatcher::Impl::Handle() {
  std::array<epoll_event, 64> events;
  int count = 0;
  do {
    count = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
      const std::uint64_t token = events[static_cast<std::size_t>(i)].data.u64;
      if (!CallUrgent(token)) Ended(token);
    }
  } while (count == static_cast<int>(events.size()));
}

ExitWatcher::ExitWatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExitWatcher::~ExitWatcher() = default;

absl::StatusOr<std::unique_ptr<ExitWatcher>> ExitWatcher::Create(OnExit on_exit) {
  Descriptor epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.ok()) {
    const std::string why(absl::ErrnoToStatus(errno, "make the exit watcher's epoll").message());
    return errno == EMFILE || errno == ENFILE ? absl::ResourceExhaustedError(why)
                                              : absl::InternalError(why);
  }
  return std::unique_ptr<ExitWatcher>(
      new ExitWatcher(std::make_unique<Impl>(std::move(on_exit), std::move(epoll))));
}

absl::Status ExitWatcher::Watch(const core::ProcessIdentity& identity,
                                const StillThere& still_there) {
  return impl_->Watch(identity, still_there);
}
absl::Status ExitWatcher::WatchUrgent(int descriptor, std::function<void()> on_urgent) {
  return impl_->WatchUrgent(descriptor, std::move(on_urgent));
}
int ExitWatcher::descriptor() const { return impl_->descriptor(); }
void ExitWatcher::Handle() { impl_->Handle(); }

}  // namespace stageload::jobs
