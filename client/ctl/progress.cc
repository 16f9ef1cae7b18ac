// The line that says what blocks.
#include "client/ctl/progress.h"

#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/waiting_line.h"

namespace stageload::ctl {
namespace {

constexpr char kEraseLine[] = "\r\033[K";

// Its words up to the first figure.
std::string Gist(const std::string& line) {
  return line.substr(0, line.find_first_of("0123456789"));
}

}  // namespace

Progress::Progress() : terminal_(isatty(STDERR_FILENO) != 0 && !IsDumbTerminal()) {}

void Progress::Waiting(const v1::Job& job) {
  std::string gist;
  for (const v1::Blocker& blocker : job.blockers()) {
    absl::StrAppend(&gist, Gist(BlockerLine(blocker)), "\n");
  }
  const std::lock_guard lock(mutex_);
  // Queued and not yet looked at: there is nothing to say.
  if (gist.empty()) return;
  if (terminal_) {
    shown_ = true;
    const std::size_t width = TerminalWidth(STDERR_FILENO);
    (void)WriteAll(STDERR_FILENO, absl::StrCat(kEraseLine, WaitingLine(job, width - 1)));
    return;
  }
  // The figures move with every sample; a log wants to know when the reason does.
  if (gist == gist_) return;
  gist_ = std::move(gist);
  (void)WriteAll(STDERR_FILENO, WaitingLine(job, 0) + "\n");
}

void Progress::Clear() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(shown_, false)) return;
  (void)WriteAll(STDERR_FILENO, kEraseLine);
}

}  // namespace stageload::ctl
