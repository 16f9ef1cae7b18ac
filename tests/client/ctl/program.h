// stageloadctl as a process of its own.
//
// Threading: one thread.
#ifndef STAGELOAD_TESTS_CLIENT_CTL_PROGRAM_H_
#define STAGELOAD_TESTS_CLIENT_CTL_PROGRAM_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace stageload::ctl {

class Program {
 public:
  // With STAGELOAD_HOME=home and no autostart.
  Program(const std::string& home, std::vector<std::string> arguments);
  // Another program, which finds the path of stageloadctl in $CTL.
  Program(const std::string& home, std::vector<std::string> arguments, const std::string& program);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();  // killed, if it still runs

  void Signal(int number) const;
  // Whether stdout or stderr hold `text`; false after 20 s.
  bool AwaitOut(const std::string& text) const { return Await(out_path_, text); }
  bool AwaitErr(const std::string& text) const { return Await(err_path_, text); }
  // The exit code, or -n when signal n ended it; waits 30 s, then kills it and returns -999.
  int Wait();

  std::string Out() const;
  std::string Err() const;

 private:
  static bool Await(const std::string& path, const std::string& text);

  std::string folder_;
  std::string out_path_;
  std::string err_path_;
  pid_t pid_ = -1;
};

// Runs it to its end.
struct Result {
  int code;
  std::string out;
  std::string err;
};
Result RunProgram(const std::string& home, std::vector<std::string> arguments);
// Runs a script of /bin/sh in which "$CTL" is it.
Result RunShell(const std::string& home, const std::string& script);

// Whether `condition` holds within 20 s.
template <typename Condition>
bool Eventually(Condition condition);

}  // namespace stageload::ctl

#include <chrono>
#include <thread>

namespace stageload::ctl {

template <typename Condition>
bool Eventually(Condition condition) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace stageload::ctl

#endif  // STAGELOAD_TESTS_CLIENT_CTL_PROGRAM_H_
