#include "tests/client/ctl/pseudo_terminal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace stageload::ctl {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

PseudoTerminal::PseudoTerminal(unsigned short columns, unsigned short rows)
    : terminal_(posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
  if (terminal_ < 0 || grantpt(terminal_) != 0 || unlockpt(terminal_) != 0) {
    ADD_FAILURE() << "no pseudo terminal";
    return;
  }
  side_ = open(ptsname(terminal_), O_RDWR | O_NOCTTY | O_CLOEXEC);
  Resize(columns, rows);
}

PseudoTerminal::~PseudoTerminal() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (side_ >= 0) HangUp();
}

void PseudoTerminal::Run(std::vector<std::string> argv, std::vector<std::string> environment) {
  const std::vector<char*> words = Pointers(argv);
  const std::vector<char*> variables = Pointers(environment);
  const std::string name = ptsname(terminal_);
  pid_ = fork();
  if (pid_ != 0) return;
  setsid();
  const int fd = open(name.c_str(), O_RDWR);
  ioctl(fd, TIOCSCTTY, 0);
  for (int i = 0; i < 3; ++i) dup2(fd, i);
  if (fd > 2) close(fd);
  execve(words[0], words.data(), variables.data());
  _exit(126);
}

void PseudoTerminal::Type(const std::string& keys) {
  EXPECT_EQ(write(terminal_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
}

void PseudoTerminal::Resize(unsigned short columns, unsigned short rows) {
  winsize size{};
  size.ws_col = columns;
  size.ws_row = rows;
  EXPECT_EQ(ioctl(side_, TIOCSWINSZ, &size), 0);
}

void PseudoTerminal::Signal(int number) const { kill(pid_, number); }

void PseudoTerminal::HangUp() {
  close(std::exchange(side_, -1));
  close(std::exchange(terminal_, -1));
}

bool PseudoTerminal::Await(const std::function<bool()>& condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (true) {
    Read();
    if (condition()) return true;
    if (std::chrono::steady_clock::now() > until) return false;
    pollfd ready{terminal_, POLLIN, 0};
    poll(&ready, 1, 10);
  }
}

bool PseudoTerminal::Shows(const std::string& text, std::size_t from) {
  return Await([&] { return shown_.find(text, from) != std::string::npos; });
}

int PseudoTerminal::Wait() {
  int status = 0;
  if (!Await([&] { return waitpid(pid_, &status, WNOHANG) == pid_; })) return -1;
  pid_ = -1;
  Read();
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string PseudoTerminal::Modes() const {
  termios modes{};
  EXPECT_EQ(tcgetattr(side_, &modes), 0);
  std::string text = std::to_string(modes.c_iflag) + " " + std::to_string(modes.c_oflag) + " " +
                     std::to_string(modes.c_cflag) + " " + std::to_string(modes.c_lflag);
  for (const cc_t c : modes.c_cc) text += " " + std::to_string(c);
  return text;
}

void PseudoTerminal::Read() {
  if (terminal_ < 0) return;
  pollfd ready{terminal_, POLLIN, 0};
  char bytes[4096];
  while (poll(&ready, 1, 0) > 0 && (ready.revents & POLLIN) != 0) {
    const ssize_t got = read(terminal_, bytes, sizeof bytes);
    if (got <= 0) return;
    shown_.append(bytes, static_cast<std::size_t>(got));
  }
}

}  // namespace stageload::ctl
