// stageloadctl wait: until all of these jobs have ended; exits with the highest of their codes.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_control.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::vector<std::string> ids;
  std::string group;
  bool json = false;
};

int Wait(const Invocation& invocation, const CLI::App& command, const Options& options) {
  absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (!options.group.empty()) {
    ids = JobsOfGroup(*connection, options.group,
                      [](const v1::Job& job) { return !IsEnd(job.state()); });
    if (!ids.ok()) return Fail(ids.status());
  }
  // A wrong id is told before the right ones are waited for.
  for (const std::int64_t id : *ids) {
    const absl::StatusOr<v1::Job> job = GetJob(*connection, id);
    if (!job.ok()) return Fail(job.status());
  }
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  for (const std::int64_t id : *ids) {
    Progress progress;
    const absl::StatusOr<v1::Job> job = AwaitEnd(*connection, id, progress);
    code = std::max(code, Finish(job));
    if (job.ok()) document["jobs"].push_back(ToJson(*job));
  }
  if (options.json && !Out(Document(document))) return kExitOther;
  return code;
}

}  // namespace

void AddWait(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("wait", "until these jobs have ended; exits with the highest code");
  const auto options = std::make_shared<Options>();
  CLI::Option* ids = command->add_option("ids", options->ids, "the jobs")->type_name("ID");
  command
      ->add_option("--group", options->group, "those of this group that wait or run at this moment")
      ->type_name("NAME")
      ->excludes(ids);
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}, as they ended");
  AddExample(*command, invocation, {"stageloadctl wait 3 4 && echo both completed"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] {
      if (options->ids.empty() && options->group.empty()) {
        return UsageError(invocation, *command, "name jobs by their ids, or a --group");
      }
      return Wait(invocation, *command, *options);
    };
  });
}

}  // namespace stageload::ctl
