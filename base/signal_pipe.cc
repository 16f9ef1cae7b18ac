// The self-pipe (D. J. Bernstein): a handler writes the number, somebody reads it.
#include "base/signal_pipe.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace stageload {
namespace {

// A handler can reach nothing else.
std::atomic<int> g_write_fd{-1};

void OnSignal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = ::write(g_write_fd.load(), &byte, 1);
  errno = error;
}

}  // namespace

SignalPipe::SignalPipe(const std::vector<int>& signals) {
  int ends[2];
  if (::pipe(ends) != 0) return;
  read_ = ends[0];
  write_ = ends[1];
  for (const int end : ends) static_cast<void>(::fcntl(end, F_SETFD, FD_CLOEXEC));
  static_cast<void>(::fcntl(write_, F_SETFL, O_NONBLOCK));
  g_write_fd = write_;
  for (const int number : signals) {
    struct sigaction present {};
    ::sigaction(number, nullptr, &present);
    if (present.sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_handler = OnSignal;
    ours.sa_flags = SA_RESTART;
    ::sigaction(number, &ours, nullptr);
    before_.emplace_back(number, present);
  }
}

SignalPipe::~SignalPipe() {
  End();
  if (read_ >= 0) ::close(read_);
}

std::optional<int> SignalPipe::Take() {
  unsigned char number = 0;
  while (true) {
    const ssize_t got = ::read(read_, &number, 1);
    if (got == 1) return number;
    if (got == 0 || errno != EINTR) return std::nullopt;
  }
}

void SignalPipe::End() {
  for (const auto& [number, action] : before_) ::sigaction(number, &action, nullptr);
  before_.clear();
  g_write_fd = -1;
  if (write_ >= 0) ::close(std::exchange(write_, -1));
}

}  // namespace stageload
