// A program that a test runs: what it printed, how it ended, and never for longer than a deadline.
// Its output goes to files, so nothing has to be read while it runs and what it has printed so far
// can be looked at any time.
//
// Threading: each object belongs to one thread.
#ifndef STAGELOAD_TESTS_E2E_CHILD_PROCESS_H_
#define STAGELOAD_TESTS_E2E_CHILD_PROCESS_H_

#include <sys/types.h>

#include <iosfwd>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace stageload::e2e {

// Far more than anything here takes, also on a loaded machine under a sanitizer.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Looks at `condition` every 10 ms until it holds; false when it never did.
bool Eventually(absl::FunctionRef<bool()> condition, absl::Duration patience = kPatience);

// The whole file; empty when there is none.
std::string ReadFile(const std::string& path);
void WriteFile(const std::string& path, const std::string& text);

struct Result {
  int exit_code = -1;  // 128+n when signal n ended it; -1 when it did not end in time
  std::string out;
  std::string err;
  absl::Duration took;
};
std::ostream& operator<<(std::ostream& stream, const Result& result);

class ChildProcess {
 public:
  struct Command {
    std::vector<std::string> argv;  // argv[0] is a path
    std::vector<std::string> environment;
    std::string directory;
    std::string input;   // its stdin
    std::string output;  // prefix of the files that take its stdin, stdout and stderr
  };

  // With no signal blocked or ignored, in a process group of its own. A failure to start is a
  // failure of the test.
  explicit ChildProcess(const Command& command);
  // Kills it if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // False once it has ended, also while nobody waited for it.
  bool Running();
  void Signal(int signal) const;
  std::string Out() const;
  std::string Err() const;
  // True as soon as it has printed `text` to stdout (or stderr).
  bool Prints(const std::string& text);
  // Its end; a failure of the test when it does not come in time, and then it is killed.
  Result Wait(absl::Duration patience = kPatience);

 private:
  std::string name_;
  std::string output_;
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  absl::Time start_;
  absl::Time end_;
};

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_CHILD_PROCESS_H_
