// stageloadctl status: the machine, the daemon and who holds memory, on one screen.
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kNameColumns = 24;

std::string DaemonLine(const Connection& connection) {
  const v1::GetVersionResponse& daemon = connection.version;
  const absl::Duration up = absl::Now() - absl::FromUnixNanos(daemon.start_time_ns());
  return absl::StrCat("daemon    stageloadd ", std::string(daemon.version()), ", pid ",
                      daemon.pid(), ", up ", FormatSpan(up), "\n");
}

std::string ClientTable(const v1::Frame& frame) {
  Table table({{.title = "ID", .right = true},
               {.title = "STATE"},
               {.title = "NAME", .limit = kNameColumns},
               {.title = "MEMORY", .right = true},
               {.title = "FOOTPRINT", .right = true},
               {.title = "SWAPPED", .right = true},
               {.title = "CHARGE / BUDGET", .right = true}});
  for (const v1::ClientSample& client : frame.clients()) {
    table.Add({absl::StrCat(client.job_id()),
               {Word(client.state()), ColourOf(client.state())},
               std::string(client.name()),
               SizeOrDash(client.has_memory_bytes(), client.memory_bytes()),
               SizeOrDash(client.has_footprint_bytes(), client.footprint_bytes()),
               SizeOrDash(client.has_swapped_bytes(), client.swapped_bytes()),
               absl::StrCat(FormatBytes(Bytes(client.charge_bytes())), " / ",
                            FormatBytes(Bytes(client.swap_budget_bytes())))});
  }
  if (table.empty()) return "";
  return "\n" + table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
}

std::string Screen(const Connection& connection, const v1::Frame& frame) {
  std::string text = DaemonLine(connection);
  if (connection.version.dry_run()) {
    absl::StrAppend(&text, "dry run   nobody is stopped or suspended unless a user asks\n");
  }
  absl::StrAppend(&text, "memory    ", HostLine(frame.host()), "\n");
  absl::StrAppend(&text, "jobs      ", frame.active(), " active, ", frame.pending(), " waiting, ",
                  FormatBytes(Bytes(frame.reserved_bytes())),
                  " promised beyond what they take now\n");
  const char* label = "blocked   ";
  for (const v1::Blocker& blocker : frame.blockers()) {
    absl::StrAppend(&text, label, Printable(BlockerLine(blocker)), "\n");
    label = "          ";
  }
  return text + ClientTable(frame);
}

int Status(const Invocation& invocation, bool json) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Frame> frame = NewestFrame(*connection);
  if (!frame.ok()) return Fail(frame.status());
  if (!json) return Out(Screen(*connection, *frame)) ? kExitOk : kExitOther;
  const Json document{{"daemon", ToJson(connection->version)},
                      {"socket", connection->socket},
                      {"frame", ToJson(*frame)}};
  return Out(Document(document)) ? kExitOk : kExitOther;
}

}  // namespace

void AddStatus(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("status", "the machine's memory and who holds it");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json,
                    "one document: {\"daemon\": ..., \"socket\": ..., \"frame\": ...}");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Status(invocation, *json); };
  });
}

}  // namespace stageload::ctl
