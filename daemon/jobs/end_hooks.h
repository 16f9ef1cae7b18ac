// What people want to happen when a job has ended: a command of theirs, a desktop notification.
// They are run one after another, apart from everything else, so that a slow or broken one delays
// no job: each gets a minute, and what it puts out is heard only when it fails.
//
// A hook is run at most once: what was still to be run when the daemon is killed is not.
//
// Threading: Post() from any thread; the hooks are run on a thread of their own.
#ifndef STAGELOAD_DAEMON_JOBS_END_HOOKS_H_
#define STAGELOAD_DAEMON_JOBS_END_HOOKS_H_

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/job.h"

namespace stageload::jobs {

class EndHooks {
 public:
  // With more than this many still to be run, the next are left out.
  static constexpr std::size_t kWaiting = 1000;

  struct Options {
    std::string on_end;                    // run by /bin/sh; empty is none
    std::vector<std::string> environment;  // of every hook, "NAME=value"
    absl::Duration timeout = absl::Minutes(1);
    // One line for people about a hook that failed or was left out; on the hooks' thread or that
    // of Post().
    std::function<void(core::JobId, const std::string&)> on_failure;
  };

  explicit EndHooks(Options options);
  // Gives what runs 300 ms to end, kills it, and leaves out the rest.
  ~EndHooks();

  // Of the ends from here on; empty is none.
  void SetOnEnd(std::string on_end);

  // The hooks of a job that has ended: on_end, and a notification if it asked for one.
  void Post(const core::JobRecord& record);

 private:
  struct Hook {
    core::JobId id{};
    const char* what = "";  // for on_failure
    std::vector<std::string> argv;
    std::vector<std::string> environment;
  };

  void Add(Hook hook);
  void Run();
  std::string RunOne(const Hook& hook);  // why it failed; empty when it did not
  bool stopping();

  const Options options_;
  std::mutex mutex_;
  std::string on_end_;
  std::condition_variable changed_;
  std::deque<Hook> waiting_;
  bool stopping_ = false;
  std::thread thread_;  // from the first hook on
};

// The facts of a job's end as variables: STAGELOAD_JOB_ID, _NAME, _KIND, _STATE, _REASON,
// _REASON_TEXT, _EXIT_CODE, _SIGNAL, _COMMAND, _DIRECTORY, _GROUP, _PEAK_BYTES, _CHARGE_BYTES and
// _SECONDS (that it ran); what is not known is empty.
std::vector<std::string> EndVariables(const core::JobRecord& record);

// Title and text of the notification: "train completed", "job 7 ran 2h 3m".
struct Notification {
  std::string title;
  std::string text;
};
Notification NotificationOf(const core::JobRecord& record);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_END_HOOKS_H_
