// stageloadctl update: other terms for jobs that have not ended.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/ctl/call.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "What is not named stays. \"none\" takes back --memory, --swap-limit, --start-timeout, --time "
    "and\n"
    "--busy. What decides on the start can only be changed while a job waits.";

struct Options {
  std::vector<std::string> ids;
  AdmissionOptions terms;
  bool json = false;
};

absl::StatusOr<v1::UpdateJobRequest> ToRequest(AdmissionOptions terms) {
  v1::UpdateJobRequest request;
  for (const std::string& field : TakeNone(terms)) request.add_clear_fields(field);
  const absl::StatusOr<v1::Policy> policy = ToPolicyChange(terms);
  if (!policy.ok()) return policy.status();
  *request.mutable_policy() = *policy;
  if (policy->ByteSizeLong() == 0 && request.clear_fields().empty()) {
    return absl::InvalidArgumentError("say what to change, such as --priority 5");
  }
  return request;
}

int Update(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::vector<std::int64_t>> ids = ParseJobIds(options.ids);
  if (!ids.ok()) return UsageError(invocation, command, std::string(ids.status().message()));
  absl::StatusOr<v1::UpdateJobRequest> request = ToRequest(options.terms);
  if (!request.ok())
    return UsageError(invocation, command, std::string(request.status().message()));
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  int code = kExitOk;
  Json document{{"jobs", Json::array()}};
  for (const std::int64_t id : *ids) {
    request->set_id(id);
    const absl::StatusOr<v1::Job> job = CallForJob<v1::UpdateJobRequest, v1::UpdateJobResponse>(
        *connection, &v1::JobService::Stub::UpdateJob, *request);
    if (job.ok()) {
      document["jobs"].push_back(ToJson(*job));
    } else {
      code = std::max(code, Fail(NamingOptions(job.status())));
    }
  }
  if (options.json && !Out(Document(document))) return kExitOther;
  return code;
}

}  // namespace

void AddUpdate(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("update", "give jobs that have not ended other terms");
  const auto options = std::make_shared<Options>();
  command->add_option("ids", options->ids, "the jobs")->required()->type_name("ID");
  AddPolicyOptions(*command, options->terms, "");
  command->add_flag("--json", options->json, "one document: {\"jobs\": [...]}, as they stand");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation, {"stageloadctl update 4 --memory 8G --priority 10"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Update(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
