// A machine that exists only in the simulator: its clocks, its memory (wired, anonymous,
// compressed, swapped) and its processes, which take and give back memory as their programs say. It
// behaves as the recordings of a real Mac do (docs/simulator.md has the numbers).
//
// Threading: one owner. Nothing here reads a real clock or a real machine.
#ifndef STAGELOAD_TESTS_SIM_WORLD_H_
#define STAGELOAD_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/instant.h"
#include "base/units.h"
#include "daemon/core/job.h"
#include "daemon/core/process.h"
#include "daemon/core/sample.h"
#include "tests/sim/random.h"

namespace stageload::sim {

// What a process does with its life. Ages count while it runs: not stopped, not asleep.
struct Program {
  // From age `at` on, what it holds goes to `held` within `over`. `parked` of it lies where no
  // footprint shows it, such as weights that were moved to the CPU and not touched since.
  struct Step {
    absl::Duration at;
    absl::Duration over;
    Bytes held;
    Bytes parked;
  };
  struct Child {
    absl::Duration at;
    std::shared_ptr<const Program> program;
    bool leaves_session = false;  // seen as ours only by who saw its parent alive
  };
  std::vector<Step> steps;  // ascending by `at`
  absl::Duration lifetime = absl::InfiniteDuration();
  core::Outcome outcome{.exit_code = 0, .signal = {}, .start_errno = {}};
  double wired_share = 0.6;  // of what its footprint shows, by the GPU
  bool waves = false;        // GPU work: what is wired swings at constant footprint
  std::optional<absl::Duration> on_term = absl::ZeroDuration();  // until it ends; absent: ignores
  bool term_exits_well = false;                                  // handles SIGTERM and exits with 0
  bool refuses_signals = false;                                  // another user's: EPERM
  absl::Duration dying;                                          // from SIGKILL to its end
  absl::Duration release_after;  // from its end until its memory starts to come back
  absl::Duration release_over = absl::Milliseconds(100);
  std::vector<Child> children;
  std::shared_ptr<const Program> successor;  // started in its place when it ends
};

enum class Role {
  kShim,   // looks after a command and ends with it
  kMain,   // the command itself
  kChild,  // anything that the command started
};

inline constexpr int kUnmanaged = -1;

struct Process {
  core::ProcessIdentity identity;
  int owner = kUnmanaged;  // which request it belongs to
  Role role = Role::kMain;
  std::shared_ptr<const Program> program;
  std::string command;     // what `busy` patterns see, of unmanaged ones
  bool held_back = false;  // a guard's, before its admission
  bool stopped = false;
  bool term_waits = false;  // SIGTERM came while it was stopped
  bool left_session = false;
  bool parent_alive = true;
  absl::Duration age;
  std::size_t next_child = 0;
  std::optional<absl::Duration> dies_at;  // World::time()
  core::Outcome dies_with;
  // Of sessions, which load and free as they are told: overrides the program's steps.
  std::optional<double> told;
  double told_rate = 0;  // bytes a second

  // Bytes. held = resident + compressed + swapped.
  double resident = 0;
  double compressed = 0;
  double swapped = 0;
  double parked = 0;  // of what is held
  double held() const { return resident + compressed + swapped; }
  double visible() const { return held() > parked ? held() - parked : 0; }
  double wired = 0;  // of what is resident
};

struct Exit {
  core::ProcessIdentity identity;
  int owner = kUnmanaged;
  Role role = Role::kMain;
  core::Outcome outcome;
};

enum class Sent { kYes, kNotPermitted, kNoSuchProcess };
enum class Signal { kTerm, kKill, kStop, kContinue };

class World {
 public:
  struct Machine {
    Bytes total = GiB(48);
    Bytes swap_total = GiB(64);
    double wired_share = 0.08;   // by the kernel
    double others_share = 0.15;  // held by programs that nobody manages
    Bytes swap_at_start = GiB(1);
    Bytes compressed_at_start;   // in the compressor
    int pids = 200;              // how many there are before the first is used again
    bool tells_own_swap = true;  // whether the platform tells a process's swapped bytes
    absl::Duration uptime = absl::Hours(20);
  };
  // Set by the driver as faults come and go.
  bool reuse_pids_at_once = false;  // the pid of who ends is taken by an unmanaged program
  double slow_release = 0;          // share of ends after which memory comes back seconds late

