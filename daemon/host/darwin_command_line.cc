#include "daemon/host/darwin_command_line.h"

#include <algorithm>
#include <cstring>

namespace stageload::host {

std::string ArgumentsOf(std::string_view procargs2) {
  int argc = 0;
  if (procargs2.size() < sizeof argc) return "";
  std::memcpy(&argc, procargs2.data(), sizeof argc);
  procargs2.remove_prefix(sizeof argc);
  const std::size_t path = std::min(procargs2.find('\0'), procargs2.size());
  const std::size_t first = std::min(procargs2.find_first_not_of('\0', path), procargs2.size());
  std::string_view rest = procargs2.substr(first);
  std::string line;
  for (int i = 0; i < argc && !rest.empty(); ++i) {
    const std::size_t end = std::min(rest.find('\0'), rest.size());
    if (i > 0) line += ' ';
    line += rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return line;
}

}  // namespace stageload::host
