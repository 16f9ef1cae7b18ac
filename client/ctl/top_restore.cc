// Handlers, and what they need, kept in plain globals.
#include "client/ctl/top_restore.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

namespace stageload::ctl {
namespace {

// Whose default ends a process (signal(7), signal(3) on macOS), but for SIGKILL and for SIGINT,
// SIGTERM and SIGHUP, with which `top` ends by itself.
std::vector<int> FatalSignals() {
  std::vector<int> numbers = {SIGSEGV, SIGBUS,  SIGFPE,    SIGILL,  SIGABRT, SIGQUIT,
                              SIGTRAP, SIGSYS,  SIGUSR1,   SIGUSR2, SIGALRM, SIGPIPE,
                              SIGXCPU, SIGXFSZ, SIGVTALRM, SIGPROF};
#ifdef SIGEMT
  numbers.push_back(SIGEMT);
#endif
#ifdef __linux__  // elsewhere SIGIO is ignored unless it is asked for, and there are no others
  numbers.insert(numbers.end(), {SIGIO, SIGPWR, SIGSTKFLT});
  for (int number = SIGRTMIN; number <= SIGRTMAX; ++number) numbers.push_back(number);
#endif
  return numbers;
}

constexpr std::size_t kStackBytes = 64 * 1024;

// A handler can reach nothing else.
struct Prepared {
  int fd = -1;
  termios modes{};
  std::array<char, 512> leave{};
  std::size_t leave_bytes = 0;
};
Prepared g_prepared;
std::atomic<bool> g_active{false};
std::atomic<int> g_stderr{-1};  // the terminal
std::atomic<int> g_words{-1};   // what was written instead

void WriteWhole(int fd, const char* bytes, std::size_t count) {
  while (count > 0) {
    const ssize_t written = write(fd, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    bytes += written;
    count -= static_cast<std::size_t>(written);
  }
}

void CopyWords(int from, int to) {
  char bytes[1024];
  off_t at = 0;
  for (ssize_t got = 0; (got = pread(from, bytes, sizeof bytes, at)) > 0; at += got) {
    WriteWhole(to, bytes, static_cast<std::size_t>(got));
  }
}

void OnFatal(int number) {
  if (g_active.exchange(false)) {
    WriteWhole(g_prepared.fd, g_prepared.leave.data(), g_prepared.leave_bytes);
    tcsetattr(g_prepared.fd, TCSANOW, &g_prepared.modes);
    const int terminal = g_stderr.exchange(-1);
    if (terminal >= 0) {
      dup2(terminal, STDERR_FILENO);
      CopyWords(g_words, terminal);
    }
  }
  // The handler was taken away when it was called (SA_RESETHAND).
  raise(number);
}

}  // namespace

CrashRestore::CrashRestore(int fd, const termios& modes, const std::string& leave)
    : stack_(kStackBytes) {
  g_prepared.fd = fd;
  g_prepared.modes = modes;
  g_prepared.leave_bytes = std::min(leave.size(), g_prepared.leave.size());
  std::memcpy(g_prepared.leave.data(), leave.data(), g_prepared.leave_bytes);
  g_active = true;
  stack_t stack{};
  stack.ss_sp = stack_.data();
  stack.ss_size = stack_.size();
  (void)sigaltstack(&stack, nullptr);
  struct sigaction ours {};
  ours.sa_handler = OnFatal;
  ours.sa_flags = static_cast<int>(SA_RESETHAND | SA_ONSTACK);
  // A background process that sets the modes is stopped by SIGTTOU unless that is blocked.
  sigfillset(&ours.sa_mask);
  for (const int number : FatalSignals()) {
    struct sigaction present {};
    if (sigaction(number, nullptr, &present) != 0) continue;
    if (present.sa_handler == SIG_IGN) continue;  // it ends nobody
    if (sigaction(number, &ours, nullptr) == 0) before_.emplace_back(number, present);
  }
}

CrashRestore::~CrashRestore() {
  for (const auto& [number, action] : before_) sigaction(number, &action, nullptr);
  g_active = false;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  (void)sigaltstack(&none, nullptr);
}

HeldStderr::HeldStderr() {
  if (isatty(STDERR_FILENO) == 0) return;
  char name[] = "/tmp/stageload-top-XXXXXX";
  UniqueFd words(mkstemp(name));
  if (!words.valid()) return;
  (void)unlink(name);
  (void)fcntl(words.get(), F_SETFD, FD_CLOEXEC);
  (void)fcntl(words.get(), F_SETFL, O_APPEND);
  UniqueFd terminal(fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!terminal.valid() || dup2(words.get(), STDERR_FILENO) < 0) return;
  terminal_ = std::move(terminal);
  words_ = std::move(words);
  g_words = words_.get();
  g_stderr = terminal_.get();
}

HeldStderr::~HeldStderr() {
  if (g_stderr.exchange(-1) < 0) return;
  (void)dup2(terminal_.get(), STDERR_FILENO);
  CopyWords(words_.get(), terminal_.get());
}

}  // namespace stageload::ctl
