// stageloadctl version: this program's, with what it was built with, and, where one runs, the
// daemon's.
#include "base/version.h"

#include <unistd.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/build_facts.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

Json BuildJson(const BuildFacts& build) {
  return {{"compiler", build.compiler}, {"build_type", build.build_type},
          {"platform", build.platform}, {"day", build.day},
          {"grpc", build.grpc},         {"protobuf", build.protobuf},
          {"abseil", build.abseil}};
}

std::string BuildText(const BuildFacts& build, std::size_t width) {
  const std::string title = "built        ";
  return absl::StrCat(
      title,
      Hanging(absl::StrCat(build.day, " for ", build.platform, " by ", build.compiler, ", ",
                           build.build_type, "; gRPC ", build.grpc, ", Protobuf ", build.protobuf,
                           ", Abseil ", build.abseil),
              width, title.size()),
      "\n");
}

int Version(const Invocation& invocation, bool json) {
  ConnectOptions connect = invocation.connect;
  connect.autostart = false;
  const absl::StatusOr<Connection> connection = Connect(connect);
  // No daemon is an answer here; a socket that cannot be used is an error.
  if (!connection.ok() && !SaysThereIsNone(connection.status())) {
    return Fail(connection.status());
  }
  if (json) {
    const Json client{{"version", std::string(kVersion)},
                      {"api_level", kApiLevel},
                      {"build", BuildJson(FactsOfThisBuild())}};
    const Json document{{"client", client},
                        {"daemon", connection.ok() ? ToJson(connection->version) : Json()}};
    return Out(Document(document)) ? kExitOk : kExitOther;
  }
  const std::string daemon = connection.ok()
                                 ? absl::StrCat(std::string(connection->version.version()),
                                                " (pid ", connection->version.pid(), ")")
                                 : "not running";
  return Out(absl::StrCat("stageloadctl ", kVersion, "\nstageloadd   ", daemon, "\n",
                          BuildText(FactsOfThisBuild(), TerminalWidth(STDOUT_FILENO))))
             ? kExitOk
             : kExitOther;
}

}  // namespace

void AddVersion(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "version", "of this program and of the daemon, and what this one was built with");
  const auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "one document: {\"client\": ..., \"daemon\": ...}");
  AddExample(*command, invocation, {"stageloadctl version --json | jq -r .daemon.version"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Version(invocation, *json); };
  });
}

}  // namespace stageload::ctl
