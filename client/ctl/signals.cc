// The self-pipe (D. J. Bernstein): a handler writes the number, a thread reads it.
#include "client/ctl/signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace stageload::ctl {
namespace {

// A handler can reach nothing else.
std::atomic<int> g_write_fd{-1};

void OnSignal(int number) {
  const int error = errno;
  const auto byte = static_cast<unsigned char>(number);
  [[maybe_unused]] const ssize_t written = write(g_write_fd.load(), &byte, 1);
  errno = error;
}

}  // namespace

SignalEvents::SignalEvents(const std::vector<int>& signals, std::function<void(int)> on_signal) {
  int ends[2];
  if (pipe(ends) != 0) return;  // out of descriptors: signals keep what they did before
  read_.Reset(ends[0]);
  write_.Reset(ends[1]);
  for (const int end : ends) (void)fcntl(end, F_SETFD, FD_CLOEXEC);
  (void)fcntl(ends[1], F_SETFL, O_NONBLOCK);
  g_write_fd = ends[1];
  thread_ = std::thread([fd = ends[0], handle = std::move(on_signal)] {
    unsigned char number = 0;
    while (true) {
      const ssize_t got = read(fd, &number, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got != 1) return;
      handle(number);
    }
  });
  for (const int number : signals) {
    struct sigaction present {};
    sigaction(number, nullptr, &present);
    if (present.sa_handler == SIG_IGN) continue;
    struct sigaction ours {};
    ours.sa_handler = OnSignal;
    ours.sa_flags = SA_RESTART;
    sigaction(number, &ours, nullptr);
    before_.emplace_back(number, present);
  }
}

SignalEvents::~SignalEvents() {
  for (const auto& [number, action] : before_) sigaction(number, &action, nullptr);
  g_write_fd = -1;
  write_.Reset();
  if (thread_.joinable()) thread_.join();
}

}  // namespace stageload::ctl
