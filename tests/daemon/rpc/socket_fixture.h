// What tests of sockets need: raw Unix sockets.
#ifndef STAGELOAD_TESTS_DAEMON_RPC_SOCKET_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_RPC_SOCKET_FIXTURE_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "tests/fixture.h"

namespace stageload::rpc {

// A Unix socket that is closed at the end; fd() is -1 if it could not be made.
class Socket {
 public:
  static Socket ConnectedTo(const std::string& path) { return Socket(path, ::connect); }
  static Socket BoundTo(const std::string& path) { return Socket(path, ::bind); }
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&&) = delete;
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  int fd() const { return fd_; }

  // Whether the other side closed it, within a time that only a hang exceeds.
  bool SeesTheEnd() const {
    pollfd polled{fd_, POLLIN, 0};
    char byte = 0;
    while (::poll(&polled, 1, 30'000) > 0) {
      if (::read(fd_, &byte, 1) <= 0) return true;
    }
    return false;
  }

 private:
  template <typename Call>
  Socket(const std::string& path, Call call) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof(address.sun_path) - 1);
    if (call(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      ::close(std::exchange(fd_, -1));
    }
  }

  int fd_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_TESTS_DAEMON_RPC_SOCKET_FIXTURE_H_
