// Columns and order of the queue.
#include "client/ctl/job_table.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kNameColumns = 24;

// The first blocker is the one to look at.
std::string WaitsFor(const google::protobuf::RepeatedPtrField<v1::Blocker>& blockers) {
  if (blockers.empty()) return "";
  const std::string first = BlockerLine(blockers[0]);
  if (blockers.size() == 1) return first;
  return absl::StrCat(first, " (+", blockers.size() - 1, " more)");
}

// What it waits for, or why it is as it is.
std::string WaitsForOrReason(const v1::Job& job, const v1::Frame& frame) {
  if (job.state() == v1::JOB_STATE_PENDING) return WaitsFor(job.blockers());
  const std::string reason = ReasonLine(job);
  if (!reason.empty() || !IsActive(job)) return reason;
  const std::vector<const v1::WaitingRequest*> leases = WaitingLeasesOf(frame, job.id());
  if (leases.empty()) return "";
  const std::string wants = WantsText(*leases.front());
  const std::string waits_for = WaitsFor(leases.front()->blockers());
  return waits_for.empty() ? wants : absl::StrCat(wants, ": ", waits_for);
}

// "auto" until its profile's runs have told how much.
std::string Declared(const v1::Policy& policy) {
  if (policy.memory_auto() && !policy.has_memory_bytes()) return "auto";
  return SizeOrDash(policy.has_memory_bytes(), policy.memory_bytes());
}

std::string ChargeOfBudget(const v1::Job& job) {
  if (job.state() == v1::JOB_STATE_PENDING) return "-";
  return absl::StrCat(
      FormatBytes(Bytes(job.charge_bytes())), " / ",
      SizeOrDash(job.policy().has_swap_budget_bytes(), job.policy().swap_budget_bytes()));
}

}  // namespace

std::string ChargeOfBudget(std::int64_t charge_bytes, std::int64_t budget_bytes) {
  return absl::StrCat(FormatBytes(Bytes(charge_bytes)), " / ", FormatBytes(Bytes(budget_bytes)));
}

std::string SizeOrDash(bool present, std::int64_t bytes) {
  return present ? FormatBytes(Bytes(bytes)) : "-";
}

Colour ColourOf(v1::JobState state) {
  switch (state) {
    case v1::JOB_STATE_PENDING:
    case v1::JOB_STATE_SUSPENDED:
    case v1::JOB_STATE_STOPPING:
      return Colour::kYellow;
    case v1::JOB_STATE_RUNNING:
      return Colour::kGreen;
    case v1::JOB_STATE_COMPLETED:
      return Colour::kNone;
    default:
      return Colour::kRed;
  }
}

Table JobTable(const std::vector<v1::Job>& jobs, const v1::Frame& frame) {
  Table table({{.title = "ID", .right = true},
               {.title = "STATE"},
               {.title = "NAME", .limit = kNameColumns},
               {.title = "MEMORY", .right = true, .spare = 1},
               {.title = "FOOTPRINT", .right = true, .spare = 3},
               {.title = "CHARGE / BUDGET", .right = true, .spare = 2},
               {.title = "WAITS FOR / REASON", .wrap = true}});
  for (const v1::Job& job : jobs) {
    table.Add({absl::StrCat(job.id()),
               {Word(job.state()), ColourOf(job.state())},
               std::string(job.name()),
               Declared(job.policy()),
               SizeOrDash(job.has_footprint_bytes(), job.footprint_bytes()),
               ChargeOfBudget(job),
               WaitsForOrReason(job, frame)});
  }
  return table;
}

}  // namespace stageload::ctl
