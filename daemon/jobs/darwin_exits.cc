#include "daemon/jobs/darwin_exits.h"

#include <cerrno>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/darwin_process.h"

namespace stageload::jobs {

DarwinExits::DarwinExits(DarwinKernel& kernel, ExitWatcher::OnExit on_exit)
    : kernel_(kernel), on_exit_(std::move(on_exit)) {}

absl::Status DarwinExits::Watch(const core::ProcessIdentity& identity,
                                const StillThere& still_there) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const absl::Status gone = absl::NotFoundError(absl::StrCat("process ", identity.pid, " is gone"));
  if (const auto before = tokens_.find(identity.pid); before != tokens_.end()) {
    Watched& watched = watched_.at(before->second);
    const bool there = still_there(identity);
    if (watched.identity == identity) {
      watched.tell |= there;
      return watched.tell ? absl::OkStatus() : gone;
    }
    if (!there) return gone;
    // Who has had the pid before has ended, whether or not that has been taken from the kernel.
    kernel_.Detach(identity.pid);
    Ended(before->second);
    kernel_.Wake();
  }
  const std::uint64_t token = next_token_++;
  const int error = kernel_.Attach(identity.pid, token);
  if (error != 0 && error != ESRCH) {
    const std::string why(
        absl::ErrnoToStatus(error, absl::StrCat("watch process ", identity.pid)).message());
    return error == ENOMEM ? absl::ResourceExhaustedError(why) : absl::InternalError(why);
  }
  const bool there = still_there(identity);
  if (error == 0) {
    watched_.emplace(token, Watched{.identity = identity, .tell = there});
    tokens_.emplace(identity.pid, token);
  } else {  // it is ending or a zombie, and no note can be attached to it any more
    ended_.push_back({.identity = identity, .tell = there});
    kernel_.Wake();
  }
  return there ? absl::OkStatus() : gone;
}

void DarwinExits::Handle() {
  const std::vector<std::uint64_t> tokens = kernel_.Next();
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const std::uint64_t token : tokens) Ended(token);
  }
  Tell();
}

void DarwinExits::Ended(std::uint64_t token) {
  const auto found = watched_.find(token);
  if (found == watched_.end()) return;  // the pid was watched anew meanwhile
  ended_.push_back(found->second);
  tokens_.erase(found->second.identity.pid);
  watched_.erase(found);
}

void DarwinExits::Tell() {
  std::vector<Watched> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    ended.swap(ended_);
  }
  for (const Watched& watched : ended) {
    ReapIfOurs(kernel_, watched.identity);
    if (watched.tell) on_exit_(watched.identity);
  }
}

}  // namespace stageload::jobs
