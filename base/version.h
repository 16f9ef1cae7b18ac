// Which stageload this is.
#ifndef STAGELOAD_BASE_VERSION_H_
#define STAGELOAD_BASE_VERSION_H_

namespace stageload {

extern const char kVersion[];  // "0.2.0", from CMakeLists.txt

// Grows when a client must know about it. A client and a daemon of different levels say so.
inline constexpr int kApiLevel = 1;

}  // namespace stageload

#endif  // STAGELOAD_BASE_VERSION_H_
