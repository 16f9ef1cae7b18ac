// What a person sees while something waits for room: on a terminal one line that is kept up to
// date, elsewhere a line when what blocks it changes. Always stderr.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_CTL_PROGRESS_H_
#define STAGELOAD_CLIENT_CTL_PROGRESS_H_

#include <mutex>
#include <string>
#include <vector>

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
  // What blocked it when it was last seen, one line each.
  std::vector<std::string> Last() const;

 private:
  const bool terminal_;
  mutable std::mutex mutex_;
  bool shown_ = false;
  std::string kinds_;  // of the line printed last
  std::vector<std::string> last_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PROGRESS_H_
