#include "tests/sim/digest.h"

#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/text.h"

namespace stageload::sim {
namespace {

// Walks values down to words.
class Mixer {
 public:
  explicit Mixer(Digest& digest) : digest_(digest) {}

  template <typename... Values>
  void All(const Values&... values) {
    (One(values), ...);
  }

  void One(const std::string& text) { digest_.Add(text); }
  void One(Bytes bytes) { digest_.Add(static_cast<std::uint64_t>(bytes.count())); }
  void One(Percent percent) { One(percent.value); }
  void One(absl::Duration duration) {
    digest_.Add(static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(duration)));
  }
  void One(absl::Time time) { digest_.Add(static_cast<std::uint64_t>(absl::ToUnixNanos(time))); }
  void One(double number) {
    std::uint64_t word = 0;
    std::memcpy(&word, &number, sizeof(word));
    digest_.Add(word);
  }
  template <typename T>
  requires(std::is_integral_v<T> || std::is_enum_v<T>) void One(T number) {
    digest_.Add(static_cast<std::uint64_t>(number));
  }
  template <typename T>
  void One(const std::optional<T>& value) {
    digest_.Add(value.has_value() ? 1U : 0U);
    if (value) One(*value);
  }
  template <typename T>
  void One(const std::vector<T>& values) {
    digest_.Add(values.size());
    for (const T& value : values) One(value);
  }
  void One(const absl::Status& status) {
    All(static_cast<int>(status.code()), std::string(status.message()));
  }

  void One(const core::ProcessIdentity& v) { All(v.pid, v.start); }
  void One(const core::Usage& v) { All(v.footprint, v.swapped); }
  void One(const core::Outcome& v) { All(v.exit_code, v.signal, v.start_errno); }
  void One(const core::Policy& v) {
    All(v.wait_free, v.swap_budget, v.swap_limit, v.kill_free, v.memory, v.memory_auto, v.priority,
        v.start_timeout, v.grace, v.time_limit, v.charge_mode, v.on_over_budget, v.busy,
        v.quiet_for);
  }
  void One(const core::JobRecord& v) {
    All(v.id, v.kind, v.name, v.command, v.working_directory, v.policy, v.group, v.profile,
        v.request_id, v.requeue, v.retry_of, v.may_signal, v.after, v.begin_time, v.held, v.state,
        v.reason, v.reason_text, v.outcome, v.submit_time, v.start_time, v.end_time, v.root,
        v.boot_id, v.started_awake, v.suspended_awake, v.suspended_for, v.stop_awake, v.charge,
        v.swap_at_charge, v.charge_awake, v.charge_continuous, v.forgiven, v.bypassed,
        v.peak_footprint, v.true_peak, v.available_at_start, v.swap_at_start, v.alone, v.notify,
        v.waited);
  }
  void One(const core::Waited& v) { All(v.kind, v.time, v.text); }
  void One(const core::RunPeaks& v) { All(v.id, v.footprint, v.true_peak); }
  void One(const core::EndedParent& v) { All(v.id, v.state); }
  void One(const core::HostSample& v) {
    All(v.level, v.total, v.available, v.swap_used, v.swap_total, v.pressure, v.pageable_internal,
        v.compressed, v.wired);
  }
  void One(const core::ClientUsage& v) { All(v.id, v.usage, v.processes); }
  void One(const core::BusyReading& v) { All(v.pattern, v.match); }

