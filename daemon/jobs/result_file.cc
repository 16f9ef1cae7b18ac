#include "daemon/jobs/result_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jobs/durable_file.h"

namespace stageload::jobs {
namespace {

constexpr char kFormat[] = "stageload-result";
constexpr char kBeside[] = "result.new";
// More than any result takes; the rest is empty lines, which a reader skips.
constexpr std::size_t kReserved = 1024;

using Lines = std::map<std::string, std::int64_t>;

std::optional<int> IntOf(const Lines& lines, const char* key) {
  const auto line = lines.find(key);
  if (line == lines.end()) return std::nullopt;
  return static_cast<int>(line->second);
}

// Figures that an earlier version did not write are 0.
std::int64_t NumberOf(const Lines& lines, const char* key) {
  const auto line = lines.find(key);
  return line == lines.end() ? 0 : line->second;
}

// Over what is there, never cut first: that would give the space away.
absl::Status WriteBeside(int folder, std::string text, bool sync) {
  text.resize(std::max(text.size(), kReserved), '\n');
  Descriptor file(::openat(folder, kBeside, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("create ", kBeside));
  absl::Status status = WriteAll(file.get(), text);
  if (status.ok() && sync) status = Sync(file.get(), kBeside);
  return status;
}

}  // namespace

absl::Status ReserveResult(int folder) {
  // Not synced: a file system promises the space when it takes the bytes.
  absl::Status status = WriteBeside(folder, "", false);
  if (!status.ok()) ::unlinkat(folder, kBeside, 0);
  return status;
}

absl::Status WriteResult(int folder, const Result& result) {
  if (absl::Status status = WriteBeside(folder, EncodeResult(result), true); !status.ok())
    return status;
  if (::renameat(folder, kBeside, folder, kResultFile) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("rename ", kBeside, " to ", kResultFile));
  }
  // Where this fails, every reader of this boot still finds the result, and after a power cut the
  // job is NODE_FAIL or has it.
  Sync(folder, "the job's folder").IgnoreError();
  return absl::OkStatus();
}

std::string EncodeResult(const Result& result) {
  std::string text = absl::StrCat(kFormat, "=1\n");
  const auto line = [&text](const char* key, std::int64_t value) {
    absl::StrAppend(&text, key, "=", value, "\n");
  };
  if (result.outcome.exit_code) line("exit_code", *result.outcome.exit_code);
  if (result.outcome.signal) line("signal", *result.outcome.signal);
  if (result.outcome.start_errno) line("start_errno", *result.outcome.start_errno);
  line("start_time_ns", absl::ToUnixNanos(result.start_time));
  line("end_time_ns", absl::ToUnixNanos(result.end_time));
  line("max_rss_bytes", result.max_rss.count());
  line("user_time_ns", absl::ToInt64Nanoseconds(result.user_time));
  line("system_time_ns", absl::ToInt64Nanoseconds(result.system_time));
  line("log_dropped_bytes", result.log_dropped.count());
  return text;
}

absl::StatusOr<Result> DecodeResult(const std::string& text) {
  Lines lines;
  const std::vector<std::string> rows = absl::StrSplit(text, '\n', absl::SkipEmpty());
  for (const std::string& row : rows) {
    const std::size_t equals = row.find('=');
    std::int64_t value = 0;
    if (equals == std::string::npos || !absl::SimpleAtoi(row.substr(equals + 1), &value)) {
      return absl::DataLossError(absl::StrCat("the job's result has a bad line: \"", row, "\""));
    }
    lines[row.substr(0, equals)] = value;
  }
  if (NumberOf(lines, kFormat) != 1) {
    return absl::DataLossError("the job's result is of another format than this version reads");
  }
  Result result;
  result.outcome.exit_code = IntOf(lines, "exit_code");
  result.outcome.signal = IntOf(lines, "signal");
  result.outcome.start_errno = IntOf(lines, "start_errno");
  if (result.outcome.exit_code.has_value() == result.outcome.signal.has_value()) {
    return absl::DataLossError("the job's result has not one of exit_code and signal");
  }
  result.start_time = absl::FromUnixNanos(NumberOf(lines, "start_time_ns"));
  result.end_time = absl::FromUnixNanos(NumberOf(lines, "end_time_ns"));
  result.max_rss = Bytes(NumberOf(lines, "max_rss_bytes"));
  result.user_time = absl::Nanoseconds(NumberOf(lines, "user_time_ns"));
  result.system_time = absl::Nanoseconds(NumberOf(lines, "system_time_ns"));
  result.log_dropped = Bytes(NumberOf(lines, "log_dropped_bytes"));
  return result;
}

}  // namespace stageload::jobs
