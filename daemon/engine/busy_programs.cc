#include "daemon/engine/busy_programs.h"

#include <regex.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stageload::engine {
namespace {

constexpr std::size_t kShown = 80;  // of a command line, in a blocker's text

struct RegexFree {
  void operator()(regex_t* regex) const {
    regfree(regex);
    delete regex;
  }
};
using Regex = std::unique_ptr<regex_t, RegexFree>;

absl::StatusOr<Regex> Compile(const std::string& pattern) {
  auto compiled = std::make_unique<regex_t>();
  const int error = regcomp(compiled.get(), pattern.c_str(), REG_EXTENDED);
  if (error == 0) return Regex(compiled.release());
  char text[128];
  regerror(error, compiled.get(), text, sizeof text);
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", pattern, "\" is no POSIX extended regular expression for command lines: ", text));
}

// Whether the program that runs is one of ours by name: stageloadctl, stageload, stageloadd, shim.
bool IsStageload(const std::string& command) {
  const std::string program = command.substr(0, command.find(' '));
  const std::size_t slash = program.rfind('/');
  return absl::StartsWith(slash == std::string::npos ? program : program.substr(slash + 1),
                          "stageload");
}

// The part of a command line in which what matched begins, and its program, which comes first.
std::string Around(const std::string& command, std::size_t match) {
  if (command.size() <= kShown) return command;
  if (match < kShown * 3 / 4) return absl::StrCat(command.substr(0, kShown), "...");
  const std::string program = command.substr(0, std::min(command.find(' '), kShown / 2));
  const std::size_t begin = std::max(program.size(), match - kShown / 4);
  const std::string part = command.substr(begin, kShown);
  return absl::StrCat(program, " ...", part, begin + kShown < command.size() ? "..." : "");
}

}  // namespace

absl::Status CheckBusyPattern(const std::string& pattern) { return Compile(pattern).status(); }

std::vector<core::BusyReading> LookForBusy(
    const std::vector<std::string>& patterns, const std::vector<host::Process>& table,
    host::Host& host, const std::function<bool(const core::ProcessIdentity&)>& is_ours) {
  std::vector<core::BusyReading> readings;
  std::vector<Regex> compiled;
  for (const std::string& pattern : patterns) {
    absl::StatusOr<Regex> regex = Compile(pattern);
    if (!regex.ok()) continue;  // refused at submit; a row of another platform may still have it
    compiled.push_back(*std::move(regex));
    readings.push_back({pattern, ""});
  }
  for (const host::Process& process : table) {
    if (process.state == 'Z' || process.identity.pid == getpid() || is_ours(process.identity)) {
      continue;
    }
    const absl::StatusOr<std::string> command = host.CommandLine(process.identity);
    if (!command.ok() || command->empty() || IsStageload(*command)) continue;
    for (std::size_t i = 0; i < readings.size(); ++i) {
      if (!readings[i].match.empty()) continue;
      regmatch_t where{};
      if (regexec(compiled[i].get(), command->c_str(), 1, &where, 0) != 0) continue;
      readings[i].match = absl::StrCat(process.identity.pid, " ",
                                       Around(*command, static_cast<std::size_t>(where.rm_so)));
    }
  }
  return readings;
}

}  // namespace stageload::engine