  World(Machine machine, Random random);

  // Clocks. time() is the simulator's own: awake time since the beginning, over all reboots.
  absl::Duration time() const { return time_; }
  Instant Now() const;
  void AdvanceTo(absl::Duration time);  // in steps of at most kStep
  void Sleep(absl::Duration length);
  void StepWall(absl::Duration by) { wall_error_ += by; }
  void CorrectWall() { wall_error_ = absl::ZeroDuration(); }
  // All processes are gone, all memory is free.
  void Reboot();
  const std::string& boot_id() const { return boot_id_; }

  // Processes.
  core::ProcessIdentity Spawn(std::shared_ptr<const Program> program, int owner, Role role);
  core::ProcessIdentity SpawnUnmanaged(std::shared_ptr<const Program> program, std::string command);
  Process* Find(std::int32_t pid);
  const Process* Find(std::int32_t pid) const;
  // The same process, and not another one with its pid.
  Process* Find(const core::ProcessIdentity& identity);
  const std::vector<Process>& processes() const { return processes_; }
  Sent Send(std::int32_t pid, Signal signal);
  // Ends at once, with `outcome`.
  void End(const core::ProcessIdentity& identity, const core::Outcome& outcome);
  // What a session holds goes to `held` at `bytes_per_second`.
  void Tell(const core::ProcessIdentity& identity, Bytes held, Bytes bytes_per_second);
  void EndUnmanaged();
  // All that ended since the last call.
  std::vector<Exit> TakeExits();
  std::int64_t pids_reused() const { return pids_reused_; }

  // Readings.
  core::HostSample Sample() const;
  core::Usage UsageOf(const Process& process) const;
  Bytes total() const { return machine_.total; }
  Bytes available() const;
  // Swap that belongs to nobody who can still give it back goes away; the end of a run uses it.
  void DrainSwap(Bytes by);

  static constexpr absl::Duration kStep = absl::Milliseconds(250);

 private:
  struct Returning {  // memory of who has ended
    double resident = 0;
    double swapped = 0;
    absl::Duration at;
    absl::Duration over;
  };

  void Step(absl::Duration by);
  void Live(Process& process, absl::Duration by);
  void Hold(Process& process, double seconds);
  void Wire(Process& process);
  void Compress(double seconds);
  void SwapOut(double seconds);
  void GiveBack(absl::Duration by);
  void Bury();
  void AddUp();
  double Free() const;
  std::int32_t NewPid();
  Process& Add(Process process);

  Machine machine_;
  Random random_;
  absl::Duration time_;
  absl::Duration boot_time_;  // time() of the boot
  absl::Duration uptime_;     // that the boot began with
  absl::Duration slept_;      // since the boot
  absl::Duration slept_ever_;
  absl::Duration wall_error_;
  int boots_ = 1;
  std::string boot_id_ = "boot-1";

  std::vector<Process> processes_;
  std::vector<Process> born_;  // during a step
  std::vector<Returning> returning_;
  std::vector<Exit> exits_;
  std::int32_t last_pid_ = 0;
  std::uint64_t last_start_ = 0;
  std::int64_t pids_reused_ = 0;
  std::vector<bool> pid_used_;  // ever, in this boot

  Process others_;  // the many small programs of a desktop, as one
  // Sums over all, of bytes.
  double wired_ = 0;
  double resident_ = 0;
  double compressed_ = 0;
  double swapped_ = 0;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_WORLD_H_
