// A home of its own for each test, with the real programs in it.
#ifndef STAGELOAD_TESTS_E2E_DAEMON_FIXTURE_H_
#define STAGELOAD_TESTS_E2E_DAEMON_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/types.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/paths.h"
#include "tests/e2e/child_process.h"
#include "tests/e2e/processes.h"

namespace stageload::e2e {

using Arguments = std::vector<std::string>;

// The programs under test.
extern const char* const kDaemonProgram;  // stageloadd
extern const char* const kCtlProgram;     // stageloadctl
extern const char* const kLoadProgram;    // stageload-load

struct CtlOptions {
  std::string program = kCtlProgram;
  Arguments environment = {};  // added
  std::string directory = {};  // the test's folder when empty
  std::string input = {};
};

class DaemonTest : public ::testing::Test {
 protected:
  void SetUp() override;
  // Ends the daemon, which must exit with 0 when told by SIGTERM, then every process of this test.
  void TearDown() override;

  const std::string& folder() const { return folder_; }  // all of this test's files
  const std::string& home() const { return home_; }      // STAGELOAD_HOME
  Paths paths() const;                                   // of that home
  void WriteConfig(const std::string& toml) const;
  // What the programs are started with.
  std::vector<std::string> Environment(const Arguments& more = {}) const;

  // In the foreground of this test; returns when `daemon status` does.
  void StartDaemon(const Arguments& flags = {}, const Arguments& more_environment = {});
  ChildProcess StartDaemonProgram(const Arguments& flags, const Arguments& more_environment = {});
  ChildProcess& daemon() { return *daemon_; }
  // SIGKILL, as a crash would be.
  void KillDaemon();
  // Of the daemon that has this home's lock, whoever started it.
  pid_t DaemonPid() const;
  // Command lines of the stageloadd processes of this test.
  std::vector<std::string> Daemons() const;

  ChildProcess StartCtl(const Arguments& arguments, const CtlOptions& options = {});
  Result Ctl(const Arguments& arguments, const CtlOptions& options = {});
  // stdout of a `--json` command that must succeed.
  nlohmann::json CtlJson(Arguments arguments);

  // A submit that must succeed; returns the id, or 0 when it did not.
  std::int64_t Submit(const Arguments& arguments, const CtlOptions& options = {});
  nlohmann::json Show(std::int64_t id);
  std::string StateOf(std::int64_t id);
  bool Reaches(std::int64_t id, const std::string& state);
  // The blocker of this kind that `show` gives for a pending job.
  std::optional<nlohmann::json> BlockerOf(std::int64_t id, const std::string& kind);
  // How many jobs the daemon knows.
  std::size_t CountJobs();

  // A command that runs until `file` exists, then exits with `code`.
  Arguments UntilExists(const std::string& file, int code = 0) const;
  void Touch(const std::string& file) const { WriteFile(file, ""); }
  std::string PathOf(const std::string& name) const { return folder_ + "/" + name; }

 private:
  std::string folder_;
  std::string home_;
  int outputs_ = 0;
  std::optional<ChildProcess> daemon_;
};

std::string Id(std::int64_t id);
Arguments operator+(Arguments left, const Arguments& right);

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_DAEMON_FIXTURE_H_
