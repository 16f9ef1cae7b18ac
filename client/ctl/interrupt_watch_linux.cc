// SigIgn of /proc/<pid>/status (proc(5)): a mask in hex, bit n-1 for signal n.
#include <signal.h>

#include <cstdint>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/ctl/interrupt_watch.h"

namespace stageload::ctl {

bool IgnoresInterrupt(pid_t pid) {
  std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
  std::string word;
  while (status >> word) {
    if (word != "SigIgn:") continue;
    std::uint64_t ignored = 0;
    status >> std::hex >> ignored;
    return (ignored >> (SIGINT - 1) & 1) != 0;
  }
  return false;
}

}  // namespace stageload::ctl