  void One(const core::Submit& v) {
    All(v.token, v.kind, v.name, v.policy, v.group, v.profile, v.may_signal, v.after,
        v.ended_parents, v.begin_time, v.held, v.root, v.boot_id, v.inside);
  }
  void One(const core::Restored& v) { All(v.record, v.ended_parents); }
  void One(const core::ProfileRestored& v) { All(v.profile, v.run); }
  void One(const core::QueueHeldRestored& v) { All(v.text); }
  void One(const core::HoldQueueAsked& v) { All(v.text); }
  void One(const core::ReleaseQueueAsked&) {}
  void One(const core::UpdateAsked& v) { All(v.id, v.policy); }
  void One(const core::ForgetProfileAsked& v) { All(v.profile); }
  void One(const core::ProgramsReturning& v) { All(v.until); }
  void One(const core::SampleTaken& v) { All(v.sample.host, v.sample.clients, v.sample.busy); }
  void One(const core::Started& v) { All(v.id, v.root, v.boot_id, v.inside); }
  void One(const core::StartFailed& v) { All(v.id, v.text); }
  void One(const core::Exited& v) { All(v.id, v.outcome, v.remaining); }
  void One(const core::SignalRefused& v) { All(v.id, v.text); }
  void One(const core::DrainAsked& v) { All(v.drain); }
  void One(const core::ConfigChanged& v) { All(v.config.max_bypass, v.config.memory_pool); }
  void One(const core::Acquire& v) {
    All(v.token, v.client, v.stage, v.memory, v.start_timeout, v.loaded, v.holder);
  }
  void One(const core::Tick&) {}
  // The many that are no more than an id.
  template <typename T>
  requires requires(const T& v) { v.id; }
  void One(const T& v) { digest_.Add(static_cast<std::uint64_t>(core::Value(v.id))); }

  void One(const core::Accepted& v) { All(v.token, v.id); }
  void One(const core::Refused& v) { All(v.token, v.status); }
  void One(const core::Save& v) { All(v.record, v.added); }
  void One(const core::Learned& v) { All(v.profile, v.run); }
  void One(const core::Forgotten& v) { All(v.profile); }
  void One(const core::QueueHeld& v) { All(v.text); }
  void One(const core::Start& v) { All(v.id, v.kind); }
  void One(const core::Signal& v) { All(v.id, v.kind); }
  void One(const core::Warned& v) { All(v.id, v.charge, v.swap_budget, v.text); }
  void One(const core::StopRequested& v) { All(v.id, v.reason, v.text, v.grace); }
  void One(const core::LeaseQueued& v) { All(v.token, v.id); }
  void One(const core::LeaseGranted& v) { All(v.id, v.client, v.forced); }
  void One(const core::LeaseDenied& v) { All(v.id, v.client, v.status); }
  void One(const core::Note& v) { All(v.kind, v.job, v.text); }

