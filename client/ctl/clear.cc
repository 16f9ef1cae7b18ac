// stageloadctl clear: forgets jobs that have ended, with their logs.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_list.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::vector<std::string> ids;
  bool completed = false;
};

absl::Status DeleteJob(const Connection& connection, std::int64_t id) {
  v1::DeleteJobRequest request;
  request.set_id(id);
  return CallJobs<v1::DeleteJobRequest, v1::DeleteJobResponse>(
             connection, &v1::JobService::Stub::DeleteJob, request)
      .status();
}

// What was named, else everything that has ended.
absl::StatusOr<std::vector<std::int64_t>> WhatToForget(const Connection& connection,
                                                       const std::vector<std::int64_t>& named,
                                                       bool completed) {
  if (!named.empty()) return named;
  v1::ListJobsRequest request;
  request.add_states(v1::JOB_STATE_COMPLETED);
  for (int state = v1::JOB_STATE_FAILED; !completed && state <= v1::JOB_STATE_UNKNOWN; ++state) {
    request.add_states(static_cast<v1::JobState>(state));
  }
  std::vector<std::int64_t> ids;
  const absl::Status status = ListJobs(connection, request, [&ids](const v1::Job& job) {
    ids.push_back(job.id());
    return true;
  });
  if (!status.ok()) return status;
  return ids;
}

int Clear(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::vector<std::int64_t>> named = ParseJobIds(options.ids);
  if (!named.ok()) return UsageError(invocation, command, std::string(named.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const auto ids = WhatToForget(*connection, *named, options.completed);
  if (!ids.ok()) return Fail(ids.status());
  int code = kExitOk;
  int forgotten = 0;
  for (const std::int64_t id : *ids) {
    const absl::Status status = DeleteJob(*connection, id);
    // Somebody else may have cleared at the same time.
    if (!status.ok() && !(named->empty() && absl::IsNotFound(status))) {
      code = std::max(code, Fail(status));
    } else {
      ++forgotten;
    }
  }
  Note(absl::StrCat(forgotten, forgotten == 1 ? " job" : " jobs", " forgotten"));
  return code;
}

}  // namespace

void AddClear(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "clear", "forget jobs that have ended, with their logs: those named, or all");
  const auto options = std::make_shared<Options>();
  CLI::Option* ids = command->add_option("ids", options->ids, "the jobs")->type_name("ID");
  command->add_flag("--completed", options->completed, "only those that completed")->excludes(ids);
  AddExample(*command, invocation, {"stageloadctl clear --completed"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Clear(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
