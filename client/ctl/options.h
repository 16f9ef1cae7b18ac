// The admission options that guard, submit and run share, from text to a Policy and Terms.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_OPTIONS_H_
#define STAGELOAD_CLIENT_CTL_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "stageload/v1/policy.pb.h"

namespace stageload::ctl {

// Over these options in help.
inline constexpr char kAdmissionHeading[] =
    "Admission (in brackets what holds unless the config has another default)";

// As they were typed. What was not given stays absent in the messages, so that the daemon's
// defaults hold.
struct AdmissionOptions {
  std::optional<std::string> wait_free;
  std::optional<std::string> swap_budget;
  std::optional<std::string> swap_limit;
  std::optional<std::string> kill_free;
  std::optional<std::string> memory;  // or "auto"
  std::optional<std::string> charge;
  std::optional<std::string> on_over_budget;
  std::vector<std::string> busy;
  std::optional<std::string> quiet_for;
  std::optional<std::string> time_limit;
  std::optional<std::string> start_timeout;
  std::optional<std::string> priority;
  std::optional<std::string> grace;
  std::string name;
  std::string group;
  std::string profile;
  std::vector<std::string> after;  // ids, and lists of them: "3", "4,5"
};

// `default_start_timeout` is only for the help: "30m", "none", or empty where they are of a job
// that is there, and so have no defaults.
void AddAdmissionOptions(CLI::App& command, AdmissionOptions& options,
                         const std::string& default_start_timeout);
// Those of them that make up a Policy.
void AddPolicyOptions(CLI::App& command, AdmissionOptions& options,
                      const std::string& default_start_timeout);

// InvalidArgument names the option: `--swap-budget: size "8X": unknown unit ...`.
absl::StatusOr<v1::Policy> ToPolicy(const AdmissionOptions& options);
// Of a job that is there: what makes sense only with other options may go with what it has.
absl::StatusOr<v1::Policy> ToPolicyChange(const AdmissionOptions& options);
absl::StatusOr<v1::Terms> ToTerms(const AdmissionOptions& options);

// Takes "none" out of the options that may be absent; the fields of Policy that are to be without a
// value, though the config may have a default for them.
std::vector<std::string> TakeNone(AdmissionOptions& options);

// `status` with the option in front; keeps its code.
absl::Status AboutOption(const std::string& option, const absl::Status& status);

// What the daemon said about a field of the request, said about the option that it came from; or
// about the config, where `asked`, the request's policy, leaves the field to its defaults.
absl::Status NamingOptions(const absl::Status& status, const v1::Policy* asked = nullptr);

// `text` as the value of `option`, which is named in the error.
absl::StatusOr<absl::Duration> DurationOption(const std::string& option, const std::string& text);

// "7" is 7; InvalidArgument for all that is not a number from 1 up.
absl::StatusOr<std::int64_t> ParseJobId(const std::string& text);
// Each once, in their order.
absl::StatusOr<std::vector<std::int64_t>> ParseJobIds(const std::vector<std::string>& texts);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OPTIONS_H_
