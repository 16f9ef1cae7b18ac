// What tests of real processes need: a folder of their own, waiting on a condition, identities.
#ifndef STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_

#include <poll.h>
#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "daemon/core/process.h"

namespace stageload::jobs {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "jobs_test.XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether `condition` came true within a time that only a hang exceeds.
template <typename Condition>
bool Eventually(Condition condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

inline std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  return contents.str();
}

inline void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

// Read from /proc as proc(5) has it; nullopt when there is no such process.
inline std::optional<core::ProcessIdentity> IdentityOf(std::int32_t pid) {
  const std::string stat = Contents("/proc/" + std::to_string(pid) + "/stat");
  if (stat.empty()) return std::nullopt;
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return core::ProcessIdentity{pid, std::stoull(field)};
}

inline bool Exists(const core::ProcessIdentity& identity) {
  return IdentityOf(identity.pid) == identity;
}

}  // namespace stageload::jobs

#endif  // STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_
