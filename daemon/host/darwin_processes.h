// A Mac's processes. All of them come in one call; what that call does not tell of a process (its
// unique id, its parent's at the fork, its session) never changes or shows when it does, so it is
// asked for once.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_HOST_DARWIN_PROCESSES_H_
#define STAGELOAD_DAEMON_HOST_DARWIN_PROCESSES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/process.h"
#include "daemon/host/darwin_calls.h"
#include "daemon/host/host.h"

namespace stageload::host {

// Each as host::Host has it.
class DarwinProcesses {
 public:
  explicit DarwinProcesses(DarwinCalls& calls) : calls_(calls) {}

  absl::StatusOr<std::vector<Process>> List();
  absl::StatusOr<Process> Find(std::int32_t pid);
  absl::StatusOr<core::Usage> Usage(const core::ProcessIdentity& identity);
  // Of a process whose arguments may not be read, such as another user's, the name.
  absl::StatusOr<std::string> CommandLine(const core::ProcessIdentity& identity);

 private:
  // A process of the last List().
  struct Known {
    Process process;
    std::uint64_t start = 0;  // as the table has it; 0 when it has to be identified again
    std::string name;
    // Its arguments, and the p_idversion that they were read at: an exec changes both.
    std::optional<std::string> command;
    std::int32_t command_version = 0;
  };

  absl::Status ReadTable(std::size_t* processes);
  // nullopt when there is none with this pid.
  absl::StatusOr<std::optional<kinfo_proc>> ReadEntry(std::int32_t pid);
  // nullopt when it is gone by now; `before` is the same process at the last List(), or null.
  std::optional<Known> Take(const kinfo_proc& entry, Known* before);
  std::optional<Process> Describe(const kinfo_proc& entry, const Known* before);
  static bool IsSame(const Known& known, const kinfo_proc& entry);
  Known* FindKnown(std::int32_t pid);
  int ReadIdentifiers(std::int32_t pid, UniqueIdentifiers* out);
  // OK while `identity` has its pid; `*version` is then its p_idversion, where there is one.
  absl::Status Verify(const core::ProcessIdentity& identity, std::optional<std::int32_t>* version);
  std::optional<core::Usage> UsageOfTask(std::int32_t pid);
  std::string ReadArguments(std::int32_t pid);
  std::string ReadName(std::int32_t pid);

  DarwinCalls& calls_;
  std::vector<kinfo_proc> table_;  // room for more than the last call needed
  std::vector<Known> known_;       // ascending by pid
  std::size_t longest_arguments_ = 0;
  std::unique_ptr<char[]> arguments_;
};

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_DARWIN_PROCESSES_H_
