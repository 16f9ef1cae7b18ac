// Numbers in files, the same on every machine.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_JOBS_LITTLE_ENDIAN_H_
#define STAGELOAD_DAEMON_JOBS_LITTLE_ENDIAN_H_

#include <cstddef>
#include <string>

namespace stageload::jobs {

// T is an unsigned type of known width.
template <typename T>
void PutNumber(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 0xff));
  }
}

// Reads sizeof(T) bytes.
template <typename T>
T GetNumber(const char* bytes) {
  T value = 0;
  for (std::size_t i = sizeof(T); i > 0; --i) {
    value = static_cast<T>((value << 8) | static_cast<unsigned char>(bytes[i - 1]));
  }
  return value;
}

}  // namespace stageload::jobs

#endif  // STAGELOAD_DAEMON_JOBS_LITTLE_ENDIAN_H_
