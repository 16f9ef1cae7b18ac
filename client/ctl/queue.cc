// stageloadctl queue: what waits, in order and with what it waits for, then what runs.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_list.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  bool all = false;
  bool json = false;
};

int Queue(const Invocation& invocation, const Options& options) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const std::vector<v1::JobState> living = {v1::JOB_STATE_PENDING, v1::JOB_STATE_RUNNING,
                                            v1::JOB_STATE_SUSPENDED, v1::JOB_STATE_STOPPING};
  absl::StatusOr<std::vector<v1::Job>> jobs =
      ListJobs(*connection, options.all ? std::vector<v1::JobState>() : living);
  if (!jobs.ok()) return Fail(jobs.status());
  SortForQueue(*jobs);
  if (options.json) {
    Json document{{"jobs", Json::array()}};
    for (const v1::Job& job : *jobs) document["jobs"].push_back(ToJson(job));
    return Out(Document(document)) ? kExitOk : kExitOther;
  }
  const Table table = JobTable(*jobs);
  return Out(table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO))) ? kExitOk
                                                                                 : kExitOther;
}

}  // namespace

void AddQueue(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("queue", "what waits and why, and what runs");
  const auto options = std::make_shared<Options>();
  command->add_flag("--all", options->all, "also what has ended");
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Queue(invocation, *options); };
  });
}

}  // namespace stageload::ctl
