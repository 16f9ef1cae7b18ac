// stageloadctl status: the machine, the daemon, who holds memory, what waits for it and what
// happened last, on one screen.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kNameColumns = 24;
// `top` has as many.
constexpr std::size_t kEvents = 20;
// A person sees the newest of them; `history` has the rest.
constexpr std::size_t kShownEvents = 8;
constexpr int kToldOfWaiting = 20;  // Frame.waiting has no more

std::string TableText(const std::string& title, const Table& table) {
  if (table.empty()) return "";
  return absl::StrCat("\n", title, title.empty() ? "" : "\n",
                      table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO)));
}

bool AnyHas(const v1::Frame& frame, bool (*has)(const v1::ClientSample&)) {
  return std::any_of(frame.clients().begin(), frame.clients().end(), has);
}

std::string ClientTable(const v1::Frame& frame) {
  const bool stages =
      AnyHas(frame, [](const v1::ClientSample& client) { return !client.stage().empty(); });
  const bool notes = AnyHas(frame, [](const v1::ClientSample& client) {
    return !client.leases().empty() || !client.gauges().empty();
  });
  std::vector<Column> columns{{.title = "ID", .right = true},
                              {.title = "STATE"},
                              {.title = "NAME", .limit = kNameColumns},
                              {.title = "MEMORY", .right = true, .spare = 3},
                              {.title = "FOOTPRINT", .right = true, .spare = 1},
                              {.title = "SWAPPED", .right = true, .spare = 5},
                              {.title = "CHARGE / BUDGET", .right = true, .spare = 4},
                              {.title = "PROCESSES", .right = true, .spare = 6}};
  if (stages) columns.push_back({.title = "STAGE", .limit = kNameColumns, .spare = 2});
  if (notes) columns.push_back({.title = "LEASES AND GAUGES", .wrap = true});
  Table table(columns);
  for (const v1::ClientSample& client : frame.clients()) {
    std::vector<Cell> row{absl::StrCat(client.job_id()),
                          {Word(client.state()), ColourOf(client.state())},
                          std::string(client.name()),
                          SizeOrDash(client.has_memory_bytes(), client.memory_bytes()),
                          SizeOrDash(client.has_footprint_bytes(), client.footprint_bytes()),
                          SizeOrDash(client.has_swapped_bytes(), client.swapped_bytes()),
                          ChargeOfBudget(client.charge_bytes(), client.swap_budget_bytes()),
                          absl::StrCat(client.processes())};
    if (stages) row.emplace_back(std::string(client.stage()));
    if (notes) row.emplace_back(LeasesAndGauges(client));
    table.Add(std::move(row));
  }
  return TableText("", table);
}

std::string WaitingTable(const v1::Frame& frame, absl::Time now) {
  Table table({{.title = "ID", .right = true},
               {.title = "NAME", .limit = kNameColumns},
               {.title = "WANTS"},
               {.title = "FOR", .right = true},
               {.title = "WAITS FOR", .wrap = true}});
  int starts = 0;
  for (const v1::WaitingRequest& request : frame.waiting()) {
    if (request.lease_id() == 0) ++starts;
    const std::vector<std::string> blockers = BlockerTexts(request);
    table.Add({absl::StrCat(request.job_id()), std::string(request.name()), WantsText(request),
               FormatSpan(now - absl::FromUnixNanos(request.since_ns())), blockers.front()});
    for (std::size_t i = 1; i < blockers.size(); ++i) {
      table.Add({std::string(), std::string(), std::string(), std::string(), blockers[i]});
    }
  }
  std::string text = TableText("waiting", table);
  if (!text.empty() && frame.pending() > starts) {
    absl::StrAppend(&text, "and ", frame.pending() - starts, " more\n");
  }
  return text;
}

