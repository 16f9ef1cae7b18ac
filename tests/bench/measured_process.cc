#include "tests/bench/measured_process.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

extern char** environ;

namespace stageload::bench {
namespace {

// A number behind "FIELD:" in a status file of /proc; 0 when it is not there.
long StatusField(const std::string& path, const std::string& field) {
  std::ifstream status(path);
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(field + ":", 0) == 0) return std::atol(line.c_str() + field.size() + 1);
  }
  return 0;
}

std::string Proc(pid_t pid, const std::string& file) {
  return "/proc/" + std::to_string(pid) + "/" + file;
}

}  // namespace

void Die(const std::string& what) {
  std::fprintf(stderr, "bench: %s\n", what.c_str());
  std::exit(1);
}

double CpuSeconds(pid_t pid) {
  clockid_t clock{};
  timespec time{};
  if (::clock_getcpuclockid(pid, &clock) != 0 || ::clock_gettime(clock, &time) != 0) return -1;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

double RssMiB(pid_t pid) {
  return static_cast<double>(StatusField(Proc(pid, "status"), "VmRSS")) / 1024;
}

long Threads(pid_t pid) { return StatusField(Proc(pid, "status"), "Threads"); }

long ContextSwitches(pid_t pid) {
  long switches = 0;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(Proc(pid, "task"), gone)) {
    const std::string status = task.path().string() + "/status";
    switches += StatusField(status, "voluntary_ctxt_switches") +
                StatusField(status, "nonvoluntary_ctxt_switches");
  }
  return switches;
}

void AllowFiles(unsigned long wanted) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_max < wanted) {
    Die("needs " + std::to_string(wanted) + " open files, the limit is " +
        std::to_string(limit.rlim_max) + "; raise it with ulimit -n");
  }
}

MeasuredProcess::MeasuredProcess(std::vector<std::string> argv, bool talks) {
  int in[2] = {-1, -1};
  int out[2] = {-1, -1};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  if (talks) {
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) Die("make a pipe");
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  }
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  if (::posix_spawn(&pid_, words[0], &actions, nullptr, words.data(), environ) != 0) {
    Die("run " + argv[0]);
  }
  ::posix_spawn_file_actions_destroy(&actions);
  if (!talks) return;
  ::close(in[0]);
  ::close(out[1]);
  in_ = ::fdopen(in[1], "w");
  out_ = ::fdopen(out[0], "r");
}

MeasuredProcess::~MeasuredProcess() {
  if (in_ != nullptr) {
    std::fclose(in_);
  } else {
    ::kill(pid_, SIGTERM);
  }
  ::waitpid(pid_, nullptr, 0);
  if (out_ != nullptr) std::fclose(out_);
}

void MeasuredProcess::Say(const std::string& line) {
  if (std::fprintf(in_, "%s\n", line.c_str()) < 0 || std::fflush(in_) != 0) {
    Die("a child does not listen");
  }
}

std::string MeasuredProcess::Hear() {
  char line[4096];
  if (std::fgets(line, sizeof(line), out_) == nullptr) Die("a child ended");
  return std::string(line, std::find(line, line + sizeof(line), '\n'));
}

MeasuredDaemon::MeasuredDaemon(const std::string& program) {
  char folder[] = "/tmp/slb.XXXXXX";
  if (::mkdtemp(folder) == nullptr) Die("make a folder in /tmp");
  home_ = folder;
  ::setenv("STAGELOAD_HOME", folder, 1);
  // It leaves by itself when this benchmark is killed.
  process_.emplace(std::vector<std::string>{program, "--idle-exit", "10m"});
  const auto channel = grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials());
  if (!channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(60))) {
    Die("the daemon does not answer");
  }
}

MeasuredDaemon::~MeasuredDaemon() {
  process_.reset();
  std::error_code ignored;
  std::filesystem::remove_all(home_, ignored);
}

}  // namespace stageload::bench
