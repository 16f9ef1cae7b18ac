#include "daemon/jobs/log_tail.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "daemon/jobs/log_segment.h"

namespace stageload::jobs {
namespace {

constexpr std::size_t kOutputs = 2;

std::size_t OutputOf(const RecordHeader& header) {
  return header.stream == LogStream::kStderr ? 1 : 0;
}

OutputBytes Before(const RecordHeader& header) {
  return {header.stdout_before, header.stderr_before};
}

using Visit = absl::FunctionRef<void(const LogSegment::Record&)>;

// NotFound when the segment is gone. Damage ends it here; who reads it is told.
absl::Status VisitRecords(const std::string& folder, std::uint64_t number, Visit visit) {
  absl::StatusOr<LogSegment> segment = LogSegment::Open(folder, number);
  if (!segment.ok()) return segment.status();
  for (;;) {
    const absl::StatusOr<std::optional<LogSegment::Record>> record = segment->Next();
    if (absl::IsDataLoss(record.status())) return absl::OkStatus();
    if (!record.ok()) return record.status();
    if (!record->has_value()) return absl::OkStatus();
    visit(**record);
  }
}

// Calls `visit` with the number of bytes of `data` up to and with each newline.
void VisitNewlines(std::string_view data, absl::FunctionRef<void(std::size_t)> visit) {
  for (std::size_t at = data.find('\n'); at != data.npos; at = data.find('\n', at + 1)) {
    visit(at + 1);
  }
}

// What one segment holds.
struct Summary {
  std::uint64_t number = 0;
  bool empty = true;
  OutputBytes before = {};  // put out before its first record
  OutputBytes after = {};   // and by the end of its last
  OutputBytes newlines = {};
  OutputBytes last_newline = {};  // bytes put out up to and with it; only if there is one
  std::array<bool, kOutputs> has_data = {};
  std::array<bool, kOutputs> open_end = {};  // the last byte in here is no newline
};

void Add(const LogSegment::Record& record, Summary& summary) {
  const std::size_t output = OutputOf(record.header);
  const OutputBytes before = Before(record.header);
  if (std::exchange(summary.empty, false)) summary.before = before;
  summary.after = before;
  summary.after[output] += record.data.size();
  if (record.data.empty()) return;
  summary.has_data[output] = true;
  summary.open_end[output] = record.data.back() != '\n';
  VisitNewlines(record.data, [&](std::size_t bytes) {
    ++summary.newlines[output];
    summary.last_newline[output] = before[output] + bytes;
  });
}

class Finder {
 public:
  Finder(const std::string& folder, LogStream stream) : folder_(folder), stream_(stream) {}

  absl::StatusOr<std::optional<LogTail>> Find(std::uint64_t lines);

 private:
  bool Wants(std::size_t output) const {
    return stream_ == LogStream::kBoth ||
           output == (stream_ == LogStream::kStderr ? std::size_t{1} : std::size_t{0});
  }
  absl::StatusOr<bool> SummarizeOlder();
  std::uint64_t EndsIn(std::size_t index, std::size_t output) const;
  absl::StatusOr<OutputBytes> PassEnds(std::size_t index, std::uint64_t count, LogTail& tail) const;
  absl::Status FindBegin(std::size_t output, std::size_t index, LogTail& tail);

