// A macOS kernel with processes that a test makes, ends and forgets.
//
// Threading: as DarwinKernel; the test's own calls from any thread.
#ifndef STAGELOAD_TESTS_DAEMON_JOBS_FAKE_DARWIN_KERNEL_H_
#define STAGELOAD_TESTS_DAEMON_JOBS_FAKE_DARWIN_KERNEL_H_

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "daemon/core/process.h"
#include "daemon/jobs/darwin_kernel.h"

namespace stageload::jobs {

class FakeDarwinKernel : public DarwinKernel {
 public:
  struct Process {
    Identifiers identifiers;
    std::uint64_t start = 0;
    bool child = false;
    bool zombie = false;
  };
  struct Signal {
    std::int32_t pid;
    std::uint64_t unique_id;
    int signal;
    bool operator==(const Signal&) const = default;
  };

  // What the test sets up and looks at; guarded by mutex.
  std::mutex mutex;
  std::map<std::int32_t, Process> processes;
  std::vector<Signal> signals;
  std::vector<std::int32_t> reaped;
  int identifiers_error = 0;          // of every ReadIdentifiers() while it is not 0
  int start_error = 0;                // likewise
  int kill_error = 0;                 // likewise, of both kinds
  int attach_error = 0;               // likewise
  bool knows_versions = true;         // macOS 14.4 and newer
  std::function<void()> before_kill;  // called without the mutex

  core::ProcessIdentity Start(std::int32_t pid, std::uint64_t unique_id, bool child = false) {
    const std::lock_guard<std::mutex> lock(mutex);
    processes[pid] = {.identifiers = {.unique_id = unique_id, .version = 100},
                      .start = unique_id * 1'000,
                      .child = child};
    return {.pid = pid, .start = unique_id};
  }
  // A child becomes a zombie, anybody else is gone.
  void End(std::int32_t pid) {
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto note = notes_.find(pid); note != notes_.end()) {
      fired_.push_back(note->second);
      notes_.erase(note);
    }
    if (processes[pid].child) {
      processes[pid].zombie = true;
    } else {
      processes.erase(pid);
    }
  }
  bool Exists(const core::ProcessIdentity& identity) {
    const std::lock_guard<std::mutex> lock(mutex);
    const auto found = processes.find(identity.pid);
    return found != processes.end() && found->second.identifiers.unique_id == identity.start;
  }

  int ReadIdentifiers(std::int32_t pid, Identifiers* out) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (identifiers_error != 0) return identifiers_error;
    if (!processes.contains(pid)) return ESRCH;
    *out = processes[pid].identifiers;
    return 0;
  }
  int ReadStart(std::int32_t pid, std::uint64_t* microseconds) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (start_error != 0) return start_error;
    if (!processes.contains(pid)) return ESRCH;
    *microseconds = processes[pid].start;
    return 0;
  }
  int Kill(std::int32_t pid, int signal) override { return Deliver(pid, std::nullopt, signal); }
  int KillExactly(std::int32_t pid, std::int32_t version, int signal) override {
    return knows_versions ? Deliver(pid, version, signal) : ENOSYS;
  }
  int Reap(std::int32_t pid) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (!processes.contains(pid) || !processes[pid].child) return ECHILD;
    if (!processes[pid].zombie) std::abort();  // the real one would wait for it
    processes.erase(pid);
    reaped.push_back(pid);
    return 0;
  }
  int Attach(std::int32_t pid, std::uint64_t token) override {
    const std::lock_guard<std::mutex> lock(mutex);
    if (attach_error != 0) return attach_error;
    if (!processes.contains(pid) || processes[pid].zombie) return ESRCH;
    // One that is there is only changed, and stays with the process that it was attached to.
    notes_.emplace(pid, token);
    return 0;
  }
  void Detach(std::int32_t pid) override {
    const std::lock_guard<std::mutex> lock(mutex);
    notes_.erase(pid);
  }
  std::vector<std::uint64_t> Next() override {
    const std::lock_guard<std::mutex> lock(mutex);
    woken_ = false;
    return std::exchange(fired_, {});
  }
  int descriptor() const override { std::abort(); }  // HasInput() is what a test asks
  bool HasInput() {
    const std::lock_guard<std::mutex> lock(mutex);
    return woken_ || !fired_.empty();
  }
  void Wake() override {
    const std::lock_guard<std::mutex> lock(mutex);
    woken_ = true;
  }

 private:
  int Deliver(std::int32_t pid, std::optional<std::int32_t> version, int signal) {
    if (before_kill) before_kill();
    const std::lock_guard<std::mutex> lock(mutex);
    if (kill_error != 0) return kill_error;
    const auto found = processes.find(pid);
    if (found == processes.end() || (version && found->second.zombie)) return ESRCH;
    if (version && *version != found->second.identifiers.version) return ESRCH;
    signals.push_back({pid, found->second.identifiers.unique_id, signal});
    return 0;
  }

  std::map<std::int32_t, std::uint64_t> notes_;
  std::vector<std::uint64_t> fired_;
  bool woken_ = false;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_TESTS_DAEMON_JOBS_FAKE_DARWIN_KERNEL_H_
