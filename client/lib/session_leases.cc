// A Session's leases: asked for on the caller's thread, of one daemon after another if need be.
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/awake_clock.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "client/lib/convert.h"
#include "client/lib/daemon_search.h"
#include "client/lib/exception.h"
#include "client/lib/request_id.h"
#include "client/lib/session_core.h"

namespace stageload::client {
namespace {

// A thread that waits does not keep the others from going on.
// Its number is no later thread's, which could be taken for the holder of what this one still
// holds.
std::int64_t ThisWorker() {
  static std::atomic<std::int64_t> threads{0};
  thread_local const std::int64_t number = ++threads;
  return number;
}

std::chrono::nanoseconds Nanoseconds(absl::Duration duration) {
  return absl::ToChronoNanoseconds(duration);
}

absl::Status NoRoomWithoutDaemon(absl::Duration waited) {
  return WithReason(
      absl::ResourceExhaustedError(absl::StrCat(
          "no room: the daemon went away, and no other came within ", FormatSpan(waited))),
      kAdmissionTimeout);
}

absl::Status NoRoomUnanswered(absl::Duration waited) {
  return WithReason(absl::ResourceExhaustedError(absl::StrCat("no room within ", FormatSpan(waited),
                                                              ": the daemon does not answer")),
                    kAdmissionTimeout);
}

// Whether the next daemon may know better: this one has gone, or the registration with it.
bool AskTheNext(const absl::Status& status) {
  return DaemonIsGone(status) || ReasonOf(status) == kClientNotFound;
}

}  // namespace

Lease SessionCore::Acquire(const std::string& stage, std::int64_t memory_bytes,
                           const AcquireOptions& options) {
  CheckCaller();
  if (std::this_thread::get_id() == thread_.get_id()) {
    throw Error(ErrorCode::kFailedPrecondition, "WRONG_THREAD",
                "a callback of the session may not wait for a lease");
  }
  const absl::Duration begin = AwakeNow();
  const absl::Duration deadline =
      options.timeout ? begin + absl::FromChrono(*options.timeout) : absl::InfiniteDuration();
  CheckSaysSomething("stage", stage);
  const Held held{.stage = stage,
                  .memory_bytes = memory_bytes,
                  .request_id = NewRequestId(),
                  .worker = ThisWorker(),
                  .lease_id = 0};
  std::vector<Blocker> blockers;
  const bool waits = !options.timeout || *options.timeout > std::chrono::nanoseconds(0);
  const auto on_wait = [&](const v1::Waiting& from) {
    const Waiting waiting = FromProto(from);
    blockers = waiting.blockers;
    if (options.on_wait && waits) options.on_wait(waiting);
  };
  for (std::int64_t known = 0;;) {
    const std::optional<DaemonLink> link = AwaitLink(known, deadline, options);
    if (!link) return Unmanaged(held);
    v1::AcquireRequest request;
    request.set_stage(held.stage);
    request.set_memory_bytes(held.memory_bytes);
    request.set_request_id(held.request_id);
    request.set_worker(held.worker);
    if (options.timeout) {
      const absl::Duration left = std::max(deadline - AwakeNow(), absl::ZeroDuration());
      request.set_start_timeout_ns(absl::ToInt64Nanoseconds(left));
    }
    LeaseCall call(*link, std::move(request), interrupt_, late_releases_);
    const absl::StatusOr<v1::Granted> granted = call.Run(on_wait, options.stop);
    if (granted.ok()) {
      Held kept = held;
      kept.lease_id = granted->lease_id();
      Lease lease;
      if (Keep(*link, kept, lease)) {
        lease.forced_ = granted->forced();
        lease.waited_ = Nanoseconds(AwakeNow() - begin);
        return lease;
      }
    } else if (absl::IsDeadlineExceeded(granted.status())) {
      Throw(NoRoomUnanswered(AwakeNow() - begin), std::move(blockers));
    } else if (interrupt_.raised() || !AskTheNext(granted.status())) {
      Throw(granted.status(), std::move(blockers));
    }
    known = link->daemon;
  }
}

std::optional<DaemonLink> SessionCore::AwaitLink(std::int64_t known, absl::Duration deadline,
                                                 const AcquireOptions& options) {
  const absl::Duration begin = AwakeNow();
  std::unique_lock lock(mutex_);
  const auto settled = [&] {
    return stop_ || (phase_ == Phase::kConnected && daemons_ > known) || phase_ == Phase::kAbsent ||
           phase_ == Phase::kEnded || phase_ == Phase::kClosed;
  };
  while (!settled() && !options.stop.stop_requested() && AwakeNow() < deadline) {
    // In parts, since the clock behind it may not be the one that stands still in sleep.
    const absl::Duration left = std::min(deadline - AwakeNow(), absl::Seconds(1));
    changed_.wait_for(lock, options.stop, Nanoseconds(left), settled);
  }
  if (options.stop.stop_requested()) throw Cancelled("the request for a lease was cancelled");
  if (phase_ == Phase::kClosed) {
    throw Error(ErrorCode::kFailedPrecondition, "SESSION_CLOSED", "the session has been closed");
  }
  if (stop_) throw Stopped(absl::StrCat("the session is to end: ", stop_->text));
  if (phase_ == Phase::kConnected && daemons_ > known) return registration_->link();
  if (phase_ == Phase::kAbsent) {
    if (!options_.require) return std::nullopt;
    throw NoDaemon(absl::StrCat("no daemon answers at ", connect_.socket));
  }
  Throw(NoRoomWithoutDaemon(AwakeNow() - begin));
}

Lease SessionCore::NewLease(const Held& held) {
  Lease lease;
  lease.core_ = shared_from_this();
  lease.key_ = next_key_++;
  lease.stage_ = held.stage;
  lease.memory_bytes_ = held.memory_bytes;
  lease.managed_ = held.lease_id != 0;
  leases_[lease.key_] = held;
  return lease;
}

bool SessionCore::Keep(const DaemonLink& link, const Held& held, Lease& lease) {
  const std::lock_guard lock(mutex_);
  // Nothing is loaded yet, so the next daemon is asked as if it were the first.
  if (phase_ != Phase::kConnected || daemons_ != link.daemon) return false;
  lease = NewLease(held);
  return true;
}

Lease SessionCore::Unmanaged(Held held) {
  const std::lock_guard lock(mutex_);
  return NewLease(held);
}

void SessionCore::Release(std::uint64_t key) {
  Held held;
  DaemonLink link;
  {
    const std::lock_guard lock(mutex_);
    const auto found = leases_.find(key);
    if (found == leases_.end()) return;
    held = std::move(found->second);
    leases_.erase(found);
    if (phase_ != Phase::kConnected || held.lease_id == 0) return;
    link = registration_->link();
  }
  ReleaseLease(link, held.lease_id, held.request_id, late_releases_);
}

}  // namespace stageload::client
