#include "daemon/rpc/convert.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error_reason.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/utf8.h"
#include "daemon/engine/busy_programs.h"
#include "daemon/rpc/convert_fields.h"

namespace stageload::rpc {
namespace {

constexpr Bytes kMaxSpec = MiB(2);  // argv and environment together
constexpr int kMaxBusyPatterns = 32;
constexpr int kMaxPage = 1000;
constexpr int kDefaultPage = 100;

std::string BaseName(const std::string& path) {
  const std::size_t slash = path.find_last_of('/');
  const std::string base = slash == std::string::npos ? path : path.substr(slash + 1);
  return base.empty() ? path : base;
}

absl::Status CheckName(const std::string& name) { return CheckWord("name", name); }

template <typename Strings>
absl::Status CheckNoNul(const char* field, const Strings& strings) {
  for (const std::string& string : strings) {
    if (string.find('\0') != std::string::npos) return Invalid(field, "holds a NUL byte");
  }
  return absl::OkStatus();
}

absl::Status CheckArguments(const char* field,
                            const google::protobuf::RepeatedPtrField<std::string>& arguments) {
  if (arguments.empty() || arguments[0].empty()) {
    return Invalid(field, "empty; name the command to run");
  }
  return CheckNoNul(field, arguments);
}

absl::Status CheckVariables(const char* field,
                            const google::protobuf::RepeatedPtrField<std::string>& variables) {
  for (const std::string& variable : variables) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Invalid(field, absl::StrCat("\"", ToUtf8(variable.substr(0, 100)),
                                         "\" is not of the form NAME=value"));
    }
  }
  return CheckNoNul(field, variables);
}

absl::Status CheckSize(const v1::SubmitJobRequest& request) {
  Bytes size;
  for (const std::string& s : request.arguments()) size += Bytes(static_cast<int>(s.size()) + 1);
  for (const std::string& s : request.environment()) size += Bytes(static_cast<int>(s.size()) + 1);
  for (const std::string& s : request.variables()) size += Bytes(static_cast<int>(s.size()) + 1);
  if (size <= kMaxSpec) return absl::OkStatus();
  return Invalid("arguments", absl::StrCat("arguments and environment take ", size.count(),
                                           " bytes, the limit is ", kMaxSpec.count(), " (",
                                           FormatBytes(kMaxSpec), ")"));
}

absl::Status CheckFolder(const std::string& folder) {
  if (folder.empty() || folder[0] != '/') {
    return Invalid("working_directory",
                   absl::StrCat("\"", ToUtf8(folder), "\" is not an absolute path"));
  }
  if (folder.find('\0') != std::string::npos) {
    return Invalid("working_directory", "holds a NUL byte");
  }
  return absl::OkStatus();
}

absl::StatusOr<core::JobSpec> ToSpec(const v1::SubmitJobRequest& request) {
  for (const absl::Status& status :
       {CheckArguments("arguments", request.arguments()),
        CheckVariables("environment", request.environment()),
        CheckVariables("variables", request.variables()), CheckFolder(request.working_directory()),
        CheckSize(request)}) {
    if (!status.ok()) return status;
  }
  core::JobSpec spec;
  spec.argv.assign(request.arguments().begin(), request.arguments().end());
  spec.working_directory = request.working_directory();
  spec.environment.assign(request.environment().begin(), request.environment().end());
  spec.variables.assign(request.variables().begin(), request.variables().end());
  if (request.has_umask()) {
    if (request.umask() > 0777) {
      return Invalid("umask", absl::StrCat(request.umask(), " is above 0777 (511)"));
    }
    spec.umask = request.umask();
  }
  for (const v1::ResourceLimit& limit : request.limits()) {
    if (limit.resource() < 0 || limit.resource() > 31) {
      return Invalid("limits.resource", absl::StrCat(limit.resource(), " is no resource limit"));
    }
    spec.soft_limits.emplace_back(limit.resource(), limit.soft());
  }
  return spec;
}

void FillTerms(const core::JobRecord& record, v1::Job& out) {
  out.set_group(ToUtf8(record.group));
  out.set_profile(ToUtf8(record.profile));
  for (const core::JobId id : record.after) out.add_after(core::Value(id));
  if (record.begin_time) out.set_begin_time_ns(Nanoseconds(*record.begin_time));
  out.set_requeue(record.requeue);
  if (record.retry_of) out.set_retry_of(core::Value(*record.retry_of));
  out.set_held(record.held && record.state == core::JobState::kPending);
  out.set_notify(record.notify);
}

