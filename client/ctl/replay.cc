// Plays the engine's part: events in, effects out, with the recording's clock.
#include "client/ctl/replay.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/instant.h"
#include "daemon/core/scheduler.h"

namespace stageload::ctl {
namespace {

constexpr core::JobId kCommand{1};
const core::ProcessIdentity kRoot{.pid = 1, .start = 1};

class Player {
 public:
  Player(const Trace& trace, const core::Policy& policy)
      : trace_(trace), policy_(policy), scheduler_(core::Config(), kCommand) {
    std::string error;
    if (!trace.start || !absl::ParseTime(absl::RFC3339_full, trace.start->utc, &began_, &error)) {
      began_ = absl::UnixEpoch();
    }
  }

  absl::StatusOr<Replay> Play() {
    Submit(trace_.samples.front());
    if (!refused_.ok()) return refused_;
    for (const TraceSample& sample : trace_.samples) {
      Show(sample);
      Measure(sample);
      if (!admitted_) blockers_ = BlockersAt(sample);
      if (&sample == &trace_.samples.front()) first_blockers_ = blockers_;
    }
    replay_.overshoot = overshoot_;
    AddNotes();
    return std::move(replay_);
  }

 private:
  // A recording's time stands still while the machine sleeps, and nothing tells how long it slept:
  // a gap is a recorder that was held up, and what swap did meanwhile counts.
  Instant At(const TraceSample& sample) const {
    const absl::Duration t = absl::Seconds(sample.t);
    return {.awake = t, .continuous = t, .wall = began_ + t};
  }

  void Submit(const TraceSample& first) {
    core::Submit submit;
    submit.kind = core::JobKind::kGuard;
    submit.name = "the recorded command";
    submit.policy = policy_;
    submit.root = kRoot;
    Step(first, submit);
  }

  void Show(const TraceSample& sample) {
    core::SampleTaken taken;
    taken.sample.host.level = sample.level;
    taken.sample.host.swap_used = sample.swap_used;
    core::ClientUsage usage;
    usage.id = kCommand;
    usage.usage.footprint = sample.footprint;
    usage.processes = 1;
    taken.sample.clients.push_back(usage);
    Step(sample, taken);
  }

  void Step(const TraceSample& sample, const core::Event& event) {
    for (const core::Effect& effect : scheduler_.Step(At(sample), event)) {
      std::visit([&](const auto& e) { On(sample, e); }, effect);
    }
  }

  template <typename Other>
  void On(const TraceSample&, const Other&) {}
  void On(const TraceSample&, const core::Refused& refused) { refused_ = refused.status; }
  void On(const TraceSample& sample, const core::Start&) {
    admitted_ = sample.t;
    swap_at_admission_ = sample.swap_used ? sample.swap_used : swap_before_;
    Decide(sample, Decision::Action::kAdmit, core::Reason::kNone);
    Step(sample, core::Started{.id = kCommand, .root = kRoot, .boot_id = ""});
  }
  void On(const TraceSample& sample, const core::Note& note) {
    if (note.kind != "warned") return;
    Decide(sample, Decision::Action::kWarn, core::Reason::kSwapBudget);
  }
  void On(const TraceSample& sample, const core::Save& save) {
    const core::JobState before = std::exchange(state_, save.record.state);
    if (before == state_) return;
    if (state_ == core::JobState::kSuspended) {
      Decide(sample, Decision::Action::kSuspend, save.record.reason);
    } else if (state_ == core::JobState::kStopping) {
      Decide(sample, Decision::Action::kStop, save.record.reason);
    }
  }

  void Decide(const TraceSample& sample, Decision::Action action, core::Reason reason) {
    if (stopped_) return;
    stopped_ = action == Decision::Action::kStop;
    if (stopped_) overshoot_ = Bytes(0);  // what counts begins here
    replay_.decisions.push_back({.t = sample.t,
                                 .action = action,
                                 .reason = reason == core::Reason::kNone ? "" : core::Name(reason),
                                 .level = sample.level,
                                 .swap_used = sample.swap_used,
                                 .charge = scheduler_.ledger().Of(kCommand).charge});
  }

  // The budget counts from the newest reading at the admission, or from the first after it.
  void Measure(const TraceSample& sample) {
    if (!sample.swap_used) return;
    swap_before_ = sample.swap_used;
    if (!admitted_) return;
    if (!swap_at_admission_) swap_at_admission_ = sample.swap_used;
    overshoot_ =
        std::max(overshoot_, *sample.swap_used - *swap_at_admission_ - policy_.swap_budget);
  }

  std::string BlockersAt(const TraceSample& sample) const {
    return absl::StrJoin(scheduler_.BlockersOf(At(sample), kCommand), "; ",
                         [](std::string* out, const core::Blocker& blocker) {
                           absl::StrAppend(out, core::Name(blocker.kind), ": ", blocker.text);
                         });
  }

  void AddNotes() {
    if (!admitted_) {
      replay_.notes.push_back(absl::StrCat("never admitted; at the last sample: ", blockers_));
    } else if (*admitted_ > trace_.samples.front().t) {
      replay_.notes.push_back(
          absl::StrCat("admitted after a wait; at the first sample: ", first_blockers_));
    }
  }

  const Trace& trace_;
  const core::Policy& policy_;
  core::Scheduler scheduler_;
  absl::Time began_;

  absl::Status refused_;
  core::JobState state_ = core::JobState::kPending;
  std::optional<double> admitted_;  // t
  bool stopped_ = false;
  std::string first_blockers_;
  std::string blockers_;
  std::optional<Bytes> swap_before_;
  std::optional<Bytes> swap_at_admission_;
  Bytes overshoot_;
  Replay replay_;
};

}  // namespace

const char* Name(Decision::Action action) {
  switch (action) {
    case Decision::Action::kAdmit:
      return "admit";
    case Decision::Action::kWarn:
      return "warn";
    case Decision::Action::kSuspend:
      return "suspend";
    case Decision::Action::kStop:
      return "stop";
  }
  return "?";
}

absl::StatusOr<Replay> ReplayTrace(const Trace& trace, const core::Policy& policy) {
  return Player(trace, policy).Play();
}

}  // namespace stageload::ctl
