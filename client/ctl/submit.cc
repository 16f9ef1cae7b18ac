// stageloadctl submit: queues a command; its id on stdout.
#include "client/ctl/submit.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
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

constexpr int kLargestArray = 10'000;

struct Options {
  JobOptions job;
  std::optional<std::string> array;
  bool wait = false;
  bool follow = false;
  bool json = false;
};

absl::StatusOr<int> ParseArray(const std::string& text) {
  int count = 0;
  if (absl::SimpleAtoi(text, &count) && count >= 1 && count <= kLargestArray) return count;
  return absl::InvalidArgumentError(
      absl::StrCat("--array: \"", text, "\": not a whole number from 1 to ", kLargestArray));
}

// The one of an array that is told its index; it has a name of its own, and one profile with the
// others.
v1::SubmitJobRequest Element(v1::SubmitJobRequest request, int index, int count) {
  std::string name = request.name();
  if (name.empty()) {
    const std::string& path = request.arguments(0);
    name = path.substr(path.rfind('/') + 1);
  }
  if (request.terms().profile().empty()) request.mutable_terms()->set_profile(name);
  request.set_name(absl::StrCat(name, "[", index, "]"));
  request.add_variables(absl::StrCat("STAGELOAD_ARRAY_INDEX=", index));
  request.add_variables(absl::StrCat("STAGELOAD_ARRAY_SIZE=", count));
  return request;
}

// Waits for all; the exit code is the highest.
int AwaitAll(const Connection& connection, const std::vector<std::int64_t>& ids) {
  int code = kExitOk;
  for (const std::int64_t id : ids) {
    Progress progress;
    code = std::max(code, Finish(AwaitEnd(connection, id, progress)));
  }
  return code;
}

int SubmitArray(const Connection& connection, const v1::SubmitJobRequest& request, int count,
                const Options& options) {
  std::vector<std::int64_t> ids;
  Json document{{"jobs", Json::array()}};
  for (int index = 0; index < count; ++index) {
    const absl::StatusOr<v1::Job> job = SubmitJob(connection, Element(request, index, count));
    if (!job.ok()) {
      if (!ids.empty()) {
        Note(absl::StrCat("jobs ", ids.front(), " to ", ids.back(), " (", ids.size(), " of ", count,
                          ") are queued all the same"));
      }
      return Fail(job.status());
    }
    ids.push_back(job->id());
    if (options.json) {
      document["jobs"].push_back(ToJson(*job));
    } else if (!Out(absl::StrCat(job->id(), "\n"))) {
      Note(absl::StrCat("job ", job->id(), " was queued all the same, and no more of the array"));
      return kExitOther;
    }
  }
  if (options.json && !Out(Document(document))) {
    Note(absl::StrCat("jobs ", ids.front(), " to ", ids.back(), " were queued all the same"));
    return kExitOther;
  }
  return options.wait ? AwaitAll(connection, ids) : kExitOk;
}

int Submit(const Invocation& invocation, const CLI::App& command, const Options& options) {
  std::optional<int> array;
  if (options.array) {
    const absl::StatusOr<int> count = ParseArray(*options.array);
    if (!count.ok()) return UsageError(invocation, command, std::string(count.status().message()));
    array = *count;
  }
  const absl::StatusOr<v1::SubmitJobRequest> request = ToRequest(options.job, invocation.command);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (array) return SubmitArray(*connection, *request, *array, options);
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
  if (!job.ok()) return NamingOptions(job.status(), &request.policy());
  return job;
}

void AddSubmit(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("submit", "queue a command and print its id");
  const auto options = std::make_shared<Options>();
  AddJobOptions(*command, options->job);
  CLI::Option* array =
      command
          ->add_option(
              "--array", options->array,
              "queue it so many times, named NAME[0], NAME[1], ...; each finds its number "
              "in STAGELOAD_ARRAY_INDEX and N in STAGELOAD_ARRAY_SIZE. Prints an id a line")
          ->type_name("N");
  command->add_flag("--wait", options->wait, "wait for its end and exit with its code");
  command
      ->add_flag("--follow", options->follow,
                 "--wait, and copy its output; Ctrl-C leaves it running")
      ->excludes(array);
  command->add_flag("--json", options->json,
                    "print the job instead of its id; with --array {\"jobs\": [...]}");
  TakesCommand(*command, invocation);
  AddExample(*command, invocation,
             {"stageloadctl submit --name base --memory 12G --time 8h -- python3 train.py",
              "stageloadctl submit --after 1,2 --group gpu --begin 22:00 -- python3 evaluate.py"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Submit(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
