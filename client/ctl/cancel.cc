// stageloadctl cancel: ends jobs; a waiting one at once, a running one by SIGTERM and its grace
// time.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

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
  std::vector<std::string> ids;
  bool json = false;
};

int Cancel(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  for (const std::int64_t id : *ids) {
    const absl::StatusOr<v1::Job> job = CancelJob(*connection, id);
    if (job.ok()) {
      document["jobs"].push_back(ToJson(*job));
    } else {
      code = std::max(code, Fail(job.status()));
    }
  }
  if (options.json && !Out(Document(document))) return kExitOther;
  return code;
}

}  // namespace

void AddCancel(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("cancel", "end jobs");
  const auto options = std::make_shared<Options>();
  command->add_option("ids", options->ids, "the jobs")->required()->type_name("ID");
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}, as they stand");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Cancel(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
