// Reads a job's log. It keeps one chunk in memory, and only while there is something to read.
#include "daemon/jobs/log.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/log_format.h"

namespace stageload::jobs {
namespace {

constexpr std::size_t kChunk = 2 * (kRecordHeader + kMaxRecordData);

}  // namespace

class LogReader::Impl {
 public:
  Impl(std::string folder, LogStream stream) : folder_(std::move(folder)), stream_(stream) {}

  absl::StatusOr<std::optional<LogPiece>> Next();

 private:
  // A whole record lies in buffer_ at `start`.
  struct Record {
    RecordHeader header;
    std::string_view data;
  };

  absl::StatusOr<std::optional<Record>> NextRecord();
  absl::StatusOr<std::optional<Record>> ParseRecord();
  absl::Status Fill();
  absl::StatusOr<bool> OpenFollowing();
  absl::StatusOr<std::optional<std::uint64_t>> FirstSegmentFrom(std::uint64_t number) const;
  std::optional<LogPiece> ToPiece(const Record& record);
  absl::Status Damaged(const std::string& what) const;

  const std::string folder_;
  const LogStream stream_;
  std::uint64_t number_ = 0;  // of the open segment, or the least to open next
  Descriptor file_;
  std::uint64_t offset_ = 0;  // in the file, of buffer_[start_]
  std::string buffer_;
  std::size_t start_ = 0;
  std::uint64_t stdout_seen_ = 0;
  std::uint64_t stderr_seen_ = 0;
  std::uint64_t lost_ = 0;  // of what this reader reads, not told yet
  absl::Status failed_;
};

absl::StatusOr<std::optional<LogPiece>> LogReader::Impl::Next() {
  for (;;) {
    if (!failed_.ok()) return failed_;
    const absl::StatusOr<std::optional<Record>> record = NextRecord();
    if (!record.ok()) {
      if (absl::IsDataLoss(record.status())) failed_ = record.status();
      return record.status();
    }
    if (!record->has_value()) {
      buffer_ = {};
      start_ = 0;
      return std::nullopt;
    }
    if (std::optional<LogPiece> piece = ToPiece(**record)) return piece;
  }
}

std::optional<LogPiece> LogReader::Impl::ToPiece(const Record& record) {
  const RecordHeader& header = record.header;
  const auto missed = [](std::uint64_t before, std::uint64_t seen) {
    return before > seen ? before - seen : 0;
  };
  if (stream_ != LogStream::kStderr) lost_ += missed(header.stdout_before, stdout_seen_);
  if (stream_ != LogStream::kStdout) lost_ += missed(header.stderr_before, stderr_seen_);
  stdout_seen_ = header.stdout_before;
  stderr_seen_ = header.stderr_before;
  (header.stream == LogStream::kStdout ? stdout_seen_ : stderr_seen_) += header.length;

  const bool wanted = stream_ == LogStream::kBoth || stream_ == header.stream;
  if ((!wanted || record.data.empty()) && lost_ == 0) return std::nullopt;
  LogPiece piece;
  piece.stream = wanted ? header.stream : stream_;
  if (wanted) piece.data = std::string(record.data);
  piece.time = absl::FromUnixNanos(header.time_ns);
  piece.dropped = Bytes::FromUnsigned(std::exchange(lost_, 0));
  return piece;
}

absl::StatusOr<std::optional<LogReader::Impl::Record>> LogReader::Impl::NextRecord() {
  bool last = false;  // a later segment is there, so this one no longer grows
  for (;;) {
    if (file_.ok()) {
      absl::StatusOr<std::optional<Record>> record = ParseRecord();
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

// nullopt at the end of the segment or in a record that is cut there. The file is read again after
// each cut, since the writer takes back what it could not write in full.
absl::StatusOr<std::optional<LogReader::Impl::Record>> LogReader::Impl::ParseRecord() {
  for (int reads = 0;; ++reads) {
    const std::string_view bytes = std::string_view(buffer_).substr(start_);
    bool cut = bytes.size() < kRecordHeader;
    if (!cut) {
      const std::optional<RecordHeader> header = DecodeHeader(bytes);
      const std::size_t size = header ? kRecordHeader + header->length : 0;
      cut = header.has_value() && bytes.size() < size;
      const bool whole = header.has_value() && !cut && ChecksumHolds(bytes.substr(0, size));
      if (whole) {
        start_ += size;
        offset_ += size;
        return Record{*header, bytes.substr(kRecordHeader, header->length)};
      }
      // A record that was taken back and written anew between two reads looks damaged once only.
      if (!cut && reads > 1) return Damaged(header ? "its checksum is wrong" : "no record begins");
    }
    if (cut && reads > 0) return std::nullopt;
    if (absl::Status status = Fill(); !status.ok()) return status;
  }
}

absl::Status LogReader::Impl::Fill() {
  buffer_.resize(kChunk);
  start_ = 0;
  ssize_t got = 0;
  do {
    got = ::pread(file_.get(), buffer_.data(), kChunk, static_cast<off_t>(offset_));
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got >= 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("read ", folder_, "/", SegmentName(number_)));
}

absl::Status LogReader::Impl::Damaged(const std::string& what) const {
  return absl::DataLossError(absl::StrCat("the log ", folder_, "/", SegmentName(number_),
                                          " is damaged at byte ", offset_, ": ", what));
}

// Opens the next segment there is; false when there is none yet.
absl::StatusOr<bool> LogReader::Impl::OpenFollowing() {
  const std::uint64_t least = file_.ok() ? number_ + 1 : number_;
  for (;;) {
    const absl::StatusOr<std::optional<std::uint64_t>> next = FirstSegmentFrom(least);
    if (!next.ok()) return next.status();
    if (!next->has_value()) return false;
    const std::string path = absl::StrCat(folder_, "/", SegmentName(**next));
    Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.ok() && errno == ENOENT) continue;  // dropped in this very moment
    if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
    file_ = std::move(file);
    number_ = **next;
    offset_ = 0;
    start_ = 0;
    buffer_.clear();
    return true;
  }
}

absl::StatusOr<std::optional<std::uint64_t>> LogReader::Impl::FirstSegmentFrom(
    std::uint64_t number) const {
  // The usual case, asked of the kernel by name: the very next one is there, or nothing is, as ours
  // is still the last. Only a reader that was overtaken has to list the folder.
  struct stat about {};
  if (::stat(absl::StrCat(folder_, "/", SegmentName(number)).c_str(), &about) == 0) return number;
  if (file_.ok() && ::fstat(file_.get(), &about) == 0 && about.st_nlink > 0) return std::nullopt;

  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), ::closedir);
  if (folder == nullptr) {
    if (errno == ENOENT) return std::nullopt;  // the job was never started
    return absl::ErrnoToStatus(errno, absl::StrCat("list ", folder_));
  }
  std::optional<std::uint64_t> first;
  while (const dirent* entry = ::readdir(folder.get())) {
    const std::optional<std::uint64_t> found = SegmentNumber(entry->d_name);
    if (found && *found >= number && (!first || *found < *first)) first = found;
  }
  return first;
}

LogReader::LogReader(std::string folder, LogStream stream)
    : impl_(std::make_unique<Impl>(std::move(folder), stream)) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;
LogReader& LogReader::operator=(LogReader&&) noexcept = default;

absl::StatusOr<std::optional<LogPiece>> LogReader::Next() { return impl_->Next(); }

}  // namespace stageload::jobs
