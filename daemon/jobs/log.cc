// Reads a job's log. It keeps one chunk in memory, and only while there is something to read.
#include "daemon/jobs/log.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/log_format.h"
#include "daemon/jobs/log_segment.h"
#include "daemon/jobs/log_tail.h"

namespace stageload::jobs {

class LogReader::Impl {
 public:
  Impl(std::string folder, LogStream stream, std::optional<std::int64_t> tail_lines)
      : folder_(std::move(folder)), stream_(stream), tail_lines_(tail_lines) {}

  absl::StatusOr<std::optional<LogPiece>> Next();

 private:
  absl::Status GoToTail();
  absl::StatusOr<std::optional<LogSegment::Record>> NextRecord();
  absl::StatusOr<bool> OpenFollowing();
  absl::StatusOr<std::optional<std::uint64_t>> FirstSegmentFrom(std::uint64_t number) const;
  std::optional<LogPiece> ToPiece(const LogSegment::Record& record);
  void Miss(std::size_t output, std::uint64_t before);
  bool Wants(LogStream stream) const { return stream_ == LogStream::kBoth || stream_ == stream; }

  const std::string folder_;
  const LogStream stream_;
  std::optional<std::int64_t> tail_lines_;  // until they were looked for
  std::uint64_t number_ = 0;                // of the open segment, or the least to open next
  std::optional<LogSegment> segment_;
  OutputBytes seen_ = {};  // up to here it was read, lost or left out
  OutputBytes from_ = {};  // what comes before is left out
  // Of what this reader reads, not told yet.
  std::uint64_t lost_ = 0;
  std::uint64_t skipped_ = 0;
  absl::Status failed_;
};

absl::StatusOr<std::optional<LogPiece>> LogReader::Impl::Next() {
  if (absl::Status status = GoToTail(); !status.ok()) return status;
  for (;;) {
    if (!failed_.ok()) return failed_;
    const absl::StatusOr<std::optional<LogSegment::Record>> record = NextRecord();
    if (!record.ok()) {
      if (absl::IsDataLoss(record.status())) failed_ = record.status();
      return record.status();
    }
    if (!record->has_value()) {
      if (segment_) segment_->DropBuffer();
      return std::nullopt;
    }
    if (std::optional<LogPiece> piece = ToPiece(**record)) return piece;
  }
}

absl::Status LogReader::Impl::GoToTail() {
  if (!tail_lines_) return absl::OkStatus();
  const absl::StatusOr<std::optional<LogTail>> tail = FindTail(folder_, stream_, *tail_lines_);
  if (!tail.ok()) return tail.status();
  tail_lines_.reset();
  if (!tail->has_value()) return absl::OkStatus();
  number_ = (*tail)->segment;
  seen_ = (*tail)->seen;
  from_ = (*tail)->from;
  if (Wants(LogStream::kStdout)) skipped_ += seen_[0];
  if (Wants(LogStream::kStderr)) skipped_ += seen_[1];
  return absl::OkStatus();
}

// The record begins at `before`: what of the output was not seen was left out or is lost.
void LogReader::Impl::Miss(std::size_t output, std::uint64_t before) {
  std::uint64_t& seen = seen_[output];
  if (before > seen && Wants(output == 0 ? LogStream::kStdout : LogStream::kStderr)) {
    const std::uint64_t left_out = std::clamp(from_[output], seen, before) - seen;
    skipped_ += left_out;
    lost_ += before - seen - left_out;
  }
  seen = before;
}

std::optional<LogPiece> LogReader::Impl::ToPiece(const LogSegment::Record& record) {
  const RecordHeader& header = record.header;
  Miss(0, header.stdout_before);
  Miss(1, header.stderr_before);
  const std::size_t output = header.stream == LogStream::kStderr ? 1 : 0;
  const std::uint64_t before = seen_[output];
  seen_[output] += header.length;
  std::string_view data = Wants(header.stream) ? record.data : std::string_view();
  if (from_[output] > before) {
    const std::size_t cut = std::min<std::size_t>(data.size(), from_[output] - before);
    data.remove_prefix(cut);
    skipped_ += cut;
  }
  if (data.empty() && lost_ == 0) return std::nullopt;
  LogPiece piece;
  piece.stream = Wants(header.stream) ? header.stream : stream_;
  piece.data = std::string(data);
  piece.time = absl::FromUnixNanos(header.time_ns);
  piece.dropped = Bytes::FromUnsigned(std::exchange(lost_, 0));
  piece.skipped = Bytes::FromUnsigned(std::exchange(skipped_, 0));
  return piece;
}

absl::StatusOr<std::optional<LogSegment::Record>> LogReader::Impl::NextRecord() {
  bool last = false;  // a later segment is there, so this one no longer grows
  for (;;) {
    if (segment_) {
      absl::StatusOr<std::optional<LogSegment::Record>> record = segment_->Next();
      if (!record.ok() || record->has_value()) return record;
      // Asked in this order: what came into this segment before the next was made is read first.
      if (!std::exchange(last, true)) {
        const absl::StatusOr<std::optional<std::uint64_t>> next = FirstSegmentFrom(number_ + 1);
        if (!next.ok()) return next.status();
        if (!next->has_value()) return std::nullopt;
        continue;
      }
    }
    const absl::StatusOr<bool> opened = OpenFollowing();
    if (!opened.ok()) return opened.status();
    if (!*opened) return std::nullopt;
    last = false;
  }
}

// Opens the next segment there is; false when there is none yet.
absl::StatusOr<bool> LogReader::Impl::OpenFollowing() {
  const std::uint64_t least = segment_ ? number_ + 1 : number_;
  for (;;) {
    const absl::StatusOr<std::optional<std::uint64_t>> next = FirstSegmentFrom(least);
    if (!next.ok()) return next.status();
    if (!next->has_value()) return false;
    absl::StatusOr<LogSegment> segment = LogSegment::Open(folder_, **next);
    if (absl::IsNotFound(segment.status())) continue;  // dropped in this very moment
    if (!segment.ok()) return segment.status();
    segment_ = *std::move(segment);
    number_ = **next;
    return true;
  }
}

absl::StatusOr<std::optional<std::uint64_t>> LogReader::Impl::FirstSegmentFrom(
    std::uint64_t number) const {
  // The usual case, asked of the kernel by name: the very next one is there, or nothing is, as ours
  // is still the last. Only a reader that was overtaken has to list the folder.
  struct stat about {};
  if (::stat(absl::StrCat(folder_, "/", SegmentName(number)).c_str(), &about) == 0) return number;
  if (segment_ && !segment_->Dropped()) return std::nullopt;
  const absl::StatusOr<std::vector<std::uint64_t>> segments = ListSegments(folder_);
  if (!segments.ok()) return segments.status();
  const auto first = std::lower_bound(segments->begin(), segments->end(), number);
  return first == segments->end() ? std::nullopt : std::optional(*first);
}

LogReader::LogReader(std::string folder, LogStream stream, std::optional<std::int64_t> tail_lines)
    : impl_(std::make_unique<Impl>(std::move(folder), stream, tail_lines)) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;

absl::StatusOr<std::optional<LogPiece>> LogReader::Next() { return impl_->Next(); }

}  // namespace stageload::jobs
