// Reading the machine. The only interface through which the daemon sees memory and processes; a
// recorded tree, a trace or a test's fake stands behind it as well as a kernel does.
//
// Threading: all calls come from one thread, but Clock(), which any thread may call.
#ifndef STAGELOAD_DAEMON_HOST_HOST_H_
#define STAGELOAD_DAEMON_HOST_HOST_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/instant.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"

namespace stageload::host {

// One line of the process table.
struct Process {
  core::ProcessIdentity identity;
  std::int32_t parent = 0;
  std::int32_t group = 0;
  std::int32_t session = 0;
  // ProcessIdentity::start of the process that made it, kept when that ends and it gets another
  // parent; 0 where the platform does not tell. macOS: p_puniqueid.
  std::uint64_t parent_at_fork = 0;
  std::uint32_t uid = 0;  // effective
  char state = '?';       // 'Z' is a zombie: it holds nothing
};

class Host {
 public:
  virtual ~Host() = default;

  // System-wide memory now. A field that cannot be read is absent; an error means that nothing at
  // all could be read, with what was tried.
  virtual absl::StatusOr<core::HostSample> Sample() = 0;

  // All processes, ascending by pid. One that vanishes in mid-read is left out. Identities, new
  // processes and the parents of orphans are those of now; group, session, uid and state are too
  // for a process that Usage() was asked for since the call before, and else may be 64 calls old.
  virtual absl::StatusOr<std::vector<Process>> Processes() = 0;

  // What one process holds. NotFound when it is gone or its pid belongs to another by now.
  virtual absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity& identity) = 0;

  // The process that has this pid now. NotFound when there is none.
  virtual absl::StatusOr<Process> Find(std::int32_t pid) = 0;

  // The whole command line, arguments joined by one space. NotFound when it is gone.
  virtual absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity) = 0;

  // Asks for a hint when memory runs short, or can be had again where the platform tells that too:
  // `hint` is called then, from another thread, until this host is gone. Once. It may come late or
  // never, so nothing may rely on it; an error where there is none to be had. A platform that gives
  // a descriptor instead of calls has `wait` call back whenever poll(2) would say POLLPRI of it;
  // whoever waits has to end before the host does.
  using WaitForUrgent =
      std::function<absl::Status(int descriptor, std::function<void()> on_urgent)>;
  virtual absl::Status OnPressure(std::function<void()> hint, const WaitForUrgent& wait) = 0;

  virtual Instant Clock() = 0;

  // Different after each boot; empty when the platform cannot tell.
  virtual const std::string& BootId() = 0;
};

struct LinuxOptions {
  std::string proc = "/proc";             // a recorded tree in tests
  std::string cgroup = "/sys/fs/cgroup";  // likewise
};
std::unique_ptr<Host> NewLinuxHost(LinuxOptions options);

std::unique_ptr<Host> NewDarwinHost();

// The machine that this program was built for.
std::unique_ptr<Host> NewLocalHost();

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_HOST_H_
