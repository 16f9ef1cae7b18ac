// The request that submit and run send: the command with all that it should find around it, as it
// is around this process.
//
// Threading: before other threads exist (it swaps the umask for a moment).
#ifndef STAGELOAD_CLIENT_CTL_JOB_REQUEST_H_
#define STAGELOAD_CLIENT_CTL_JOB_REQUEST_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/options.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::ctl {

struct JobOptions {
  AdmissionOptions admission;
  std::optional<std::string> begin;
  std::string cwd;               // empty is the working directory
  std::vector<std::string> env;  // "NAME=value" over the environment
  bool hold = false;
  bool requeue = false;
  bool notify = false;
};

void AddJobOptions(CLI::App& command, JobOptions& options);

// InvalidArgument names the option, or says that there is no command or that it is over 2 MiB.
absl::StatusOr<v1::SubmitJobRequest> ToRequest(const JobOptions& options,
                                               const std::vector<std::string>& command);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_JOB_REQUEST_H_
