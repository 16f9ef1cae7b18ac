// A program that a benchmark starts, talks with over its stdin and stdout, and measures through
// /proc; and a daemon with a home of its own. Linux.
//
// Threading: each object belongs to one thread.
#ifndef STAGELOAD_TESTS_BENCH_MEASURED_PROCESS_H_
#define STAGELOAD_TESTS_BENCH_MEASURED_PROCESS_H_

#include <sys/types.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

namespace stageload::bench {

// Prints what went wrong and exits with 1.
[[noreturn]] void Die(const std::string& what);

// Of this process; -1 of one that has gone.
double CpuSeconds(pid_t pid);
double RssMiB(pid_t pid);
long Threads(pid_t pid);
long ContextSwitches(pid_t pid);  // of all its threads, wanted or not

// Raises the soft limit of open files as far as it goes; dies when that is under `wanted`.
void AllowFiles(unsigned long wanted);

class MeasuredProcess {
 public:
  // argv[0] is a path. With `talks`, Say() and Hear() are its stdin and stdout.
  explicit MeasuredProcess(std::vector<std::string> argv, bool talks = false);
  // Waits for its end, which the end of its stdin asks for where it talks, else SIGTERM.
  ~MeasuredProcess();
  MeasuredProcess(const MeasuredProcess&) = delete;
  MeasuredProcess& operator=(const MeasuredProcess&) = delete;

  pid_t pid() const { return pid_; }
  void Say(const std::string& line);
  std::string Hear();  // a line

 private:
  pid_t pid_ = -1;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
};

class MeasuredDaemon {
 public:
  explicit MeasuredDaemon(const std::string& program);
  ~MeasuredDaemon();

  pid_t pid() const { return process_->pid(); }
  std::string socket() const { return home_ + "/stageloadd.sock"; }

 private:
  std::string home_;
  std::optional<MeasuredProcess> process_;
};

}  // namespace stageload::bench

#endif  // STAGELOAD_TESTS_BENCH_MEASURED_PROCESS_H_
