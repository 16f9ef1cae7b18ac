// The one writer of a job's log. It never fails and never waits: what cannot be written is counted
// and told to readers by the next record that can, and the oldest segment goes when the cap is
// reached.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_JOBS_LOG_WRITER_H_
#define STAGELOAD_DAEMON_JOBS_LOG_WRITER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "absl/time/time.h"
#include "base/units.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/log.h"

namespace stageload::jobs {

class LogWriter {
 public:
  // As write(2); a test's may fail.
  using WriteFunction = std::function<ssize_t(int, const void*, std::size_t)>;

  // `folder` is a descriptor of the job's open folder and outlives the writer. `cap` is for all
  // segments together, 4 records (256 KiB and a little) at least.
  explicit LogWriter(int folder, Bytes cap = kLogCap);
  LogWriter(int folder, Bytes cap, WriteFunction write);

  // `stream` is kStdout or kStderr.
  void Append(LogStream stream, std::string_view data, absl::Time time);
  // Tells readers of a loss that no record has told yet. Nothing is appended after it.
  void Finish(absl::Time time);

  // Put out by the job and never written.
  Bytes dropped() const { return Bytes::FromUnsigned(dropped_); }

 private:
  struct Segment {
    std::uint64_t number = 0;
    std::uint64_t size = 0;
  };

  bool Put(LogStream stream, std::string_view data, absl::Time time);
  bool Write(std::string_view record);
  bool OpenNext();
  void DropOldest(std::uint64_t needed);
  void TakeBack();

  const int folder_;
  const std::uint64_t cap_;
  const std::uint64_t segment_cap_;
  const WriteFunction write_;
  std::string record_;            // the one in hand
  std::deque<Segment> segments_;  // ascending; the last is being written
  std::uint64_t next_number_ = 0;
  std::uint64_t total_ = 0;  // size of all segments
  Descriptor file_;          // of the last segment
  bool spoiled_ = false;     // the last segment ends in a part of a record that would not go
  std::uint64_t stdout_before_ = 0;
  std::uint64_t stderr_before_ = 0;
  std::uint64_t dropped_ = 0;
  bool untold_ = false;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LOG_WRITER_H_
