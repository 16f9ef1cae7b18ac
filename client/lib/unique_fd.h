// A file descriptor with one owner.
//
// Threading: as an int.
#ifndef STAGELOAD_CLIENT_LIB_UNIQUE_FD_H_
#define STAGELOAD_CLIENT_LIB_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace stageload::client {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    Reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { Reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release() { return std::exchange(fd_, -1); }
  void Reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_UNIQUE_FD_H_
