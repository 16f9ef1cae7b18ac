// stageloadctl submit: queues a command; its id on stdout.
#include "client/ctl/submit.h"

#include <cstdint>
#include <memory>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/job_request.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr int kSubmitTries = 10;

struct Options {
  JobOptions job;
  bool wait = false;
  bool follow = false;
  bool json = false;
};

// 128 random bits: the daemon answers a submit that it has had already with the job that it made
// then.
std::string NewRequestId() {
  std::random_device random;
  std::string id;
  for (int word = 0; word < 4; ++word) {
    absl::StrAppend(&id, absl::Hex(std::uint32_t{random()}, absl::kZeroPad8));
  }
  return id;
}

int Submit(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options.job, invocation.command);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<v1::Job> job = SubmitJob(*connection, *request);
  if (!job.ok()) return Fail(job.status());
  if (!Out(options.json ? Document(ToJson(*job)) : absl::StrCat(job->id(), "\n"))) {
    Note(absl::StrCat("job ", job->id(), " was queued all the same"));
    return kExitOther;
  }
  if (options.follow) return Finish(FollowJob(*connection, job->id()));
  if (!options.wait) return kExitOk;
  Progress progress;
  return Finish(AwaitEnd(*connection, job->id(), progress));
}

}  // namespace

absl::StatusOr<v1::Job> SubmitJob(const Connection& connection, v1::SubmitJobRequest request) {
  request.set_request_id(NewRequestId());
  absl::StatusOr<v1::Job> job = AskUntilAnswered(
      connection,
      [&](const Connection& current) {
        return CallForJob<v1::SubmitJobRequest, v1::SubmitJobResponse>(
            current, &v1::JobService::Stub::SubmitJob, request);
      },
      kSubmitTries);
  if (!job.ok()) return NamingOptions(job.status());
  return job;
}

void AddSubmit(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("submit", "queue a command and print its id");
  const auto options = std::make_shared<Options>();
  AddJobOptions(*command, options->job);
  command->add_flag("--wait", options->wait, "wait for its end and exit with its code");
  command->add_flag("--follow", options->follow,
                    "--wait, and copy its output; Ctrl-C leaves it running");
  command->add_flag("--json", options->json, "print the job instead of its id");
  TakesCommand(*command, invocation);
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Submit(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
