// What a person sees while something waits for room: on a terminal one line that is kept up to
// date, elsewhere a line when what blocks it changes. Always stderr.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_CTL_PROGRESS_H_
#define STAGELOAD_CLIENT_CTL_PROGRESS_H_

#include <mutex>
#include <string>

#include "stageload/v1/job.pb.h"

namespace stageload::ctl {

class Progress {
 public:
  Progress();
  ~Progress() { Clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  bool terminal() const { return terminal_; }
  // A job that is PENDING; the figures of its blockers.
  void Waiting(const v1::Job& job);
  // Takes the line away, before anything else is printed.
  void Clear();

 private:
  const bool terminal_;
  std::mutex mutex_;
  bool shown_ = false;
  std::string gist_;  // of the line printed last
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PROGRESS_H_
