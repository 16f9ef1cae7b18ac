// One segment of a job's log, read record by record, also while it grows.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_JOBS_LOG_SEGMENT_H_
#define STAGELOAD_DAEMON_JOBS_LOG_SEGMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/log_format.h"

namespace stageload::jobs {

class LogSegment {
 public:
  // `data` lies in the segment's buffer until the next call.
  struct Record {
    RecordHeader header;
    std::string_view data;
  };

  // NotFound when there is none of this number (any more).
  static absl::StatusOr<LogSegment> Open(const std::string& folder, std::uint64_t number);

  // nullopt at the end of the segment, or at a record that is cut there: ask again later. DataLoss,
  // with file and offset, when no record is where one should begin.
  absl::StatusOr<std::optional<Record>> Next();
  // Gives back the memory of what was read; nothing is lost.
  void DropBuffer();

  std::uint64_t number() const { return number_; }
  // It was taken out of the log to make room; what it holds can still be read.
  bool Dropped() const;

 private:
  LogSegment(std::string path, std::uint64_t number, Descriptor file)
      : path_(std::move(path)), number_(number), file_(std::move(file)) {}
  absl::Status Fill();
  absl::Status Damaged(const std::string& what) const;

  std::string path_;
  std::uint64_t number_ = 0;
  Descriptor file_;
  std::uint64_t offset_ = 0;  // in the file, of buffer_[start_]
  std::string buffer_;
  std::size_t start_ = 0;
};

// Numbers of the segments that are there, ascending; none when the job was never started.
absl::StatusOr<std::vector<std::uint64_t>> ListSegments(const std::string& folder);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LOG_SEGMENT_H_
