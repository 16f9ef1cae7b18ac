// A program in a tmux of its own: a whole terminal, whose screen can be read.
//
// Threading: one thread.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_TMUX_H_
#define STAGELOAD_TESTS_CLIENT_CTL_TMUX_H_

#include <string>
#include <vector>

namespace stageload::ctl {

class Tmux {
 public:
  static bool IsThere();

  // `environment` is "NAME=value" each; words are given to sh, quoted.
  Tmux(int columns, int rows, const std::vector<std::string>& environment,
       const std::vector<std::string>& argv);
  Tmux(const Tmux&) = delete;
  Tmux& operator=(const Tmux&) = delete;
  ~Tmux();  // ends it and what runs in it

  std::string Screen() const;  // its lines, without styles
  // Whether the screen has `text`; false after 20 s.
  bool Shows(const std::string& text) const;
  bool ShowsNot(const std::string& text) const;
  // As tmux names them: "j", "Enter", "Down".
  void Type(const std::string& key) const;
  void Resize(int columns, int rows) const;
  // Its exit code; empty when it has not ended after 20 s.
  std::string Code() const;

 private:
  std::string Ask(const std::string& command) const;

  std::string folder_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_TMUX_H_
