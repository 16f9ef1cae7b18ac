// Captures argv, folder, environment, umask and limits.
#include "client/ctl/job_request.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file_limit.h"
#include "base/text.h"
#include "client/ctl/begin_time.h"
#include "client/ctl/environment.h"

namespace stageload::ctl {
namespace {

constexpr Bytes kLargestCommand = MiB(2);  // job_service.proto

absl::StatusOr<std::string> WorkingDirectory(const std::string& cwd) {
  char folder[PATH_MAX];
  if (cwd.empty()) {
    if (getcwd(folder, sizeof folder) == nullptr) {
      return absl::ErrnoToStatus(errno, "read the working directory");
    }
    return folder;
  }
  if (realpath(cwd.c_str(), folder) == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--cwd: ", absl::ErrnoToStatus(errno, cwd).message()));
  }
  struct stat status {};
  if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat("--cwd: ", cwd, ": not a folder"));
  }
  return folder;
}

absl::StatusOr<std::vector<std::string>> Variables(const std::vector<std::string>& changes) {
  std::vector<std::string> variables;
  for (const std::string& change : changes) {
    const std::size_t equals = change.find('=');
    if (equals == std::string::npos || equals == 0) {
      return absl::InvalidArgumentError(absl::StrCat("--env: \"", change, "\": not NAME=value"));
    }
    SetVariable(variables, change.substr(0, equals), change.substr(equals + 1));
  }
  return variables;
}

std::uint32_t CurrentUmask() {
  const mode_t mask = umask(022);
  umask(mask);
  return mask;
}

void AddLimits(v1::SubmitJobRequest& request) {
  for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
    rlimit limit{};
    // glibc's first argument is an enum in C++, elsewhere it is an int.
    if (getrlimit(static_cast<decltype(RLIMIT_CPU)>(resource), &limit) != 0) continue;
    if (resource == static_cast<int>(RLIMIT_NOFILE)) limit = GivenFileLimit();
    v1::ResourceLimit& added = *request.add_limits();
    added.set_resource(resource);
    added.set_soft(limit.rlim_cur == RLIM_INFINITY ? std::numeric_limits<std::uint64_t>::max()
                                                   : limit.rlim_cur);
  }
}

absl::StatusOr<v1::Terms> TermsOf(const JobOptions& options) {
  absl::StatusOr<v1::Terms> terms = ToTerms(options.admission);
  if (terms.ok()) terms->set_held(options.hold);
  if (!terms.ok() || !options.begin) return terms;
  const absl::StatusOr<absl::Time> begin =
      ParseBeginTime(*options.begin, absl::Now(), absl::LocalTimeZone());
  if (!begin.ok()) return AboutOption("--begin", begin.status());
  terms->set_begin_time_ns(absl::ToUnixNanos(*begin));
  return terms;
}

absl::Status CheckSize(const v1::SubmitJobRequest& request) {
  std::size_t size = 0;
  for (const auto& argument : request.arguments()) size += argument.size() + 1;
  for (const auto& variable : request.environment()) size += variable.size() + 1;
  for (const auto& variable : request.variables()) size += variable.size() + 1;
  if (Bytes::FromUnsigned(size) <= kLargestCommand) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("arguments and environment take ", FormatBytes(Bytes::FromUnsigned(size)),
                   ", at most ", FormatBytes(kLargestCommand), " may; pass the rest in a file"));
}

}  // namespace

void AddJobOptions(CLI::App& command, JobOptions& options) {
  AddAdmissionOptions(command, options.admission, "none");
  command
      .add_option("--begin", options.begin,
                  "not before this time: 22:00 (the next), +30m, 2026-12-01T22:00, in local time")
      ->type_name("TIME")
      ->group(kAdmissionHeading);
  command.add_option("--cwd", options.cwd, "the job's working directory (this one)")
      ->type_name("DIR");
  command.add_option("--env", options.env, "set a variable over this environment; may be repeated")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command.add_flag("--hold", options.hold, "wait until `release ID`, whatever room there is");
  command.add_flag("--requeue", options.requeue,
                   "when the machine goes down under it, wait again (held) instead of NODE_FAIL");
  command.add_flag("--notify", options.notify, "show a desktop notification when it has ended");
}

absl::StatusOr<v1::SubmitJobRequest> ToRequest(const JobOptions& options,
                                               const std::vector<std::string>& command) {
  if (command.empty() || command.front().empty()) {
    return absl::InvalidArgumentError(
        "no command given; write it behind the options, as in `-- python train.py`");
  }
  AdmissionOptions admission = options.admission;
  const std::vector<std::string> without = TakeNone(admission);
  absl::StatusOr<v1::Policy> policy = ToPolicy(admission);
  if (!policy.ok()) return policy.status();
  absl::StatusOr<v1::Terms> terms = TermsOf(options);
  if (!terms.ok()) return terms.status();
  absl::StatusOr<std::string> folder = WorkingDirectory(options.cwd);
  if (!folder.ok()) return folder.status();
  const absl::StatusOr<std::vector<std::string>> variables = Variables(options.env);
  if (!variables.ok()) return variables.status();

  v1::SubmitJobRequest request;
  for (const std::string& word : command) request.add_arguments(word);
  request.set_working_directory(*folder);
  for (const std::string& variable : OwnEnvironment()) request.add_environment(variable);
  for (const std::string& variable : *variables) request.add_variables(variable);
  request.set_name(options.admission.name);
  *request.mutable_policy() = *std::move(policy);
  for (const std::string& field : without) request.add_clear_fields(field);
  *request.mutable_terms() = *std::move(terms);
  request.set_requeue(options.requeue);
  request.set_notify(options.notify);
  request.set_umask(CurrentUmask());
  AddLimits(request);
  if (absl::Status status = CheckSize(request); !status.ok()) return status;
  return request;
}

}  // namespace stageload::ctl
