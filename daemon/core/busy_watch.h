// Programs that are not ours and that a request wouldn't run beside: which patterns to look for,
// and since when each has been quiet.
//
// Threading: one owner; no I/O, no clock. Times are Instant::awake.
#ifndef STAGELOAD_DAEMON_CORE_BUSY_WATCH_H_
#define STAGELOAD_DAEMON_CORE_BUSY_WATCH_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/sample.h"

namespace stageload::core {

class BusyWatch {
 public:
  // One more, or one fewer, request waits for these. A pattern nobody waits for is forgotten.
  void Want(const std::vector<std::string>& patterns);
  void Unwant(const std::vector<std::string>& patterns);
  std::vector<std::string> Patterns() const;  // to look for, in order

  void Observe(absl::Duration now, const std::vector<BusyReading>& readings);

  struct Quiet {
    // When all of them will have been quiet for `quiet_for`, by what was seen: the time before the
    // first look does not count. Infinite while one matches or was never looked for.
    absl::Duration at = -absl::InfiniteDuration();
    std::string match;    // one that matches now, or did last: "412 ollama serve"; empty: none ever
    std::string pattern;  // that it matches
    std::optional<absl::Duration> last_seen;  // or first looked for
    bool unread = false;                      // one of them was never looked for
  };
  Quiet Of(const std::vector<std::string>& patterns, absl::Duration quiet_for) const;

 private:
  struct Pattern {
    int wanted = 0;
    bool read = false;
    bool matches = false;
    std::string match;  // the last that did
    std::optional<absl::Duration> last_seen;
  };
  std::map<std::string, Pattern> patterns_;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_BUSY_WATCH_H_