 private:
  Digest& digest_;
};

std::string Text(const std::optional<Bytes>& bytes) {
  return bytes ? FormatBytes(*bytes) : std::string("?");
}

std::string Text(const core::Outcome& outcome) {
  if (outcome.exit_code) return absl::StrCat("exit ", *outcome.exit_code);
  if (outcome.signal) return absl::StrCat("signal ", *outcome.signal);
  return "unseen";
}

std::string Text(const core::JobRecord& r) {
  static constexpr const char* kKinds[] = {"job", "guard", "session"};
  std::string text =
      absl::StrCat(kKinds[static_cast<int>(r.kind)], " ", core::Value(r.id), " ",
                   core::Name(r.state), " ", core::Name(r.reason), " [", r.reason_text, "] memory ",
                   Text(r.policy.memory), r.policy.memory_auto ? " auto" : "", " prio ",
                   r.policy.priority, " budget ", FormatBytes(r.policy.swap_budget), " charge ",
                   FormatBytes(r.charge), " bypassed ", r.bypassed);
  if (r.held) absl::StrAppend(&text, " held");
  if (!r.group.empty()) absl::StrAppend(&text, " group ", r.group);
  return text;
}

struct EventText {
  std::string operator()(const core::Submit& v) const {
    return absl::StrCat("Submit token ", v.token, " kind ", static_cast<int>(v.kind), " memory ",
                        Text(v.policy.memory), " prio ", v.policy.priority, " wait_free ",
                        v.policy.wait_free.value, v.held ? " held" : "", " group ", v.group,
                        " after ", v.after.size());
  }
  std::string operator()(const core::Restored& v) const {
    return absl::StrCat("Restored ", Text(v.record));
  }
  std::string operator()(const core::ProfileRestored& v) const {
    return absl::StrCat("ProfileRestored ", v.profile);
  }
  std::string operator()(const core::QueueHeldRestored& v) const {
    return absl::StrCat("QueueHeldRestored ", v.text);
  }
  std::string operator()(const core::HoldQueueAsked& v) const {
    return absl::StrCat("HoldQueueAsked ", v.text);
  }
  std::string operator()(const core::ReleaseQueueAsked&) const { return "ReleaseQueueAsked"; }
  std::string operator()(const core::UpdateAsked& v) const {
    return absl::StrCat("UpdateAsked ", core::Value(v.id), " prio ", v.policy.priority, " memory ",
                        Text(v.policy.memory), " budget ", FormatBytes(v.policy.swap_budget));
  }
  std::string operator()(const core::ProgramsReturning& v) const {
    return absl::StrCat("ProgramsReturning until ", absl::FormatDuration(v.until));
  }
  std::string operator()(const core::ForgetProfileAsked& v) const {
    return absl::StrCat("ForgetProfileAsked ", v.profile);
  }
  std::string operator()(const core::SampleTaken& v) const {
    const core::HostSample& h = v.sample.host;
    std::string text = absl::StrCat("SampleTaken level ", h.level ? h.level->value : -1,
                                    " available ", Text(h.available), " swap ", Text(h.swap_used));
    for (const core::ClientUsage& client : v.sample.clients) {
      absl::StrAppend(&text, " | ", core::Value(client.id), ": ", Text(client.usage.footprint),
                      " x", client.processes);
    }
    for (const core::BusyReading& busy : v.sample.busy) {
      absl::StrAppend(&text, " | ", busy.pattern, "=", busy.match);
    }
    return text;
  }
  std::string operator()(const core::Started& v) const {
    return absl::StrCat("Started ", core::Value(v.id), " pid ", v.root.pid, " ", v.boot_id);
  }
  std::string operator()(const core::StartFailed& v) const {
    return absl::StrCat("StartFailed ", core::Value(v.id), " ", v.text);
  }
  std::string operator()(const core::Exited& v) const {
    return absl::StrCat("Exited ", core::Value(v.id), " ", Text(v.outcome), " remaining ",
                        v.remaining);
  }
  std::string operator()(const core::ClientGone& v) const { return Id("ClientGone", v.id); }
  std::string operator()(const core::NodeFailed& v) const { return Id("NodeFailed", v.id); }
  std::string operator()(const core::SignalRefused& v) const { return Id("SignalRefused", v.id); }
  std::string operator()(const core::NotSaved& v) const { return Id("NotSaved", v.id); }
  std::string operator()(const core::CancelAsked& v) const { return Id("CancelAsked", v.id); }
  std::string operator()(const core::HoldAsked& v) const { return Id("HoldAsked", v.id); }
  std::string operator()(const core::ReleaseAsked& v) const { return Id("ReleaseAsked", v.id); }
  std::string operator()(const core::SuspendAsked& v) const { return Id("SuspendAsked", v.id); }
  std::string operator()(const core::ResumeAsked& v) const { return Id("ResumeAsked", v.id); }
  std::string operator()(const core::ConfigChanged& v) const {
    return absl::StrCat("ConfigChanged max_bypass ", v.config.max_bypass, " pool ",
                        Text(v.config.memory_pool), " reserve ", v.config.reserve_fraction);
  }
  std::string operator()(const core::DrainAsked& v) const {
    return v.drain ? "DrainAsked yes" : "DrainAsked no";
  }
  std::string operator()(const core::Acquire& v) const {
    return absl::StrCat("Acquire client ", core::Value(v.client), " ", FormatBytes(v.memory));
  }
  std::string operator()(const core::LeaseReleased& v) const {
    return absl::StrCat("LeaseReleased ", core::Value(v.id));
  }
  std::string operator()(const core::Tick&) const { return "Tick"; }

