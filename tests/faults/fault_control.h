// What a test and the fault layer inside the programs share: a small file, mapped by all of them.
// The layer (fault_layer.cc, loaded with LD_PRELOAD) counts every call that writes, syncs, creates,
// renames or removes something below `home`, over all processes, and fails the N-th.
//
// Threading: each field may be read and written by all at any time.
#ifndef STAGELOAD_TESTS_FAULTS_FAULT_CONTROL_H_
#define STAGELOAD_TESTS_FAULTS_FAULT_CONTROL_H_

#include <atomic>
#include <cstdint>

namespace stageload::faults {

inline constexpr char kControlVariable[] = "STAGELOAD_FAULTS";  // path of the file

struct FaultControl {
  std::atomic<std::int64_t> calls;    // so far
  std::atomic<std::int64_t> fail_at;  // this one, from 1; 0 fails none
  std::atomic<bool> for_ever;         // and all after it
  // The errno that they fail with. 0: the daemon is killed before that call instead; its shims
  // neither count nor die.
  std::atomic<int> error;
  std::atomic<std::int64_t> failed;  // how many did
  char home[256];                    // no slash at the end
  char first[256];                   // the first that failed: "fsync /tmp/..."
};

}  // namespace stageload::faults

#endif  // STAGELOAD_TESTS_FAULTS_FAULT_CONTROL_H_
