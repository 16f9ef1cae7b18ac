// A signal reaches the process that was meant, or nobody.
#include "daemon/jobs/signal.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "daemon/jobs/spawn.h"
#include "tests/daemon/jobs/fixture.h"

namespace stageload::jobs {
namespace {

// A child that waits for its end.
class Sleeper {
 public:
  Sleeper() {
    EXPECT_EQ(Spawn({.path = "/bin/sleep",
                     .argv = {"sleep", "600"},
                     .environment = {},
                     .descriptors = {},
                     .place = SpawnRequest::Place::kOwnGroup},
                    &pid_),
              0);
  }
  ~Sleeper() {
    if (pid_ == 0) return;
    ::kill(pid_, SIGKILL);
    Wait();
  }
  core::ProcessIdentity identity() const { return *IdentityOf(pid_); }
  // The signal that ended it.
  int Wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, 0), &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  }
  bool HasEnded() const {
    siginfo_t about{};
    ::waitid(P_PID, static_cast<id_t>(pid_), &about, WEXITED | WNOHANG | WNOWAIT);
    return about.si_pid != 0;
  }

 private:
  pid_t pid_ = 0;
};

TEST(SendSignal, ReachesTheProcess) {
  Sleeper sleeper;
  EXPECT_TRUE(SendSignal(sleeper.identity(), SIGTERM, Exists).ok());
  EXPECT_EQ(sleeper.Wait(), SIGTERM);
}

TEST(SendSignal, SendsNothingToAPidThatIsUsedAgain) {
  Sleeper sleeper;
  core::ProcessIdentity earlier = sleeper.identity();
  earlier.start -= 1;
  EXPECT_EQ(SendSignal(earlier, SIGKILL, Exists).code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(sleeper.HasEnded());
  EXPECT_TRUE(SendSignal(sleeper.identity(), SIGTERM, Exists).ok());
  EXPECT_EQ(sleeper.Wait(), SIGTERM);  // and not the SIGKILL
}

TEST(SendSignal, AProcessThatIsGoneIsNotFoundAndItsIdentityIsNotAsked) {
  Sleeper sleeper;
  const core::ProcessIdentity identity = sleeper.identity();
  ::kill(identity.pid, SIGKILL);
  sleeper.Wait();
  bool asked = false;
  const absl::Status status = SendSignal(identity, SIGTERM, [&](const core::ProcessIdentity&) {
    asked = true;
    return true;
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_FALSE(asked);
}

TEST(SendSignal, ASignalThatIsNoneIsAnError) {
  Sleeper sleeper;
  EXPECT_EQ(SendSignal(sleeper.identity(), 4000, Exists).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_FALSE(sleeper.HasEnded());
}

}  // namespace
}  // namespace stageload::jobs