  const std::string& folder_;
  const LogStream stream_;
  std::vector<std::uint64_t> left_;  // segments that were not looked at, ascending
  std::vector<Summary> summaries_;   // newest first; without those that are empty
};

// False when there is no older one.
absl::StatusOr<bool> Finder::SummarizeOlder() {
  while (!left_.empty()) {
    Summary summary;
    summary.number = left_.back();
    left_.pop_back();
    const absl::Status visited =
        VisitRecords(folder_, summary.number,
                     [&summary](const LogSegment::Record& record) { Add(record, summary); });
    if (absl::IsNotFound(visited)) left_.clear();  // dropped meanwhile, and so are those before it
    if (!visited.ok() && !absl::IsNotFound(visited)) return visited;
    if (summary.empty) continue;
    summaries_.push_back(summary);
    return true;
  }
  return false;
}

// How many lines of an output end in a segment.
std::uint64_t Finder::EndsIn(std::size_t index, std::size_t output) const {
  const Summary& summary = summaries_[index];
  const bool goes_on =
      std::any_of(summaries_.begin(), summaries_.begin() + static_cast<std::ptrdiff_t>(index),
                  [output](const Summary& newer) { return newer.has_data[output]; });
  return summary.newlines[output] + (summary.open_end[output] && !goes_on ? 1 : 0);
}

// Leaves out the first `count` lines that end in a segment. Returns how many of each output.
absl::StatusOr<OutputBytes> Finder::PassEnds(std::size_t index, std::uint64_t count,
                                             LogTail& tail) const {
  const Summary& summary = summaries_[index];
  OutputBytes passed = {};
  std::uint64_t left = count;
  const absl::Status visited =
      VisitRecords(folder_, summary.number, [&](const LogSegment::Record& record) {
        const std::size_t output = OutputOf(record.header);
        const std::uint64_t before = Before(record.header)[output];
        if (!Wants(output) || left == 0 || before >= summary.after[output]) return;
        const auto pass = [&](std::uint64_t end) {
          if (left == 0) return;
          --left;
          ++passed[output];
          tail.from[output] = end;
        };
        VisitNewlines(record.data, [&](std::size_t bytes) { pass(before + bytes); });
        const std::uint64_t end = before + record.data.size();
        const bool open =
            end == summary.after[output] && EndsIn(index, output) > summary.newlines[output];
        if (open) pass(end);
      });
  if (!visited.ok()) return visited;
  return passed;
}

// The first wanted line of an output may begin before the segment in which it ends: after the
// newline before it.
absl::Status Finder::FindBegin(std::size_t output, std::size_t index, LogTail& tail) {
  for (std::size_t older = index + 1;; ++older) {
    if (older == summaries_.size()) {
      const absl::StatusOr<bool> more = SummarizeOlder();
      if (!more.ok()) return more.status();
      if (!*more) break;
    }
    if (summaries_[older].newlines[output] == 0) continue;
    tail.from[output] = summaries_[older].last_newline[output];
    return absl::OkStatus();
  }
  tail.from[output] = 0;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<LogTail>> Finder::Find(std::uint64_t lines) {
  absl::StatusOr<std::vector<std::uint64_t>> numbers = ListSegments(folder_);
  if (!numbers.ok()) return numbers.status();
  left_ = *std::move(numbers);
  OutputBytes ends = {};  // so far
  do {
    const absl::StatusOr<bool> more = SummarizeOlder();
    if (!more.ok()) return more.status();
    if (!*more) return std::nullopt;
    for (std::size_t output = 0; output < kOutputs; ++output) {
      if (Wants(output)) ends[output] += EndsIn(summaries_.size() - 1, output);
    }
  } while (ends[0] + ends[1] < lines);

  LogTail tail;
  const std::size_t boundary = summaries_.size() - 1;
  const absl::StatusOr<OutputBytes> passed = PassEnds(boundary, ends[0] + ends[1] - lines, tail);
  if (!passed.ok()) return passed.status();
  for (std::size_t output = 0; output < kOutputs; ++output) {
    if (!Wants(output) || (*passed)[output] > 0) continue;
    // None of it is wanted but what comes later, or its first line may begin earlier.
    tail.from[output] = summaries_[boundary].before[output];
    if (ends[output] == 0) continue;
    if (absl::Status status = FindBegin(output, boundary, tail); !status.ok()) return status;
  }

  // The newest segment that has the begin of both.
  std::size_t start = 0;
  const auto covers = [&](const Summary& summary) {
    for (std::size_t output = 0; output < kOutputs; ++output) {
      if (Wants(output) && tail.from[output] < summary.before[output]) return false;
    }
    return true;
  };
  while (start + 1 < summaries_.size() && !covers(summaries_[start])) ++start;
  tail.segment = summaries_[start].number;
  for (std::size_t output = 0; output < kOutputs; ++output) {
    // Where the begin was dropped, all before the oldest segment is missed.
    tail.seen[output] = std::min(summaries_[start].before[output], tail.from[output]);
    if (!Wants(output)) tail.seen[output] = summaries_[start].before[output];
  }
  return tail;
}

}  // namespace

absl::StatusOr<std::optional<LogTail>> FindTail(const std::string& folder, LogStream stream,
                                                std::int64_t lines) {
  return Finder(folder, stream).Find(static_cast<std::uint64_t>(std::max<std::int64_t>(lines, 0)));
}

}  // namespace stageload::jobs
