// Starting a program with nothing of the caller's: clean signals, /dev/null for what is not given,
// and no other descriptor. And the pairs of descriptors to talk to it, closed on exec by default.
//
// Threading: pure calls into the kernel.
#ifndef STAGELOAD_DAEMON_JOBS_SPAWN_H_
#define STAGELOAD_DAEMON_JOBS_SPAWN_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {

struct SpawnRequest {
  std::string path;
  std::vector<std::string> argv;
  std::vector<std::string> environment;  // "NAME=value"; the whole of it
  // Ours on the left becomes the program's on the right. Those on the left are above all on the
  // right (see AboveStandard). 0, 1 and 2 are /dev/null where they are not named here.
  std::vector<std::pair<int, int>> descriptors;
  enum class Place { kOwnSession, kOwnGroup } place = Place::kOwnGroup;
};

// 0, or the errno of posix_spawn(3), which is execve(2)'s when it came that far.
int Spawn(const SpawnRequest& request, pid_t* pid);

struct DescriptorPair {
  Descriptor first;
  Descriptor second;
};
absl::StatusOr<DescriptorPair> MakePipe();        // first is read, second written
absl::StatusOr<DescriptorPair> MakeSocketPair();  // stream, both ways

// The same open file under a number of 10 or more, so that no descriptor given to a program can
// overwrite it on the way.
absl::StatusOr<Descriptor> AboveStandard(Descriptor descriptor);

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_SPAWN_H_
