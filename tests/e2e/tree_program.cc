// A job's command that makes a process tree of the kind that is hard to hold, and the processes in
// it. tree_program WHAT, in a folder of its own: each process writes its pid into a file there.
//
//   scatter   descendants that leave the group, the session, and lose their parents; all of them,
//             and the command, use a little CPU for ever
//   stubborn  the command ends on SIGTERM, and its child ignores it
//   hop       five processes that ignore SIGTERM; each lives for some milliseconds, and then
//             another goes on in its place
//   zombie    a child leaves the group and never waits for its own, which ended in it
//   litter    ends at once a hundred descendants that lost their parents, and waits for none
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

// Nothing here outlives a test that has failed.
constexpr int kAtMostSeconds = 120;

void Nap(int milliseconds) {
  const timespec time{0, long{milliseconds} * 1'000'000};
  nanosleep(&time, nullptr);
}

// Whole or not at all.
void WritePid(const std::string& name) {
  const std::string beside = name + ".new";
  FILE* const file = fopen(beside.c_str(), "w");
  if (file == nullptr) _exit(9);
  fprintf(file, "%d", getpid());
  fclose(file);
  if (rename(beside.c_str(), name.c_str()) != 0) _exit(9);
}

double Seconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

[[noreturn]] void UseCpu() {
  const double end = Seconds() + kAtMostSeconds;
  while (Seconds() < end) {
    for (const double until = Seconds() + 0.002; Seconds() < until;) {
    }
    Nap(18);
  }
  _exit(0);
}

template <typename Work>
void InChild(Work work) {
  const pid_t pid = fork();
  if (pid < 0) _exit(9);
  if (pid > 0) return;
  work();
  _exit(0);
}

[[noreturn]] void As(const std::string& name) {
  WritePid(name);
  UseCpu();
}

void Scatter() {
  // Twice forked, and the one between is gone and waited for.
  InChild([] { InChild([] { As("orphan"); }); });
  wait(nullptr);
  // Likewise, as daemons do it.
  InChild([] {
    setsid();
    InChild([] {
      InChild([] {
        setpgid(0, 0);
        As("child of daemon");
      });
      As("daemon");
    });
  });
  wait(nullptr);
  InChild([] { As("child"); });
  InChild([] {
    setpgid(0, 0);
    As("group");
  });
  InChild([] {
    setsid();
    InChild([] { As("child of session"); });
    As("session");
  });
  As("command");
}

void Stubborn() {
  InChild([] {
    signal(SIGTERM, SIG_IGN);
    WritePid("child");
    sleep(kAtMostSeconds);
  });
  WritePid("command");
  sleep(kAtMostSeconds);
}

void Hop(int milliseconds) {
  signal(SIGTERM, SIG_IGN);
  const double end = Seconds() + kAtMostSeconds;
  for (int i = 0; i < 5; ++i) {
    InChild([=] {
      while (Seconds() < end) {
        Nap(milliseconds);
        if (fork() > 0) _exit(0);  // a failed fork goes on as it is
      }
    });
  }
  WritePid("command");
  sleep(kAtMostSeconds);
}

void Zombie() {
  InChild([] {
    InChild([] {});
    siginfo_t ended{};
    waitid(P_ALL, 0, &ended, WEXITED | WNOWAIT);  // and it stays a zombie
    setsid();
    WritePid("keeper");
    sleep(kAtMostSeconds);
  });
  WritePid("command");
  sleep(kAtMostSeconds);
}

void Litter() {
  for (int i = 0; i < 100; ++i) {
    InChild([] { InChild([] {}); });
  }
  WritePid("command");
  sleep(kAtMostSeconds);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "scatter") Scatter();
  if (what == "stubborn") Stubborn();
  if (what == "hop") Hop(argc > 2 ? atoi(argv[2]) : 10);
  if (what == "zombie") Zombie();
  if (what == "litter") Litter();
  return 2;
}
