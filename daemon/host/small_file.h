// Reading the kernel's small text files without allocating: two thousand of them may be read for
// one sample.
//
// Threading: pure functions. Errors are errno values, since most of them (a process that has just
// ended) are expected and never shown.
#ifndef STAGELOAD_DAEMON_HOST_SMALL_FILE_H_
#define STAGELOAD_DAEMON_HOST_SMALL_FILE_H_

#include <array>
#include <span>
#include <string_view>

namespace stageload::host {

// Holds /proc/vmstat and a memory.stat, the longest of them (6 KiB on Linux 6.18), with room.
using SmallFileBuffer = std::array<char, 16 * 1024>;

struct FileText {
  int error = 0;          // errno; 0 is success
  std::string_view text;  // lies in the caller's buffer
};

// `path` is relative to the folder `folder` (an open descriptor or AT_FDCWD). What does not fit
// into the buffer is cut off.
FileText ReadSmallFile(int folder, const char* path, std::span<char> buffer);

}  // namespace stageload::host

#endif  // STAGELOAD_DAEMON_HOST_SMALL_FILE_H_
