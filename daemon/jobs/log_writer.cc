#include "daemon/jobs/log_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/jobs/log_format.h"

namespace stageload::jobs {
namespace {

constexpr std::uint64_t kMaxRecord = kRecordHeader + kMaxRecordData;
constexpr std::uint64_t kSegments = 8;  // so rotation drops an eighth at a time

}  // namespace

LogWriter::LogWriter(int folder, Bytes cap) : LogWriter(folder, cap, ::write) {}

LogWriter::LogWriter(int folder, Bytes cap, WriteFunction write)
    : folder_(folder),
      cap_(std::max(static_cast<std::uint64_t>(std::max<std::int64_t>(cap.count(), 0)),
                    4 * kMaxRecord)),
      segment_cap_(std::max(cap_ / kSegments, kMaxRecord)),
      write_(std::move(write)) {}

void LogWriter::Append(LogStream stream, std::string_view data, absl::Time time) {
  std::uint64_t& before = stream == LogStream::kStderr ? stderr_before_ : stdout_before_;
  while (!data.empty()) {
    const std::string_view part = data.substr(0, kMaxRecordData);
    data.remove_prefix(part.size());
    if (Put(stream, part, time)) {
      untold_ = false;
    } else {
      dropped_ += part.size();
      untold_ = true;
    }
    before += part.size();
  }
}

void LogWriter::Finish(absl::Time time) {
  if (untold_ && Put(LogStream::kStdout, "", time)) untold_ = false;
}

bool LogWriter::Put(LogStream stream, std::string_view data, absl::Time time) {
  const RecordHeader header = {.stream = stream,
                               .length = static_cast<std::uint32_t>(data.size()),
                               .time_ns = absl::ToUnixNanos(time),
                               .stdout_before = stdout_before_,
                               .stderr_before = stderr_before_};
  EncodeRecord(header, data, &record_);
  return Write(record_);
}

bool LogWriter::Write(std::string_view record) {
  if (spoiled_) TakeBack();
  const bool full =
      segments_.empty() || spoiled_ || segments_.back().size + record.size() > segment_cap_;
  if (full && !OpenNext()) return false;
  DropOldest(record.size());
  std::size_t done = 0;
  while (done < record.size()) {
    const ssize_t written = write_(file_.get(), record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) break;
    done += static_cast<std::size_t>(written);
  }
  if (done == record.size()) {
    segments_.back().size += done;
    total_ += done;
    return true;
  }
  if (done > 0) {
    spoiled_ = true;
    TakeBack();
  }
  return false;
}

// Cuts what was written of a record. Where even that fails, the next record opens a new segment and
// readers take the cut one for the end of this.
void LogWriter::TakeBack() {
  if (::ftruncate(file_.get(), static_cast<off_t>(segments_.back().size)) == 0) spoiled_ = false;
}

bool LogWriter::OpenNext() {
  // O_APPEND: after a cut the next write goes to the end as it is then.
  Descriptor file(::openat(folder_, SegmentName(next_number_).c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600));
  if (!file.ok()) {
    if (errno == EEXIST) ++next_number_;  // not ours to write to
    return false;
  }
  file_ = std::move(file);
  segments_.push_back({.number = next_number_++, .size = 0});
  spoiled_ = false;
  return true;
}

void LogWriter::DropOldest(std::uint64_t needed) {
  while (segments_.size() > 1 && total_ + needed > cap_) {
    ::unlinkat(folder_, SegmentName(segments_.front().number).c_str(), 0);
    total_ -= segments_.front().size;
    segments_.pop_front();
  }
}

}  // namespace stageload::jobs
