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
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr int kPage = 1000;

struct Options {
  bool all = false;
  bool json = false;
};

absl::StatusOr<std::vector<v1::Job>> ListJobs(const Connection& connection, bool all) {
  const auto stub = v1::JobService::NewStub(connection.channel);
  v1::ListJobsRequest request;
  request.set_page_size(kPage);
  if (!all) {
    for (const v1::JobState state : {v1::JOB_STATE_PENDING, v1::JOB_STATE_RUNNING,
                                     v1::JOB_STATE_SUSPENDED, v1::JOB_STATE_STOPPING}) {
      request.add_states(state);
    }
  }
  std::vector<v1::Job> jobs;
  do {
    grpc::ClientContext context;
    SetTimeout(context);
    v1::ListJobsResponse response;
    const grpc::Status status = stub->ListJobs(&context, request, &response);
    if (!status.ok()) return FromGrpc(status);
    for (v1::Job& job : *response.mutable_jobs()) jobs.push_back(std::move(job));
    request.set_page_token(response.next_page_token());
  } while (!request.page_token().empty());
  return jobs;
}

int Queue(const Invocation& invocation, const Options& options) {
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  absl::StatusOr<std::vector<v1::Job>> jobs = ListJobs(*connection, options.all);
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
