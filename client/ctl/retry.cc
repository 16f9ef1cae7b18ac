// stageloadctl retry: queues ended jobs again, as new ones; their ids on stdout.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"
#include "client/ctl/submit.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "One that was to start after another of them does so again. After OUT_OF_MEMORY a job "
    "declares\n"
    "at least what it needed and a tenth more. What a guard has run is guarded again instead.";

struct Options {
  std::vector<std::string> ids;
  std::optional<std::string> memory;
  bool json = false;
};

// What of its order is kept: jobs that are run again themselves, as `again` has them.
void KeepOrder(const v1::Job& ended, const std::map<std::int64_t, std::int64_t>& again,
               v1::RetryJobRequest& request) {
  std::vector<std::int64_t> left_out;
  for (const std::int64_t parent : ended.after()) {
    const auto found = again.find(parent);
    if (found != again.end()) {
      request.add_after(found->second);
    } else {
      left_out.push_back(parent);
    }
  }
  if (!left_out.empty()) {
    Note(absl::StrCat("job ", ended.id(), " is run again without waiting for job ",
                      absl::StrJoin(left_out, ", "), "; name that before it to keep the order"));
  }
}

absl::StatusOr<v1::Job> RetryJob(const Connection& connection, std::int64_t id,
                                 std::optional<Bytes> memory,
                                 const std::map<std::int64_t, std::int64_t>& again) {
  const absl::StatusOr<v1::Job> ended = GetJob(connection, id);
  if (!ended.ok()) return ended;
  v1::RetryJobRequest request;
  request.set_id(id);
  if (memory) request.set_memory_bytes(memory->count());
  KeepOrder(*ended, again, request);
  request.set_request_id(NewRequestId());
  absl::StatusOr<v1::Job> job = AskUntilAnswered(
      connection,
      [&](const Connection& current) {
        return CallForJob<v1::RetryJobRequest, v1::RetryJobResponse>(
            current, &v1::JobService::Stub::RetryJob, request);
      },
      kSubmitTries);
  if (ReasonOf(job.status()) == kNeverFits) {
    Note("it declares what it needed last time and a tenth more; --memory SIZE declares another");
  }
  return job;
}

// "job 8, job 9".
std::string Queued(const std::map<std::int64_t, std::int64_t>& again) {
  return absl::StrJoin(again, ", ", [](std::string* out, const auto& each) {
    absl::StrAppend(out, "job ", each.second);
  });
}

int Retry(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  std::optional<Bytes> memory;
  if (options.memory) {
    const absl::StatusOr<Bytes> bytes = ParseBytes(*options.memory);
    if (!bytes.ok()) {
      return UsageError(invocation, command,
                        std::string(AboutOption("--memory", bytes.status()).message()));
    }
    memory = *bytes;
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  std::map<std::int64_t, std::int64_t> again;  // the new job of each
  for (const std::int64_t id : *ids) {
    const absl::StatusOr<v1::Job> job = RetryJob(*connection, id, memory, again);
    if (!job.ok()) {
      code = std::max(code, Fail(job.status()));
      continue;
    }
    again[id] = job->id();
    document["jobs"].push_back(ToJson(*job));
    if (!options.json && !Out(absl::StrCat(job->id(), "\n"))) {
      Note(absl::StrCat("job ", job->id(), " was queued all the same",
                        id == ids->back() ? "" : ", and none of those that follow"));
      return kExitOther;
    }
  }
  if (options.json && !Out(Document(document))) {
    if (!again.empty()) Note(absl::StrCat("queued all the same: ", Queued(again)));
    return kExitOther;
  }
  return code;
}

}  // namespace

void AddRetry(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("retry", "queue jobs that did not complete again and print the new ids");
  const auto options = std::make_shared<Options>();
  command->add_option("ids", options->ids, "the jobs")->required()->type_name("ID");
  command->add_option("--memory", options->memory, "declare this much instead")->type_name("SIZE");
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}, the new ones");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation, {"stageloadctl retry 3 --memory 16G"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Retry(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
