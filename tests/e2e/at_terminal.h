// A program at a terminal of its own.
//
// Threading: one thread.
#ifndef STAGELOAD_TESTS_E2E_AT_TERMINAL_H_
#define STAGELOAD_TESTS_E2E_AT_TERMINAL_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "tests/e2e/child_process.h"

namespace stageload::e2e {

inline constexpr char kCtrlC = 3;
inline constexpr char kCtrlZ = 26;

// A program whose controlling terminal is a pseudo terminal of ours.
class AtTerminal {
 public:
  AtTerminal(std::vector<std::string> argv, std::vector<std::string> environment) {
    terminal_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
      ADD_FAILURE() << "no pseudo terminal";
      return;
    }
    const std::string side = ptsname(terminal_);
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> out;
      for (std::string& text : texts) out.push_back(text.data());
      out.push_back(nullptr);
      return out;
    };
    const std::vector<char*> words = pointers(argv);
    const std::vector<char*> variables = pointers(environment);
    pid_ = fork();
    if (pid_ != 0) return;
    setsid();
    const int fd =
        open(side.c_str(), O_RDWR);  // the first that a session's leader opens is its own
    ioctl(fd, TIOCSCTTY, 0);
    for (int i = 0; i < 3; ++i) dup2(fd, i);
    if (fd > 2) close(fd);
    execve(words[0], words.data(), variables.data());
    _exit(126);
  }
  AtTerminal(const AtTerminal&) = delete;
  AtTerminal& operator=(const AtTerminal&) = delete;
  ~AtTerminal() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (terminal_ >= 0) close(terminal_);
  }

  void Type(const std::string& keys) {
    EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  // As a window that changes its size.
  void Resize(unsigned short rows, unsigned short columns) {
    const winsize size{rows, columns, 0, 0};
    EXPECT_EQ(ioctl(terminal_, TIOCSWINSZ, &size), 0);
  }
  // Whether it shows what is typed, line by line, as a terminal at rest does.
  bool AtRest() const {
    termios modes{};
    return tcgetattr(terminal_, &modes) == 0 && (modes.c_lflag & ECHO) != 0 &&
           (modes.c_lflag & ICANON) != 0;
  }
  // As a window that is closed.
  void HangUp() { close(std::exchange(terminal_, -1)); }

  void Type(char key) { EXPECT_EQ(write(terminal_, &key, 1), 1); }
  // True once it has shown `text`, of which nothing is shown twice.
  bool Shows(const std::string& text) {
    return Eventually([&] {
      Read();
      return absl::StrContains(shown_, text);
    });
  }
  // The exit code, or 128+n.
  int Wait() {
    int status = 0;
    const bool ended = Eventually([&] {
      Read();
      return waitpid(pid_, &status, WNOHANG) == pid_;
    });
    if (!ended) {
      ADD_FAILURE() << "it does not end: " << shown_;
      return -1;
    }
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  // What comes next is looked at alone.
  void Forget() {
    Read();
    shown_.clear();
  }
  const std::string& shown() const { return shown_; }

 private:
  void Read() {
    pollfd ready{terminal_, POLLIN, 0};
    char bytes[4096];
    while (terminal_ >= 0 && poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0) {
      const ssize_t got = read(terminal_, bytes, sizeof bytes);
      if (got <= 0) return;
      shown_.append(bytes, static_cast<std::size_t>(got));
    }
  }

  int terminal_ = -1;
  pid_t pid_ = -1;
  std::string shown_;
};

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_AT_TERMINAL_H_
