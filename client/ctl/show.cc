// stageloadctl show: all that is known about one job.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "Footprint: the memory of all of its processes now; peak footprint: the most of it. True "
    "peak:\n"
    "the most by which the machine's available memory fell and its swap grew since its start,\n"
    "whoever's footprint has it; known only where no other job ran meanwhile. Charge: the swap "
    "put\n"
    "down to it, which its swap budget is about. Max rss: of the largest single process, as the\n"
    "kernel counts it.";

struct Options {
  std::string id;
  bool json = false;
};

// "label   value" lines, the values under each other; where a terminal has `width` columns, a long
// one goes on below itself.
class Fields {
 public:
  void Add(std::string label, std::string value) {
    if (!value.empty()) lines_.push_back({std::move(label), std::move(value), false});
  }
  // To be copied from there as one line.
  void AddWhole(std::string label, std::string value) {
    if (!value.empty()) lines_.push_back({std::move(label), std::move(value), true});
  }
  std::string Text(std::size_t width) const {
    std::size_t indent = 0;
    for (const Line& line : lines_) indent = std::max(indent, line.label.size() + 2);
    constexpr std::size_t kLeastBeside = 20;
    if (width < indent + kLeastBeside) width = 0;
    std::string text;
    for (const auto& [label, value, whole] : lines_) {
      absl::StrAppend(&text, label, std::string(indent - label.size(), ' '),
                      Hanging(Printable(value), whole ? 0 : width, indent), "\n");
    }
    return text;
  }

 private:
  struct Line {
    std::string label;
    std::string value;
    bool whole = false;
  };
  std::vector<Line> lines_;
};

std::string WallTime(std::int64_t ns) {
  const absl::Time time = absl::FromUnixNanos(ns);
  return absl::StrCat(absl::FormatTime("%Y-%m-%d %H:%M:%S", time, absl::LocalTimeZone()), "  (",
                      FormatSpan(absl::Now() - time), " ago)");
}

std::string Size(bool present, std::int64_t bytes) {
  return present ? FormatBytes(Bytes(bytes)) : "";
}
std::string Share(bool present, double percent) {
  return present ? FormatPercent(Percent{percent}) : "";
}
std::string Time(bool present, std::int64_t ns) {
  return present ? FormatSpan(absl::Nanoseconds(ns)) : "";
}

// With how long it lasts at most, where its text does not say that already.
std::string BlockerWithEnd(const v1::Blocker& blocker) {
  std::string line = BlockerLine(blocker);
  if (blocker.has_ends_in_ns() && blocker.kind() != v1::BLOCKER_KIND_NOT_BEFORE) {
    absl::StrAppend(&line, "; ends in ", FormatSpan(absl::Nanoseconds(blocker.ends_in_ns())));
  }
  return line;
}

// What it declares: as given, or as its profile's runs have taught.
std::string Declared(const v1::Job& job) {
  const v1::Policy& policy = job.policy();
  if (!policy.memory_auto()) return Size(policy.has_memory_bytes(), policy.memory_bytes());
  if (policy.has_memory_bytes()) {
    return absl::StrCat(FormatBytes(Bytes(policy.memory_bytes())), " (auto)");
  }
  return job.state() == v1::JOB_STATE_PENDING ? "auto" : "auto, of which nothing was known yet";
}

void AddStanding(const v1::Job& job, Fields& fields) {
  fields.Add("id", absl::StrCat(job.id()));
  fields.Add("name", std::string(job.name()));
  fields.Add("kind", Word(job.kind()));
  fields.Add("state", Word(job.state()));
  fields.Add("reason", job.reason() == v1::REASON_UNSPECIFIED ? std::string(job.reason_text())
                                                              : ReasonLine(job));
  if (job.has_exit_code()) fields.Add("exit code", absl::StrCat(job.exit_code()));
  if (job.has_signal()) fields.Add("signal", absl::StrCat(job.signal()));
  if (job.state() == v1::JOB_STATE_PENDING) {
    fields.Add("queue position", absl::StrCat(job.queue_position()));
  }
  const char* label = "waits for";
  for (const v1::Blocker& blocker : job.blockers()) {
    fields.Add(label, BlockerWithEnd(blocker));
    label = "";
  }
}

// The leases of what runs, with the time of each, and what it says of itself.
void AddLeases(const v1::Job& job, const v1::Frame& frame, Fields& fields) {
  const v1::ClientSample* client = IsActive(job) ? ClientOf(frame, job.id()) : nullptr;
  if (client == nullptr) return;
  fields.Add("stage", std::string(client->stage()));
  const char* label = "holds";
  for (const v1::LeaseSample& lease : client->leases()) {
    fields.Add(label, absl::StrCat("lease ", LeaseText(lease), ", since ",
                                   WallTime(lease.granted_time_ns())));
    label = "";
  }
  label = "waits for";
  for (const v1::WaitingRequest* request : WaitingLeasesOf(frame, job.id())) {
    fields.Add(label, absl::StrCat(WantsText(*request), ", since ", WallTime(request->since_ns())));
    label = "";
    for (const v1::Blocker& blocker : request->blockers()) fields.Add("", BlockerWithEnd(blocker));
  }
  label = "gauges";
  for (const v1::Gauge& gauge : client->gauges()) {
    fields.Add(label, GaugeText(gauge));
    label = "";
  }
}

// "12m  MEMORY: needs 10 GiB, ..." for each thing that it has waited for.
void AddWaited(const v1::Job& job, Fields& fields) {
  const char* label = job.state() == v1::JOB_STATE_PENDING ? "waited so far" : "waited for";
  for (const v1::Waited& waited : job.waited()) {
    std::string line =
        absl::StrCat(FormatSpan(absl::Nanoseconds(waited.time_ns())), "  ", Word(waited.kind()));
    if (!waited.text().empty()) absl::StrAppend(&line, ": ", std::string(waited.text()));
    fields.Add(label, std::move(line));
    label = "";
  }
}

