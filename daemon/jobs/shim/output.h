// One of the job's two outputs on its way into the log.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_JOBS_SHIM_OUTPUT_H_
#define STAGELOAD_DAEMON_JOBS_SHIM_OUTPUT_H_

#include <cstdint>

#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/log_writer.h"

namespace stageload::jobs {

class Output {
 public:
  // `read_end` is made non-blocking.
  Output(Descriptor read_end, LogStream stream);

  bool open() const { return read_end_.ok(); }  // until all writers are gone
  int descriptor() const { return read_end_.get(); }

  // Moves what one read gives into the log; at most 64 KiB, so that neither output starves the
  // other.
  void Move(LogWriter& log);

  // Remembers what the pipe holds now; Owes() until as much was moved.
  void MarkHeld();
  bool Owes() const { return open() && owed_ > 0; }

 private:
  Descriptor read_end_;
  const LogStream stream_;
  std::int64_t owed_ = 0;
};

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SHIM_OUTPUT_H_
