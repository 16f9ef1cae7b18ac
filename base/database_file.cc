#include "base/database_file.h"

namespace stageload {
namespace {

constexpr std::string_view kMagic("SQLite format 3", 16);  // with the NUL

std::int64_t BigEndian(std::string_view bytes) {
  std::int64_t number = 0;
  for (const char byte : bytes) number = number * 256 + static_cast<unsigned char>(byte);
  return number;
}

}  // namespace

std::optional<std::int64_t> StatedLength(std::string_view header) {
  if (header.size() < kDatabaseHeaderBytes || header.substr(0, kMagic.size()) != kMagic) {
    return std::nullopt;
  }
  const std::int64_t stated = BigEndian(header.substr(16, 2));
  const std::int64_t page = stated == 1 ? 65536 : stated;
  return page * BigEndian(header.substr(28, 4));
}

}  // namespace stageload
