// stageloadctl run: a job that feels like a command started here. Its output is ours, its exit code
// is ours, and Ctrl-C ends it; yet it belongs to the daemon, so that it outlives this process when
// that is killed or its terminal goes away.
#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "client/ctl/errors.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/job_request.h"
#include "client/ctl/own_end.h"
#include "client/ctl/signals.h"
#include "client/ctl/submit.h"

namespace stageload::ctl {
namespace {

int Run(const Invocation& invocation, const CLI::App& command, const JobOptions& options) {
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options, invocation.command);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());

  std::atomic<int> interrupted{0};
  std::atomic<std::int64_t> id{0};
  const SignalEvents signals({SIGINT, SIGTERM}, [&](int number) {
    // The second one leaves: the daemon has been told and stops the job.
    if (interrupted.exchange(number) != 0) EndWith(ExitOfOwnSignal(number));
    if (id != 0) (void)CancelJob(*connection, id);  // it may have ended just now
  });
  const absl::StatusOr<v1::Job> job = SubmitJob(*connection, *request);
  if (!job.ok()) return Fail(job.status());
  id = job->id();
  if (interrupted != 0) (void)CancelJob(*connection, id);  // it came before there was an id
  const absl::StatusOr<v1::Job> ended = FollowJob(*connection, job->id());
  const int code = Finish(ended);
  if (!ended.ok() && absl::IsUnavailable(ended.status())) {
    Note(absl::StrCat("job ", job->id(), " runs on without this command"));
  }
  return interrupted != 0 ? ExitOfOwnSignal(interrupted) : code;
}

}  // namespace

void AddRun(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("run", "queue a command, copy its output here, exit with its code");
  const auto options = std::make_shared<JobOptions>();
  AddJobOptions(*command, *options);
  TakesCommand(
      *command, invocation,
      "Ctrl-C or SIGTERM cancels the job, waits for its end and exits 130 or 143. If this command\n"
      "is killed or its terminal goes away, the job runs on; `logs -f ID` and `wait ID` find it.");
  AddExample(*command, invocation, {"stageloadctl run --memory 12G -- python3 train.py"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Run(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
