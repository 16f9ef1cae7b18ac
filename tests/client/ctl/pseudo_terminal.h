// A program at a terminal of ours: what it has written there, the terminal's modes, keys and sizes.
//
// Threading: one thread.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_PSEUDO_TERMINAL_H_
#define STAGELOAD_TESTS_CLIENT_CTL_PSEUDO_TERMINAL_H_

#include <sys/types.h>
#include <termios.h>

#include <functional>
#include <string>
#include <vector>

namespace stageload::ctl {

class PseudoTerminal {
 public:
  PseudoTerminal(unsigned short columns, unsigned short rows);
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;
  ~PseudoTerminal();  // kills what runs there

  // As the leader of a session of its own, whose terminal this is.
  void Run(std::vector<std::string> argv, std::vector<std::string> environment);
  void Type(const std::string& keys);
  void Resize(unsigned short columns, unsigned short rows);
  void Signal(int number) const;
  // As when its window is closed. Nothing else can be done with it then but Wait().
  void HangUp();
  pid_t pid() const { return pid_; }

  // Whether `text` is in what it has written since `from`; false after 20 s.
  bool Shows(const std::string& text, std::size_t from = 0);
  bool Await(const std::function<bool()>& condition);  // reads meanwhile
  const std::string& shown() const { return shown_; }
  // The exit code, or 128+n when signal n ended it; -1 when it did not end in 20 s.
  int Wait();
  // As they are now; the same for two that behave the same.
  std::string Modes() const;

 private:
  void Read();

  int terminal_ = -1;
  int side_ = -1;  // kept open, so that the modes outlive the program
  pid_t pid_ = -1;
  std::string shown_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_PSEUDO_TERMINAL_H_
