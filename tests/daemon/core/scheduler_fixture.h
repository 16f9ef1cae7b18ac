// The state machine, stepped by hand over a machine of 32 GB with 16 GB free unless said.
#ifndef STAGELOAD_TESTS_DAEMON_CORE_SCHEDULER_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_CORE_SCHEDULER_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/scheduler.h"

namespace stageload::core {

class SchedulerTest : public testing::Test {
 protected:
  SchedulerTest() {
    // Tests start many clients without a declaration side by side; SETTLING has tests of its own.
    config_.settle = absl::ZeroDuration();
    host_.total = GiB(32);
    host_.swap_used = Bytes(0);
    host_.pressure = Pressure::kNormal;
    Available(GiB(16));
    Restart(config_);
  }

  void Restart(const Config& config, std::int64_t next_id = 1) {
    scheduler_.emplace(config, JobId{next_id});
  }
  void Available(Bytes bytes) {
    host_.available = bytes;
    host_.level = Percent{100 * bytes.AsDouble() / GiB(32).AsDouble()};
  }
  void Holds(int id, Bytes footprint, int processes = 1) {
    for (ClientUsage& usage : usage_) {
      if (Value(usage.id) == id) {
        usage.usage.footprint = footprint;
        usage.processes = processes;
        return;
      }
    }
    usage_.push_back({JobId{id}, {footprint, std::nullopt}, processes});
  }

  Effects Step(const Event& event) { return scheduler_->Step(now_, event); }
  Effects Wait(absl::Duration duration) {
    now_.awake += duration;
    now_.continuous += duration;
    now_.wall += duration;
    return {};
  }
  void Sleep(absl::Duration duration) {
    now_.continuous += duration;
    now_.wall += duration;
  }
  Effects Sample(absl::Duration after = absl::Milliseconds(500)) {
    Wait(after);
    return Step(SampleTaken{{host_, usage_, busy_}});
  }
  Effects Submitting(const Policy& policy, JobKind kind = JobKind::kJob) {
    Submit submit;
    submit.token = ++token_;
    submit.kind = kind;
    submit.name = "train";
    submit.policy = policy;
    return Step(submit);
  }
  Effects SubmitMemory(Bytes memory) {
    Policy policy;
    policy.memory = memory;
    return Submitting(policy);
  }
  // A session that registered and runs as process 1000 + its id.
  int Register(const Policy& policy, bool may_signal = true) {
    Submit submit;
    submit.token = ++token_;
    submit.kind = JobKind::kSession;
    submit.name = "pipeline";
    submit.policy = policy;
    submit.may_signal = may_signal;
    submit.root = ProcessIdentity{900, 1};
    submit.boot_id = "boot";
    return static_cast<int>(Value(All<Accepted>(Step(submit)).at(0).id));
  }
  Effects Acquiring(int client, Bytes memory,
                    std::optional<absl::Duration> timeout = std::nullopt) {
    return Step(Acquire{++token_, JobId{client}, "stage", memory, timeout});
  }
  Effects Start(int id) { return Step(Started{JobId{id}, ProcessIdentity{1000 + id, 1}, "boot"}); }
  JobState StateOf(int id) const {
    const JobRecord* record = scheduler_->Find(JobId{id});
    return record == nullptr ? JobState::kUnknown : record->state;
  }
  std::vector<BlockerKind> BlockersOf(int id) const {
    std::vector<BlockerKind> kinds;
    for (const Blocker& blocker : scheduler_->BlockersOf(now_, JobId{id})) {
      kinds.push_back(blocker.kind);
    }
    return kinds;
  }

  template <typename E>
  static std::vector<E> All(const Effects& effects) {
    std::vector<E> found;
    for (const Effect& effect : effects) {
      if (const auto* e = std::get_if<E>(&effect)) found.push_back(*e);
    }
    return found;
  }
  static std::vector<Signal::Kind> Signals(const Effects& effects) {
    std::vector<Signal::Kind> kinds;
    for (const Signal& signal : All<Signal>(effects)) kinds.push_back(signal.kind);
    return kinds;
  }
  // The end row that `effects` save, if any.
  static std::optional<JobRecord> Ended(const Effects& effects) {
    for (const Save& save : All<Save>(effects)) {
      if (IsEnd(save.record.state)) return save.record;
    }
    return std::nullopt;
  }

  Config config_;
  HostSample host_;
  std::vector<BusyReading> busy_;
  std::vector<ClientUsage> usage_;
  Instant now_{absl::Seconds(1000), absl::Seconds(1000), absl::UnixEpoch() + absl::Hours(1)};
  std::uint64_t token_ = 0;
  std::optional<Scheduler> scheduler_;
};

constexpr auto kTerm = Signal::Kind::kTerminate;
constexpr auto kKill = Signal::Kind::kKill;

}  // namespace stageload::core

#endif  // STAGELOAD_TESTS_DAEMON_CORE_SCHEDULER_FIXTURE_H_