// "memory    level 63 %, ..."; what is too wide for the terminal goes on under its begin.
std::string Field(const std::string& label, const std::string& value) {
  constexpr std::size_t kLabelColumns = 10;
  return absl::StrCat(label, std::string(kLabelColumns - label.size(), ' '),
                      Hanging(Printable(value), TerminalWidth(STDOUT_FILENO), kLabelColumns), "\n");
}

// Of a daemon that does not tell what waits, the first one's blockers.
std::string BlockedLines(const v1::Frame& frame) {
  std::string text;
  if (!frame.waiting().empty()) return text;
  const char* label = "blocked";
  for (const v1::Blocker& blocker : frame.blockers()) {
    text += Field(label, BlockerLine(blocker));
    label = "";
  }
  return text;
}

// " and 2 leases": those of `waiting`, which come first there.
std::string WaitingLeases(const v1::Frame& frame) {
  const auto leases =
      std::count_if(frame.waiting().begin(), frame.waiting().end(),
                    [](const v1::WaitingRequest& request) { return request.lease_id() != 0; });
  if (leases == 0) return "";
  return absl::StrCat(" and ", leases,
                      leases == frame.waiting_size() && leases >= kToldOfWaiting ? " or more" : "",
                      leases == 1 ? " lease" : " leases");
}

std::string Screen(const Connection& connection, const v1::Frame& frame,
                   const std::vector<v1::Event>& events) {
  const absl::Time now = absl::Now();
  std::string text = Field("daemon", DaemonText(connection.version, now));
  if (connection.version.dry_run()) {
    text += Field("dry run", "nobody is stopped or suspended unless a user asks");
  }
  text += Field("memory", HostLine(frame.host()));
  if (frame.host().has_gpu_wired_limit_bytes()) {
    text += Field(
        "gpu", absl::StrCat("may wire ", FormatBytes(Bytes(frame.host().gpu_wired_limit_bytes()))));
  }
  text += Field("jobs",
                absl::StrCat(frame.active(), " active, ", frame.pending(), " waiting",
                             WaitingLeases(frame), ", ", FormatBytes(Bytes(frame.reserved_bytes())),
                             " promised beyond what they take now"));
  if (frame.has_queue_held()) {
    text += Field("queue", absl::StrCat("held: ", std::string(frame.queue_held())));
  }
  absl::StrAppend(&text, BlockedLines(frame), ClientTable(frame), WaitingTable(frame, now));
  const std::size_t shown = std::min(events.size(), kShownEvents);
  const std::vector<v1::Event> newest(events.end() - static_cast<std::ptrdiff_t>(shown),
                                      events.end());
  return text + TableText("newest events", EventTable(newest, absl::LocalTimeZone(), true));
}

Json AsJson(const Connection& connection, const v1::Frame& frame,
            const std::vector<v1::Event>& events) {
  Json document{{"daemon", ToJson(connection.version)},
                {"socket", connection.socket},
                {"frame", ToJson(frame)},
                {"events", Json::array()}};
  for (const v1::Event& event : events) document["events"].push_back(ToJson(event));
  return document;
}

int Status(const Invocation& invocation, bool json) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Frame> frame = NewestFrame(*connection);
  if (!frame.ok()) return Fail(frame.status());
  const absl::StatusOr<std::vector<v1::Event>> events = NewestEventsIfKept(*connection, kEvents);
  if (!events.ok()) return Fail(events.status());
  const std::string text =
      json ? Document(AsJson(*connection, *frame, *events)) : Screen(*connection, *frame, *events);
  return Out(text) ? kExitOk : kExitOther;
}

}  // namespace

void AddStatus(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "status", "the machine's memory, who holds it, what waits for it and what happened last");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json,
                    "one document: {\"daemon\": ..., \"socket\": ..., \"frame\": ..., \"events\": "
                    "[the newest 20, oldest first]}");
  AddExample(*command, invocation, {"stageloadctl status --json | jq .frame.host.level_percent"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Status(invocation, *json); };
  });
}

}  // namespace stageload::ctl
