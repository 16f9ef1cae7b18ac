#include "daemon/host/small_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

namespace stageload::host {

FileText ReadSmallFile(int folder, const char* path, std::span<char> buffer) {
  // O_NONBLOCK: whatever a recorded tree holds under this name, opening it must not hang.
  const int file = openat(folder, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return {errno, {}};
  FileText result;
  std::size_t length = 0;
  while (length < buffer.size()) {
    const ssize_t got = read(file, buffer.data() + length, buffer.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) result.error = errno;
    if (got <= 0) break;
    length += static_cast<std::size_t>(got);
  }
  close(file);
  if (result.error == 0) result.text = std::string_view(buffer.data(), length);
  return result;
}

}  // namespace stageload::host
