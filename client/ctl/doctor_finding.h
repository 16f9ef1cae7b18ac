// One line of `doctor`: what was looked at, whether it is well, and what to do if not.
//
// Threading: plain values.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_FINDING_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_FINDING_H_

#include <string>
#include <utility>
#include <vector>

namespace stageload::ctl {

enum class Verdict { kOk, kWarn, kFail };

struct Finding {
  std::string check;  // a word of docs/doctor.md
  Verdict verdict = Verdict::kOk;
  std::string text;  // what was found
  std::string fix;   // what to do about it; empty when all is well
};
using Findings = std::vector<Finding>;

inline Finding Well(std::string check, std::string text) {
  return {std::move(check), Verdict::kOk, std::move(text), ""};
}
inline Finding Warn(std::string check, std::string text, std::string fix) {
  return {std::move(check), Verdict::kWarn, std::move(text), std::move(fix)};
}
inline Finding Fail(std::string check, std::string text, std::string fix) {
  return {std::move(check), Verdict::kFail, std::move(text), std::move(fix)};
}

// What to do where nobody but us can do anything.
inline constexpr char kTellUs[] =
    "this kernel tells it otherwise than stageload expects: report it with the output of "
    "`stageloadctl doctor --json`";

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_FINDING_H_
