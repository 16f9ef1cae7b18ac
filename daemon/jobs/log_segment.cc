#include "daemon/jobs/log_segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace stageload::jobs {
namespace {

constexpr std::size_t kChunk = 2 * (kRecordHeader + kMaxRecordData);

}  // namespace

absl::StatusOr<LogSegment> LogSegment::Open(const std::string& folder, std::uint64_t number) {
  std::string path = absl::StrCat(folder, "/", SegmentName(number));
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  return LogSegment(std::move(path), number, std::move(file));
}

// The file is read again after each cut, since the writer takes back what it could not write in
// full.
absl::StatusOr<std::optional<LogSegment::Record>> LogSegment::Next() {
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

absl::Status LogSegment::Fill() {
  buffer_.resize(kChunk);
  start_ = 0;
  ssize_t got = 0;
  do {
    got = ::pread(file_.get(), buffer_.data(), kChunk, static_cast<off_t>(offset_));
  } while (got < 0 && errno == EINTR);
  const int error = errno;
  buffer_.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  if (got >= 0) return absl::OkStatus();
  return absl::ErrnoToStatus(error, absl::StrCat("read ", path_));
}

void LogSegment::DropBuffer() {
  buffer_ = {};
  start_ = 0;
}

bool LogSegment::Dropped() const {
  struct stat about {};
  return ::fstat(file_.get(), &about) == 0 && about.st_nlink == 0;
}

absl::Status LogSegment::Damaged(const std::string& what) const {
  return absl::DataLossError(
      absl::StrCat("the log ", path_, " is damaged at byte ", offset_, ": ", what));
}

absl::StatusOr<std::vector<std::uint64_t>> ListSegments(const std::string& folder) {
  std::vector<std::uint64_t> numbers;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(::opendir(folder.c_str()), ::closedir);
  if (listing == nullptr) {
    if (errno == ENOENT) return numbers;
    return absl::ErrnoToStatus(errno, absl::StrCat("list ", folder));
  }
  while (const dirent* entry = ::readdir(listing.get())) {
    if (const auto number = SegmentNumber(entry->d_name)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

}  // namespace stageload::jobs
