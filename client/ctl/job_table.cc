// Columns and order of the queue.
#include "client/ctl/job_table.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kNameColumns = 24;

// What it waits for; the first blocker is the one to look at.
std::string WaitsFor(const v1::Job& job) {
  if (job.blockers().empty()) return "";
  const std::string first = BlockerLine(job.blockers(0));
  if (job.blockers_size() == 1) return first;
  return absl::StrCat(first, " (+", job.blockers_size() - 1, " more)");
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

Table JobTable(const std::vector<v1::Job>& jobs) {
  Table table({{.title = "ID", .right = true},
               {.title = "STATE"},
               {.title = "NAME", .limit = kNameColumns},
               {.title = "MEMORY", .right = true, .spare = 1},
               {.title = "FOOTPRINT", .right = true, .spare = 3},
               {.title = "CHARGE / BUDGET", .right = true, .spare = 2},
               {.title = "WAITS FOR / REASON", .wrap = true}});
  for (const v1::Job& job : jobs) {
    const bool pending = job.state() == v1::JOB_STATE_PENDING;
    table.Add({absl::StrCat(job.id()),
               {Word(job.state()), ColourOf(job.state())},
               std::string(job.name()),
               Declared(job.policy()),
               SizeOrDash(job.has_footprint_bytes(), job.footprint_bytes()),
               ChargeOfBudget(job),
               pending ? WaitsFor(job) : ReasonLine(job)});
  }
  return table;
}

}  // namespace stageload::ctl
