// stageloadctl logs: a job's output, stdout to stdout and stderr to stderr.
#include <memory>
#include <string>

#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::string id;
  bool follow = false;
  bool only_stdout = false;
  bool only_stderr = false;
  bool json = false;
};

int Logs(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> id = ParseJobId(options.id);
  if (!id.ok()) return UsageError(invocation, command, std::string(id.status().message()));
  v1::ReadLogsRequest request;
  request.set_id(*id);
  request.set_follow(options.follow);
  if (options.only_stdout) request.set_stream(v1::LOG_STREAM_STDOUT);
  if (options.only_stderr) request.set_stream(v1::LOG_STREAM_STDERR);
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());

  bool reader_gone = false;
  const absl::Status status =
      ReadLogs(*connection, request, [&](const v1::ReadLogsResponse& piece) {
        reader_gone = !(options.json ? Out(Line(ToJson(piece))) : CopyPiece(piece));
        return !reader_gone;
      });
  if (!status.ok()) return Fail(status);
  return reader_gone ? kExitOther : kExitOk;
}

}  // namespace

void AddLogs(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("logs", "a job's output");
  const auto options = std::make_shared<Options>();
  command->add_option("id", options->id, "the job")->required()->type_name("ID");
  command->add_flag("-f,--follow", options->follow, "go on until the job ends");
  CLI::Option* out = command->add_flag("--stdout", options->only_stdout, "only its stdout");
  command->add_flag("--stderr", options->only_stderr, "only its stderr")->excludes(out);
  command->add_flag("--json", options->json, "JSON lines, one a piece of output");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Logs(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
