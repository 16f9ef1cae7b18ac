// stageloadctl profile: what is remembered of the runs under each name.
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::string name;
  bool forget = false;
  bool json = false;
};

std::string Largest(const v1::Profile& profile, bool (v1::ProfileRun::*has)() const,
                    std::int64_t (v1::ProfileRun::*get)() const) {
  std::optional<std::int64_t> largest;
  for (const v1::ProfileRun& run : profile.runs()) {
    if ((run.*has)()) largest = std::max(largest.value_or(0), (run.*get)());
  }
  return SizeOrDash(largest.has_value(), largest.value_or(0));
}

std::string AllProfiles(const v1::ListProfilesResponse& response) {
  Table table({{.title = "PROFILE"},
               {.title = "RUNS", .right = true, .spare = 2},
               {.title = "PEAK FOOTPRINT", .right = true, .spare = 3},
               {.title = "TRUE PEAK", .right = true, .spare = 1},
               {.title = "DECLARES", .right = true}});
  for (const v1::Profile& profile : response.profiles()) {
    table.Add(
        {std::string(profile.name()), absl::StrCat(profile.runs_size()),
         Largest(profile, &v1::ProfileRun::has_peak_footprint_bytes,
                 &v1::ProfileRun::peak_footprint_bytes),
         Largest(profile, &v1::ProfileRun::has_true_peak_bytes, &v1::ProfileRun::true_peak_bytes),
         SizeOrDash(profile.has_estimate_bytes(), profile.estimate_bytes())});
  }
  return table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
}

std::string OneProfile(const v1::Profile& profile) {
  Table table({{.title = "JOB", .right = true},
               {.title = "PEAK FOOTPRINT", .right = true},
               {.title = "TRUE PEAK", .right = true}});
  for (const v1::ProfileRun& run : profile.runs()) {
    table.Add({absl::StrCat(run.job_id()),
               SizeOrDash(run.has_peak_footprint_bytes(), run.peak_footprint_bytes()),
               SizeOrDash(run.has_true_peak_bytes(), run.true_peak_bytes())});
  }
  return absl::StrCat(
      table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO)), "--memory auto declares ",
      profile.has_estimate_bytes() ? FormatBytes(Bytes(profile.estimate_bytes())) : "nothing yet",
      "\n");
}

absl::Status NotThere(const std::string& name) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("there is no profile ", name,
                                       "; one comes of the first run with --profile or --name")),
      kProfileNotFound);
}

int Forget(const Connection& connection, const std::string& name) {
  v1::DeleteProfileRequest request;
  request.set_name(name);
  const absl::Status status = CallJobs<v1::DeleteProfileRequest, v1::DeleteProfileResponse>(
                                  connection, &v1::JobService::Stub::DeleteProfile, request)
                                  .status();
  return status.ok() ? kExitOk : Fail(status);
}

int Profile(const Invocation& invocation, const CLI::App& command, const Options& options) {
  if (options.forget && options.name.empty()) {
    return UsageError(invocation, command, "--forget: name the profile");
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  if (options.forget) return Forget(*connection, options.name);
  v1::ListProfilesRequest request;
  request.set_name(options.name);
  const absl::StatusOr<v1::ListProfilesResponse> response =
      CallJobs<v1::ListProfilesRequest, v1::ListProfilesResponse>(
          *connection, &v1::JobService::Stub::ListProfiles, request);
  if (!response.ok()) return Fail(response.status());
  if (!options.name.empty() && response->profiles().empty()) return Fail(NotThere(options.name));
  const std::string text = options.json           ? Document(ToJson(*response))
                           : options.name.empty() ? AllProfiles(*response)
                                                  : OneProfile(response->profiles(0));
  return Out(text) ? kExitOk : kExitOther;
}

}  // namespace

void AddProfile(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "profile", "what earlier runs have needed, by profile; --memory auto declares it");
  const auto options = std::make_shared<Options>();
  command->add_option("name", options->name, "only this one, run by run")->type_name("NAME");
  command->add_flag("--forget", options->forget, "forget its runs");
  command->add_flag("--json", options->json, "one document: {\"profiles\": [...]}");
  AddExample(*command, invocation, {"stageloadctl profile base"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Profile(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