void FillWaited(const core::JobRecord& record, v1::Job& out) {
  std::vector<core::Waited> waited = record.waited;
  std::stable_sort(waited.begin(), waited.end(),
                   [](const core::Waited& a, const core::Waited& b) { return a.time > b.time; });
  for (const core::Waited& each : waited) {
    v1::Waited& filled = *out.add_waited();
    filled.set_kind(ToProto(each.kind));
    filled.set_time_ns(absl::ToInt64Nanoseconds(each.time));
    filled.set_text(ToUtf8(each.text));
  }
}

void FillTimes(const core::JobRecord& record, v1::Job& out) {
  out.set_submit_time_ns(Nanoseconds(record.submit_time));
  if (record.start_time) out.set_start_time_ns(Nanoseconds(*record.start_time));
  if (record.end_time) out.set_end_time_ns(Nanoseconds(*record.end_time));
}

void FillOutcome(const core::JobRecord& record, v1::Job& out) {
  if (record.outcome.exit_code) out.set_exit_code(*record.outcome.exit_code);
  if (record.outcome.signal) out.set_signal(*record.outcome.signal);
}

void FillResult(const jobs::Result& result, v1::Job& out) {
  v1::ResourceUse& use = *out.mutable_resource_use();
  use.set_user_time_ns(absl::ToInt64Nanoseconds(result.user_time));
  use.set_system_time_ns(absl::ToInt64Nanoseconds(result.system_time));
  use.set_max_rss_bytes(result.max_rss.count());
  out.set_log_dropped_bytes(result.log_dropped.count());
}

// The closed choices of a policy; the API's words are one above the core's.
absl::Status ReadChoices(const v1::Policy& in, core::Policy& policy) {
  if (in.charge_mode() < v1::CHARGE_MODE_UNSPECIFIED || in.charge_mode() > v1::CHARGE_MODE_OWN) {
    return Invalid("policy.charge_mode",
                   absl::StrCat(static_cast<int>(in.charge_mode()), " is no charge mode"));
  }
  if (in.charge_mode() != v1::CHARGE_MODE_UNSPECIFIED) {
    policy.charge_mode = static_cast<core::ChargeMode>(in.charge_mode() - 1);
  }
  if (in.on_over_budget() < v1::OVER_BUDGET_UNSPECIFIED ||
      in.on_over_budget() > v1::OVER_BUDGET_WARN) {
    return Invalid("policy.on_over_budget",
                   absl::StrCat(static_cast<int>(in.on_over_budget()), " is no action"));
  }
  if (in.on_over_budget() != v1::OVER_BUDGET_UNSPECIFIED) {
    policy.on_over_budget = static_cast<core::OverBudget>(in.on_over_budget() - 1);
  }
  if (in.memory_auto() && in.has_memory_bytes()) {
    return Invalid("policy.memory_auto", "say either this or memory_bytes");
  }
  return absl::OkStatus();
}

absl::Status ReadBusy(const v1::Policy& in, core::Policy& policy) {
  if (in.busy_patterns_size() > kMaxBusyPatterns) {
    return Invalid(
        "policy.busy_patterns",
        absl::StrCat(in.busy_patterns_size(), " patterns, the limit is ", kMaxBusyPatterns));
  }
  for (const std::string& pattern : in.busy_patterns()) {
    if (absl::Status word = CheckWord("policy.busy_patterns", pattern); !word.ok()) return word;
    // The empty pattern matches every program.
    const absl::Status status =
        pattern.empty() ? absl::InvalidArgumentError("empty") : engine::CheckBusyPattern(pattern);
    if (!status.ok()) return Invalid("policy.busy_patterns", std::string(status.message()));
    policy.busy.push_back(pattern);
  }
  return absl::OkStatus();
}

// Puts what is set in the message into the policy.
absl::Status ReadPolicy(const v1::Policy& in, core::Policy& policy) {
  if (in.has_wait_free_percent()) policy.wait_free = Percent{in.wait_free_percent()};
  if (in.has_swap_limit_bytes()) policy.swap_limit = Bytes(in.swap_limit_bytes());
  if (in.has_swap_budget_bytes()) policy.swap_budget = Bytes(in.swap_budget_bytes());
  if (in.has_kill_free_percent()) policy.kill_free = Percent{in.kill_free_percent()};
  if (in.has_memory_bytes()) policy.memory = Bytes(in.memory_bytes());
  if (in.has_priority()) policy.priority = in.priority();
  if (in.has_start_timeout_ns()) policy.start_timeout = absl::Nanoseconds(in.start_timeout_ns());
  if (in.has_grace_ns()) policy.grace = absl::Nanoseconds(in.grace_ns());
  if (in.has_time_limit_ns()) policy.time_limit = absl::Nanoseconds(in.time_limit_ns());
  if (in.has_quiet_for_ns()) policy.quiet_for = absl::Nanoseconds(in.quiet_for_ns());
  if (absl::Status status = ReadChoices(in, policy); !status.ok()) return status;
  return ReadBusy(in, policy);
}

