#include "client/ctl/job_control.h"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/job_list.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::vector<std::string> ids;
  std::string group;
  bool queue = false;
  bool json = false;
};

// In the same order.
std::vector<std::int64_t> Once(const std::vector<std::int64_t>& ids) {
  std::set<std::int64_t> seen;
  std::vector<std::int64_t> once;
  for (const std::int64_t id : ids) {
    if (seen.insert(id).second) once.push_back(id);
  }
  return once;
}

int AskEach(const Invocation& invocation, const CLI::App& command, const Options& options,
            const JobControl& control) {
  absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (!options.group.empty()) {
    ids = JobsOfGroup(*connection, options.group, control.is_meant);
    if (!ids.ok()) return Fail(ids.status());
  }
  const std::vector<std::int64_t> once = Once(*ids);
  std::vector<std::int64_t> order = once;
  if (control.newest_first) std::sort(order.begin(), order.end(), std::greater<>());
  std::map<std::int64_t, absl::StatusOr<v1::Job>> answers;
  for (const std::int64_t id : order) answers.emplace(id, control.call(*connection, id));
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  for (const std::int64_t id : once) {
    const absl::StatusOr<v1::Job>& job = answers.at(id);
    if (job.ok()) {
      document["jobs"].push_back(ToJson(*job));
    } else {
      code = std::max(code, Fail(job.status()));
    }
  }
  if (options.json && !Out(Document(document))) return kExitOther;
  return code;
}

int AskQueue(const Invocation& invocation, const JobControl& control, bool json) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (const absl::Status status = control.queue_call(*connection); !status.ok()) {
    return Fail(status);
  }
  if (json && !Out(Document(Json{{"queue_held", control.holds_queue}}))) return kExitOther;
  return kExitOk;
}

}  // namespace

absl::StatusOr<std::vector<std::int64_t>> JobsOfGroup(const Connection& connection,
                                                      const std::string& group, IsMeant is_meant) {
  v1::ListJobsRequest request;
  request.set_group(group);
  std::vector<std::int64_t> ids;
  bool any = false;
  const absl::Status status = ListJobs(connection, request, [&](const v1::Job& job) {
    any = true;
    if (is_meant(job)) ids.push_back(job.id());
    return true;
  });
  if (!status.ok()) return status;
  if (!any) {
    return absl::InvalidArgumentError(
        absl::StrCat("--group: no job is of a group \"", group, "\""));
  }
  std::reverse(ids.begin(), ids.end());  // they come newest first
  return ids;
}

CLI::App* AddJobControl(CLI::App& app, Invocation& invocation, JobControl control) {
  CLI::App* command = app.add_subcommand(control.name, control.help);
  const auto options = std::make_shared<Options>();
  CLI::Option* ids = command->add_option("ids", options->ids, "the jobs")->type_name("ID");
  CLI::Option* group =
      command->add_option("--group", options->group, "those of this group that it can be done to")
          ->type_name("NAME")
          ->excludes(ids);
  if (control.queue_call != nullptr) {
    command->add_flag("--queue", options->queue, "the whole queue: all jobs, also those to come")
        ->excludes(ids)
        ->excludes(group);
  }
  command->add_flag("--json", options->json,
                    control.queue_call == nullptr
                        ? "one document: {\"jobs\": [...]}, as they stand"
                        : "one document: {\"jobs\": [...]}, as they stand; with --queue "
                          "{\"queue_held\": ...}");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] {
      if (options->queue) return AskQueue(invocation, control, options->json);
      if (options->ids.empty() && options->group.empty()) {
        return UsageError(invocation, *command,
                          control.queue_call == nullptr
                              ? "name jobs by their ids, or a --group"
                              : "name jobs by their ids, a --group, or the --queue");
      }
      return AskEach(invocation, *command, *options, control);
    };
  });
  return command;
}

}  // namespace stageload::ctl