  static std::string Id(const char* name, core::JobId id) {
    return absl::StrCat(name, " ", core::Value(id));
  }
};

struct EffectText {
  std::string operator()(const core::Accepted& v) const {
    return absl::StrCat("Accepted token ", v.token, " id ", core::Value(v.id));
  }
  std::string operator()(const core::Refused& v) const {
    return absl::StrCat("Refused token ", v.token, " ", std::string(v.status.message()));
  }
  std::string operator()(const core::Save& v) const {
    return absl::StrCat(v.added ? "Save new " : "Save ", Text(v.record));
  }
  std::string operator()(const core::Learned& v) const {
    return absl::StrCat("Learned ", v.profile, " ", Text(v.run.footprint), " ",
                        Text(v.run.true_peak));
  }
  std::string operator()(const core::Forgotten& v) const {
    return absl::StrCat("Forgotten ", v.profile);
  }
  std::string operator()(const core::QueueHeld& v) const {
    return absl::StrCat("QueueHeld ", v.text.value_or("no more"));
  }
  std::string operator()(const core::Start& v) const {
    return absl::StrCat("Start ", core::Value(v.id));
  }
  std::string operator()(const core::Signal& v) const {
    static constexpr const char* kKinds[] = {"TERM", "KILL", "STOP", "CONT"};
    return absl::StrCat("Signal ", kKinds[static_cast<int>(v.kind)], " ", core::Value(v.id));
  }
  std::string operator()(const core::Warned& v) const {
    return absl::StrCat("Warned ", core::Value(v.id), " ", v.text);
  }
  std::string operator()(const core::StopRequested& v) const {
    return absl::StrCat("StopRequested ", core::Value(v.id), " ", v.text);
  }
  std::string operator()(const core::LeaseQueued& v) const {
    return absl::StrCat("LeaseQueued ", core::Value(v.id));
  }
  std::string operator()(const core::LeaseGranted& v) const {
    return absl::StrCat("LeaseGranted ", core::Value(v.id), " client ", core::Value(v.client),
                        v.forced ? " forced" : "");
  }
  std::string operator()(const core::LeaseDenied& v) const {
    return absl::StrCat("LeaseDenied ", core::Value(v.id), " ", std::string(v.status.message()));
  }
  std::string operator()(const core::Note& v) const {
    return absl::StrCat("Note ", v.kind, " ", v.job ? core::Value(*v.job) : 0, " ", v.text);
  }
};

}  // namespace

void Digest::Add(const std::string& text) {
  Add(static_cast<std::uint64_t>(text.size()));
  std::size_t at = 0;
  for (; at + 8 <= text.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data() + at, 8);
    Add(word);
  }
  std::uint64_t word = 0;
  std::memcpy(&word, text.data() + at, text.size() - at);
  Add(word);
}

void Digest::Add(const Instant& now) { Mixer(*this).All(now.awake, now.continuous, now.wall); }
void Digest::Add(const core::JobRecord& record) { Mixer(*this).One(record); }
void Digest::Add(const core::Event& event) {
  Add(static_cast<std::uint64_t>(event.index()));
  std::visit([this](const auto& v) { Mixer(*this).One(v); }, event);
}
void Digest::Add(const core::Effect& effect) {
  Add(static_cast<std::uint64_t>(effect.index()));
  std::visit([this](const auto& v) { Mixer(*this).One(v); }, effect);
}

std::string Describe(const core::Event& event) { return std::visit(EventText{}, event); }
std::string Describe(const core::Effect& effect) { return std::visit(EffectText{}, effect); }
std::string Describe(const Instant& now) {
  return absl::StrFormat("%.3f", absl::ToDoubleSeconds(now.awake));
}

}  // namespace stageload::sim