absl::Status ClearField(const std::string& field, core::Policy& policy) {
  if (field == "memory_bytes") {
    policy.memory.reset();
    policy.memory_auto = false;
  } else if (field == "swap_limit_bytes") {
    policy.swap_limit.reset();
  } else if (field == "start_timeout_ns") {
    policy.start_timeout.reset();
  } else if (field == "time_limit_ns") {
    policy.time_limit.reset();
  } else if (field == "busy_patterns") {
    policy.busy.clear();
  } else {
    return Invalid("clear_fields", absl::StrCat("\"", field,
                                                "\" is none of memory_bytes, swap_limit_bytes, "
                                                "start_timeout_ns, time_limit_ns, busy_patterns"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<core::Policy> ToPolicy(const v1::Policy& in, core::Policy policy) {
  if (in.has_memory_bytes() || in.memory_auto()) {
    policy.memory.reset();
    policy.memory_auto = in.memory_auto();
  }
  if (in.busy_patterns_size() > 0) policy.busy.clear();
  if (absl::Status status = ReadPolicy(in, policy); !status.ok()) return status;
  if (!in.has_swap_budget_bytes()) {
    policy.swap_budget = core::DefaultSwapBudget(policy.swap_limit, policy.swap_budget);
  }
  if (absl::Status status = core::Validate(policy); !status.ok()) return status;
  return policy;
}

// Of a request that says which defaults are not to be.
template <typename Request>
absl::StatusOr<core::Policy> PolicyOf(const Request& request, core::Policy defaults) {
  for (const std::string& field : request.clear_fields()) {
    if (absl::Status status = ClearField(field, defaults); !status.ok()) return status;
  }
  return ToPolicy(request.policy(), std::move(defaults));
}

absl::StatusOr<core::Policy> ChangedPolicy(const v1::UpdateJobRequest& request,
                                           core::Policy policy) {
  const v1::Policy& in = request.policy();
  for (const std::string& field : request.clear_fields()) {
    if (absl::Status status = ClearField(field, policy); !status.ok()) return status;
  }
  if (in.busy_patterns_size() > 0) policy.busy.clear();
  if (absl::Status status = ReadPolicy(in, policy); !status.ok()) return status;
  if (in.has_memory_bytes()) policy.memory_auto = false;
  if (in.memory_auto()) {
    policy.memory_auto = true;
    policy.memory.reset();
  }
  return policy;
}

absl::StatusOr<std::vector<core::JobId>> ToJobIds(
    const char* field, const google::protobuf::RepeatedField<std::int64_t>& ids) {
  std::vector<core::JobId> jobs;
  for (const std::int64_t id : ids) {
    if (id < 1) return Invalid(field, absl::StrCat(id, " is not a job id; they start at 1"));
    jobs.push_back(core::JobId{id});
  }
  return jobs;
}

absl::StatusOr<engine::Terms> ToTerms(const v1::Terms& in, const std::string& name) {
  if (absl::Status group = CheckWord("terms.group", in.group()); !group.ok()) return group;
  if (absl::Status profile = CheckWord("terms.profile", in.profile()); !profile.ok()) {
    return profile;
  }
  engine::Terms terms;
  terms.group = in.group();
  terms.profile = in.profile().empty() ? name : in.profile();
  absl::StatusOr<std::vector<core::JobId>> after = ToJobIds("terms.after", in.after());
  if (!after.ok()) return after.status();
  terms.after = *std::move(after);
  if (in.has_begin_time_ns()) terms.begin_time = absl::FromUnixNanos(in.begin_time_ns());
  terms.held = in.held();
  return terms;
}

absl::StatusOr<engine::SubmitRequest> ToSubmit(const v1::SubmitJobRequest& request,
                                               const core::Defaults& defaults) {
  absl::StatusOr<core::JobSpec> spec = ToSpec(request);
  if (!spec.ok()) return spec.status();
  const absl::StatusOr<core::Policy> policy = PolicyOf(request, defaults.policy);
  if (!policy.ok()) return policy.status();
  if (absl::Status name = CheckName(request.name()); !name.ok()) return name;
  engine::SubmitRequest out;
  out.name = request.name().empty() ? BaseName(spec->argv[0]) : request.name();
  out.policy = *policy;
  absl::StatusOr<engine::Terms> terms = ToTerms(request.terms(), request.name());
  if (!terms.ok()) return terms.status();
  out.terms = *std::move(terms);
  if (absl::Status id = CheckWord("request_id", request.request_id()); !id.ok()) return id;
  out.request_id = request.request_id();
  out.requeue = request.requeue();
  out.notify = request.notify();
  out.spec = *std::move(spec);
  return out;
}

absl::StatusOr<engine::GuardRequest> ToGuard(const v1::GuardRequest& request,
                                             const core::Defaults& defaults) {
  if (request.pid() <= 0) {
    return Invalid("pid", absl::StrCat(request.pid(), " is not a process id"));
  }
  absl::Status arguments = CheckArguments("arguments", request.arguments());
  if (!arguments.ok()) return arguments;
  core::Policy of_guards = defaults.policy;
  of_guards.start_timeout = defaults.guard_start_timeout;
  const absl::StatusOr<core::Policy> policy = PolicyOf(request, std::move(of_guards));
  if (!policy.ok()) return policy.status();
  if (absl::Status name = CheckName(request.name()); !name.ok()) return name;
  const std::vector<std::string> argv(request.arguments().begin(), request.arguments().end());
  engine::GuardRequest out;
  out.name = request.name().empty() ? BaseName(argv[0]) : request.name();
  out.command = core::DisplayCommand({ShellWords(argv)});
  out.policy = *policy;
  absl::StatusOr<engine::Terms> terms = ToTerms(request.terms(), request.name());
  if (!terms.ok()) return terms.status();
  if (terms->held) {
    return Invalid("terms.held", "a guarded command cannot be held; cancel it instead");
  }
  out.terms = *std::move(terms);
  out.pid = request.pid();
  return out;
}

absl::StatusOr<core::Outcome> ToOutcome(const v1::ReportExitRequest& request) {
  if (request.has_exit_code() == request.has_signal()) {
    return Invalid("exit_code", "say exactly one of exit_code and signal");
  }
  core::Outcome outcome;
  if (request.has_exit_code()) {
    if (request.exit_code() < 0 || request.exit_code() > 255) {
      return Invalid("exit_code", absl::StrCat(request.exit_code(), " is not from 0 to 255"));
    }
    outcome.exit_code = request.exit_code();
  }
  if (request.has_signal()) {
    if (request.signal() < 1 || request.signal() > 127) {
      return Invalid("signal", absl::StrCat(request.signal(), " is not a signal"));
    }
    outcome.signal = request.signal();
  }
  if (request.has_start_errno()) {
    if (request.start_errno() < 1 || !outcome.exit_code) {
      return Invalid("start_errno",
                     "is above 0 and comes with the exit_code of a command that could not be run");
    }
    outcome.start_errno = request.start_errno();
  }
  return outcome;
}

absl::StatusOr<store::ListQuery> ToListQuery(const v1::ListJobsRequest& request) {
  store::ListQuery query;
  if (request.page_size() < 0 || request.page_size() > kMaxPage) {
    return Invalid("page_size", absl::StrCat(request.page_size(), " is not from 0 to ", kMaxPage));
  }
  query.limit = request.page_size() == 0 ? kDefaultPage : request.page_size();
  query.group = request.group();
  query.name_contains = request.name_contains();
  if (request.has_submitted_since_ns()) {
    query.submitted_since = absl::FromUnixNanos(request.submitted_since_ns());
  }
  if (request.order() != v1::JOB_ORDER_UNSPECIFIED && request.order() != v1::JOB_ORDER_QUEUE) {
    return Invalid("order", absl::StrCat(static_cast<int>(request.order()), " is no order"));
  }
  if (request.order() == v1::JOB_ORDER_UNSPECIFIED && !request.page_token().empty()) {
    const std::string& token = request.page_token();
    std::int64_t before = 0;
    const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), before);
    if (error != std::errc() || end != token.data() + token.size() || before < 1) {
      return Invalid("page_token", "is not one that ListJobs gave out");
    }
    query.before = core::JobId{before};
  }
  for (const int state : request.states()) {
    if (state < v1::JOB_STATE_PENDING || state > v1::JOB_STATE_UNKNOWN) {
      return Invalid("states", absl::StrCat(state, " is no job state"));
    }
    query.states.push_back(static_cast<core::JobState>(state));
  }
  return query;
}

// "part.priority.id"
absl::StatusOr<engine::QueuePlace> ToQueuePlace(const v1::ListJobsRequest& request) {
  engine::QueuePlace place;
  if (request.page_token().empty()) return place;
  const std::vector<std::string> words = absl::StrSplit(request.page_token(), '.');
  int part = 0;
  std::int64_t id = 0;
  if (words.size() != 3 || !absl::SimpleAtoi(words[0], &part) || part < 0 ||
      part > static_cast<int>(engine::QueuePlace::Part::kEnded) ||
      !absl::SimpleAtoi(words[1], &place.priority) || !absl::SimpleAtoi(words[2], &id) || id < 1) {
    return Invalid("page_token", "is not one that ListJobs gave out for this order");
  }
  place.part = static_cast<engine::QueuePlace::Part>(part);
  place.id = core::JobId{id};
  return place;
}

absl::StatusOr<core::JobId> ToJobId(std::int64_t id) {
  if (id >= 1) return core::JobId{id};
  return Invalid("id", absl::StrCat(id, " is not a job id; they start at 1"));
}

absl::StatusOr<engine::RetryRequest> ToRetry(const v1::RetryJobRequest& request) {
  const absl::StatusOr<core::JobId> id = ToJobId(request.id());
  if (!id.ok()) return id.status();
  engine::RetryRequest out{.id = *id};
  if (request.has_memory_bytes()) {
    if (request.memory_bytes() < 0) {
      return Invalid("memory_bytes", absl::StrCat(request.memory_bytes(), " bytes is negative"));
    }
    out.memory = Bytes(request.memory_bytes());
  }
  absl::StatusOr<std::vector<core::JobId>> after = ToJobIds("after", request.after());
  if (!after.ok()) return after.status();
  out.after = *std::move(after);
  if (absl::Status word = CheckWord("request_id", request.request_id()); !word.ok()) return word;
  out.request_id = request.request_id();
  return out;
}

v1::Job ToProto(const engine::JobView& job) {
  const core::JobRecord& record = job.record;
  v1::Job out;
  out.set_id(core::Value(record.id));
  out.set_kind(ToProto(record.kind));
  out.set_name(ToUtf8(record.name));
  out.set_command(ToUtf8(record.command));
  FillPolicy(record.policy, *out.mutable_policy());
  out.set_state(ToProto(record.state));
  out.set_reason(ToProto(record.reason));
  out.set_reason_text(ToUtf8(record.reason_text));
  FillOutcome(record, out);
  FillTimes(record, out);
  FillTerms(record, out);
  FillWaited(record, out);
  if (job.pid) out.set_pid(*job.pid);
  out.set_charge_bytes(record.charge.count());
  if (job.usage.footprint) out.set_footprint_bytes(job.usage.footprint->count());
  if (record.peak_footprint) out.set_peak_footprint_bytes(record.peak_footprint->count());
  if (record.true_peak) out.set_true_peak_bytes(record.true_peak->count());
  for (const core::Blocker& blocker : job.blockers) FillBlocker(blocker, *out.add_blockers());
  out.set_queue_position(job.queue_position);
  out.set_working_directory(ToUtf8(record.working_directory));
  out.set_log_directory(ToUtf8(job.folder));
  if (job.result) FillResult(*job.result, out);
  return out;
}

v1::ListJobsResponse ToProto(const engine::JobPage& page) {
  v1::ListJobsResponse out;
  for (const engine::JobView& job : page.jobs) *out.add_jobs() = ToProto(job);
  if (page.next) out.set_next_page_token(absl::StrCat(core::Value(*page.next)));
  if (const auto& next = page.next_place) {
    out.set_next_page_token(absl::StrCat(static_cast<int>(next->part), ".", next->priority, ".",
                                         core::Value(next->id)));
  }
  if (page.queue_held) out.set_queue_held(ToUtf8(*page.queue_held));
  return out;
}

v1::Profile ToProto(const engine::ProfileView& profile) {
  v1::Profile out;
  out.set_name(ToUtf8(profile.name));
  if (profile.estimate) out.set_estimate_bytes(profile.estimate->count());
  for (const core::RunPeaks& run : profile.runs) {
    v1::ProfileRun& filled = *out.add_runs();
    filled.set_job_id(core::Value(run.id));
    if (run.footprint) filled.set_peak_footprint_bytes(run.footprint->count());
    if (run.true_peak) filled.set_true_peak_bytes(run.true_peak->count());
  }
  return out;
}

}  // namespace stageload::rpc