void AddTerms(const v1::Job& job, Fields& fields) {
  fields.Add("group", std::string(job.group()));
  fields.Add("profile", std::string(job.profile()));
  if (job.has_retry_of()) fields.Add("runs again", absl::StrCat("job ", job.retry_of()));
  if (job.after_size() > 0) {
    fields.Add("starts after", absl::StrCat(job.after_size() == 1 ? "job " : "jobs ",
                                            absl::StrJoin(job.after(), ", ")));
  }
  if (job.has_begin_time_ns()) {
    fields.Add("not before",
               absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixNanos(job.begin_time_ns()),
                                absl::LocalTimeZone()));
  }
  if (job.held()) fields.Add("held", "until a user releases it");
  if (job.requeue()) fields.Add("requeue", "waits again, held, if the machine goes down under it");
  if (job.notify()) fields.Add("notify", "a desktop notification shows its end");
  const char* label = "busy";
  for (const std::string& pattern : job.policy().busy_patterns()) {
    fields.Add(label, pattern);
    label = "";
  }
  if (job.policy().busy_patterns_size() > 0) {
    fields.Add("quiet for", Time(job.policy().has_quiet_for_ns(), job.policy().quiet_for_ns()));
  }
}

void AddCommand(const v1::Job& job, Fields& fields) {
  fields.AddWhole("command", std::string(job.command()));
  fields.AddWhole("folder", std::string(job.working_directory()));
  fields.AddWhole("log", std::string(job.log_directory()));
  if (job.has_pid()) fields.Add("pid", absl::StrCat(job.pid()));
  fields.Add("submitted", WallTime(job.submit_time_ns()));
  if (job.has_start_time_ns()) {
    fields.Add("started", WallTime(job.start_time_ns()));
    fields.Add("waited", FormatSpan(absl::Nanoseconds(job.start_time_ns() - job.submit_time_ns())));
  }
  if (job.has_end_time_ns()) fields.Add("ended", WallTime(job.end_time_ns()));
  if (job.has_start_time_ns() && job.has_end_time_ns()) {
    fields.Add("ran for", FormatSpan(absl::Nanoseconds(job.end_time_ns() - job.start_time_ns())));
  }
}

void AddMemory(const v1::Job& job, Fields& fields) {
  const v1::Policy& policy = job.policy();
  if (job.has_resource_use()) {
    const v1::ResourceUse& use = job.resource_use();
    fields.Add("cpu time",
               absl::StrCat(FormatSpan(absl::Nanoseconds(use.user_time_ns())), " user, ",
                            FormatSpan(absl::Nanoseconds(use.system_time_ns())), " system"));
    fields.Add("max rss", Size(true, use.max_rss_bytes()));
  }
  if (job.log_dropped_bytes() > 0) fields.Add("log dropped", Size(true, job.log_dropped_bytes()));
  fields.Add("footprint", Size(job.has_footprint_bytes(), job.footprint_bytes()));
  fields.Add("peak footprint", Size(job.has_peak_footprint_bytes(), job.peak_footprint_bytes()));
  fields.Add("true peak", Size(job.has_true_peak_bytes(), job.true_peak_bytes()));
  fields.Add("charge", Size(true, job.charge_bytes()));
  fields.Add("swap budget", Size(policy.has_swap_budget_bytes(), policy.swap_budget_bytes()));
  fields.Add("swap limit", Size(policy.has_swap_limit_bytes(), policy.swap_limit_bytes()));
  // The usual ones go without saying.
  if (policy.charge_mode() != v1::CHARGE_MODE_SYSTEM) {
    fields.Add("charge mode", Word(policy.charge_mode()));
  }
  if (policy.on_over_budget() != v1::OVER_BUDGET_STOP) {
    fields.Add("on over budget", Word(policy.on_over_budget()));
  }
  fields.Add("memory", Declared(job));
  fields.Add("wait free", Share(policy.has_wait_free_percent(), policy.wait_free_percent()));
  fields.Add("kill free", Share(policy.has_kill_free_percent(), policy.kill_free_percent()));
  if (policy.has_priority()) fields.Add("priority", absl::StrCat(policy.priority()));
  fields.Add("start timeout", Time(policy.has_start_timeout_ns(), policy.start_timeout_ns()));
  fields.Add("time limit", Time(policy.has_time_limit_ns(), policy.time_limit_ns()));
  fields.Add("grace", Time(policy.has_grace_ns(), policy.grace_ns()));
}

int Show(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> id = ParseJobId(options.id);
  if (!id.ok()) return UsageError(invocation, command, std::string(id.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Job> job = GetJob(*connection, *id);
  if (!job.ok()) return Fail(job.status());
  const v1::Frame frame = IsActive(*job) ? FrameIfAny(*connection) : v1::Frame();
  if (options.json) return Out(Document(ToJson(*job, frame))) ? kExitOk : kExitOther;
  Fields fields;
  AddStanding(*job, fields);
  AddLeases(*job, frame, fields);
  AddWaited(*job, fields);
  AddTerms(*job, fields);
  AddCommand(*job, fields);
  AddMemory(*job, fields);
  return Out(fields.Text(TerminalWidth(STDOUT_FILENO))) ? kExitOk : kExitOther;
}

}  // namespace

void AddShow(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("show", "all that is known about one job");
  const auto options = std::make_shared<Options>();
  command->add_option("id", options->id, "the job")->required()->type_name("ID");
  command->add_flag("--json", options->json,
                    "one document: the job; while it runs with its leases and gauges");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation, {"stageloadctl show 3"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Show(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
