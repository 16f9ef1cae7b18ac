#include "daemon/rpc/reaper.h"

#include <utility>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace stageload::rpc {
namespace {

// glibc keeps what it was once given: 1,000 connections leave 30 MB behind until trimmed. Not at
// once: what the engine and gRPC have for those who were connected goes some seconds later (10 MB of
// it were still there after 2 s in three runs of four).
constexpr std::size_t kWave = 16;
constexpr std::chrono::seconds kQuiet{8};

void GiveMemoryBack() {
#if defined(__GLIBC__)
  ::malloc_trim(0);
#endif
}

}  // namespace

Reaper::Reaper(std::function<void()> on_reaped) : on_reaped_(std::move(on_reaped)) {}

Reaper::~Reaper() { Finish(); }

void Reaper::Take(std::unique_ptr<Connection> connection,
                  std::chrono::system_clock::time_point deadline) {
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(connection), deadline});
    if (!std::exchange(running_, true)) {
      if (thread_.joinable()) thread_.join();  // it is as good as gone
      thread_ = std::thread([this] { Run(); });
    }
  }
  changed_.notify_one();
}

void Reaper::Finish() {
  {
    const std::lock_guard lock(mutex_);
    finishing_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Reaper::Run() {
  std::size_t reaped = 0;
  while (true) {
    Leaving leaving = Next(reaped);
    if (leaving.connection == nullptr) return;
    leaving.connection->Shutdown(leaving.deadline);
    leaving.connection.reset();
    ++reaped;
    on_reaped_();
  }
}

Reaper::Leaving Reaper::Next(std::size_t& reaped) {
  std::unique_lock lock(mutex_);
  const bool quiet =
      !changed_.wait_for(lock, kQuiet, [this] { return finishing_ || !queue_.empty(); });
  if (quiet && reaped >= kWave) {
    lock.unlock();
    GiveMemoryBack();
    reaped = 0;
    lock.lock();
  }
  if (queue_.empty()) {
    running_ = false;
    return {};
  }
  Leaving next = std::move(queue_.front());
  queue_.pop_front();
  return next;
}

}  // namespace stageload::rpc
