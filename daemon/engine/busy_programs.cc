#include "daemon/engine/busy_programs.h"

#include <re2/re2.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stageload::engine {
namespace {

constexpr std::size_t kShown = 80;  // of a command line, in a blocker's text

using Regex = std::unique_ptr<re2::RE2>;

// RE2 and not regcomp(3): it reads what people write for Python, the same on every platform, and
// neither its memory nor its time can be driven up by a pattern, as "((a{255}){255}){255}" does
// with glibc.
absl::StatusOr<Regex> Compile(const std::string& pattern) {
  // A command line is bytes, which need not be UTF-8.
  re2::RE2::Options options(re2::RE2::Latin1);
  options.set_log_errors(false);
  auto compiled = std::make_unique<re2::RE2>(pattern, options);
  if (compiled->ok()) return compiled;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", pattern, "\" is no regular expression (RE2's syntax): ", compiled->error()));
}

// Where it matches, if it does.
std::optional<std::size_t> Find(const re2::RE2& regex, const std::string& command) {
  re2::StringPiece match;
  if (!regex.Match(command, 0, command.size(), re2::RE2::UNANCHORED, &match, 1)) {
    return std::nullopt;
  }
  return static_cast<std::size_t>(match.data() - command.data());
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
      const std::optional<std::size_t> where = Find(*compiled[i], *command);
      if (!where) continue;
      readings[i].match = absl::StrCat(process.identity.pid, " ", Around(*command, *where));
    }
  }
  return readings;
}

}  // namespace stageload::engine
