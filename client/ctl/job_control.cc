#include "client/ctl/job_control.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "client/ctl/exit_code.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::vector<std::string> ids;
  bool queue = false;
  bool json = false;
};

int AskEach(const Invocation& invocation, const CLI::App& command, const Options& options,
            const JobCall& call) {
  const absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  for (const std::int64_t id : *ids) {
    const absl::StatusOr<v1::Job> job = call(*connection, id);
    if (job.ok()) {
      document["jobs"].push_back(ToJson(*job));
    } else {
      code = std::max(code, Fail(job.status()));
    }
  }
  if (options.json && !Out(Document(document))) return kExitOther;
  return code;
}

int AskQueue(const Invocation& invocation, const QueueCall& call) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::Status status = call(*connection);
  return status.ok() ? kExitOk : Fail(status);
}

}  // namespace

CLI::App* AddJobControl(CLI::App& app, Invocation& invocation, const std::string& name,
                        const std::string& help, JobCall call, QueueCall queue_call) {
  CLI::App* command = app.add_subcommand(name, help);
  const auto options = std::make_shared<Options>();
  CLI::Option* ids = command->add_option("ids", options->ids, "the jobs")->type_name("ID");
  if (queue_call == nullptr) {
    ids->required();
  } else {
    command->add_flag("--queue", options->queue, "the whole queue: all jobs, also those to come")
        ->excludes(ids);
  }
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}, as they stand");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] {
      if (options->queue) return AskQueue(invocation, queue_call);
      if (options->ids.empty()) {
        return UsageError(invocation, *command, "name jobs by their ids, or the --queue");
      }
      return AskEach(invocation, *command, *options, call);
    };
  });
  return command;
}

}  // namespace stageload::ctl
