// The real machine's processes with a memory that the test sets.
//
// Threading: the setters from any thread.
#ifndef STAGELOAD_TESTS_DAEMON_HOST_STEERED_HOST_H_
#define STAGELOAD_TESTS_DAEMON_HOST_STEERED_HOST_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/host/host.h"

namespace stageload::host {

// 32 GiB, 90 % of it available, no swap used, until told otherwise.
class SteeredHost : public Host {
 public:
  absl::StatusOr<core::HostSample> Sample() override {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      read_at_.push_back(Clock().awake);
    }
    core::HostSample sample;
    sample.total = GiB(32);
    sample.available = GiB(32) * (level_ / 100.0);
    sample.level = Percent{static_cast<double>(level_)};
    sample.swap_used = Bytes(swap_);
    return sample;
  }
  absl::StatusOr<std::vector<Process>> Processes() override { return real_->Processes(); }
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity& identity) override {
    return real_->Usage(identity);
  }
  absl::StatusOr<Process> Find(std::int32_t pid) override { return real_->Find(pid); }
  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity) override {
    return real_->CommandLine(identity);
  }
  absl::Status OnPressure(std::function<void()> hint, const WaitForUrgent& wait) override {
    return real_->OnPressure(std::move(hint), wait);
  }
  Instant Clock() override { return real_->Clock(); }
  const std::string& BootId() override { return real_->BootId(); }

  // When it was read, by Instant::awake.
  std::vector<absl::Duration> ReadAt() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return read_at_;
  }

  void SetLevel(int percent) { level_ = percent; }
  void SetSwap(Bytes used) { swap_ = used.count(); }

 private:
  std::unique_ptr<Host> real_ = NewLocalHost();
  std::atomic<int> level_ = 90;
  std::atomic<std::int64_t> swap_ = 0;
  mutable std::mutex mutex_;
  std::vector<absl::Duration> read_at_;
};

}  // namespace stageload::host

#endif  // STAGELOAD_TESTS_DAEMON_HOST_STEERED_HOST_H_
