// What tests of real processes need: identities.
#ifndef STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_

#include <cstdint>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "daemon/core/process.h"
#include "daemon/jobs/self.h"
#include "tests/fixture.h"

namespace stageload::jobs {

inline std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  return contents.str();
}

inline void WriteFile(const std::string& path, const std::string& contents) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << contents;
}

// Of a process on macOS too, whose only name for it is what jobs/ reads itself; nullopt when there
// is no such process.
inline std::optional<core::ProcessIdentity> IdentityOf(std::int32_t pid) {
#ifdef __APPLE__
  const auto identity = IdentityOfChild(pid);
  return identity.ok() ? std::optional(*identity) : std::nullopt;
#else
  // As proc(5) has it.
  const std::string stat = Contents("/proc/" + std::to_string(pid) + "/stat");
  if (stat.empty()) return std::nullopt;
  std::istringstream fields(stat.substr(stat.rfind(')') + 2));
  std::string field;
  for (int i = 3; i <= 22; ++i) fields >> field;
  return core::ProcessIdentity{pid, std::stoull(field)};
#endif
}

inline bool Exists(const core::ProcessIdentity& identity) {
  return IdentityOf(identity.pid) == identity;
}

}  // namespace stageload::jobs

#endif  // STAGELOAD_TESTS_DAEMON_JOBS_FIXTURE_H_
