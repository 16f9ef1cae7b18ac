#include "tests/sim/driver.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/agenda.h"
#include "tests/sim/crowd.h"
#include "tests/sim/daemon.h"
#include "tests/sim/plan.h"
#include "tests/sim/random.h"
#include "tests/sim/record.h"
#include "tests/sim/world.h"

namespace stageload::sim {
namespace {

class Driver {
 public:
  explicit Driver(const RunOptions& options)
      : options_(options),
        random_(options.seed),
        plan_(DrawPlan(random_, options.length)),
        world_(plan_.machine, random_.Fork()),
        record_(options.record, options.each_line),
        invariants_(plan_.config, counters_),
        crowd_(plan_, world_, agenda_, random_.Fork()),
        daemon_(
            plan_,
            {&world_, &disk_, &crowd_, &invariants_, &counters_, &digest_, &record_, options.trip},
            random_.Fork()) {
    crowd_.Meet(daemon_);
  }

  RunResult Run();

 private:
  void PlanFaults();
  void PlanConfigs();
  void PlanStopsOverRestarts();
  // Does `what` about so many times a minute while there are faults.
  void NowAndThen(double per_minute, std::function<void()> what);
  void Loop(absl::Duration until, bool (Driver::*done)() const);
  bool Never() const { return false; }
  bool IsQuiet() const;
  void Hear();
  void CheckUp();
  void Restart();
  void CheckProgress();

  void CrashDaemon();
  void Reboot();
  void Sleep();
  void Stall();

  const RunOptions options_;
  Random random_;
  const Plan plan_;
  Counters counters_;
  Digest digest_;
  World world_;
  Disk disk_;
  Agenda agenda_;
  Record record_;
  Invariants invariants_;
  Crowd crowd_;
  Daemon daemon_;
  bool restart_planned_ = false;
  bool faulty_ = true;
  int boot_ = 1;
};

void Driver::NowAndThen(double per_minute, std::function<void()> what) {
  if (per_minute <= 0) return;
  const absl::Duration mean = absl::Minutes(1) / per_minute;
  agenda_.At(world_.time() + random_.Between(mean * 0.1, mean * 1.9), [this, per_minute, what] {
    if (!faulty_) return;
    what();
    NowAndThen(per_minute, what);
  });
}

void Driver::PlanFaults() {
  const Faults& faults = plan_.faults;
  daemon_.faults = faults;
  world_.reuse_pids_at_once = faults.pids_reused_at_once;
  world_.slow_release = faults.slow_release;
  NowAndThen(faults.crashes, [this] { CrashDaemon(); });
  NowAndThen(faults.reboots, [this] { Reboot(); });
  NowAndThen(faults.sleeps, [this] { Sleep(); });
  NowAndThen(faults.stalls, [this] { Stall(); });
  NowAndThen(faults.wall_steps, [this] {
    ++counters_[Count::kWallSteps];
    world_.StepWall(random_.Between(absl::Seconds(-100), absl::Seconds(100)));
  });
  NowAndThen(faults.disk_full, [this] {
    disk_.full = true;
    agenda_.At(world_.time() + random_.Between(absl::Seconds(0.1), absl::Seconds(6)),
               [this] { disk_.full = false; });
  });
  NowAndThen(faults.external_kills, [this] {
    std::vector<core::ProcessIdentity> all;
    for (const Process& process : world_.processes()) {
      if (process.owner != kUnmanaged) all.push_back(process.identity);
    }
    if (all.empty()) return;
    world_.End(random_.Pick(all), core::Outcome{.exit_code = {}, .signal = 9, .start_errno = {}});
  });
  NowAndThen(faults.hogs, [this] { world_.SpawnUnmanaged(DrawHog(random_, plan_), "browser"); });
  NowAndThen(faults.busy_programs, [this] {
    Program busy;
    busy.lifetime = random_.Between(absl::Seconds(0.2), absl::Seconds(12));
    world_.SpawnUnmanaged(std::make_shared<const Program>(std::move(busy)),
                          absl::StrCat(random_.Pick(plan_.patterns), " serve"));
  });
}

void Driver::CrashDaemon() {
  if (daemon_.up()) daemon_.CrashIn(random_.Between(0, 12));
}

void Driver::Reboot() {
  ++counters_[Count::kReboots];
  record_.Add("-- the machine reboots");
  if (daemon_.up()) daemon_.CrashNow();
  crowd_.DaemonGone();
  world_.Reboot();
  world_.TakeExits();
  crowd_.Rebooted();
  ++boot_;
}

void Driver::Sleep() {
  ++counters_[Count::kSleeps];
  const absl::Duration length = random_.Between(absl::Seconds(3), absl::Minutes(40));
  record_.Add("-- the machine sleeps");
  world_.Sleep(length);
  // Hibernation itself writes to swap, and what ran meanwhile has moved memory.
  if (random_.Chance(0.5)) {
    Program program;
    program.steps = {{absl::ZeroDuration(), absl::ZeroDuration(),
                      world_.total() * random_.Between(0.1, 0.8), Bytes(0)}};
    program.lifetime = random_.Between(absl::Seconds(0.5), absl::Seconds(5));
    world_.SpawnUnmanaged(std::make_shared<const Program>(std::move(program)), "updates");
  }
  invariants_.MachineSlept(world_.Now().awake);
}

void Driver::Stall() {
  if (!daemon_.up()) return;
  ++counters_[Count::kStalls];
  const absl::Duration length = random_.Chance(plan_.faults.long_stalls)
                                    ? random_.Between(absl::Seconds(30), absl::Seconds(200))
                                    : random_.Between(absl::Milliseconds(50), absl::Seconds(8));
  daemon_.StallUntil(world_.time() + length);
}

void Driver::Hear() {
  for (const Exit& exit : world_.TakeExits()) crowd_.Ended(exit);
}

// Brings a daemon back some time after it has gone.
void Driver::CheckUp() {
  if (daemon_.up() || restart_planned_) return;
  restart_planned_ = true;
  crowd_.DaemonGone();
  const absl::Duration down =
      faulty_ ? random_.Between(absl::Seconds(0.05), absl::Seconds(10)) : absl::Seconds(0.1);
  agenda_.At(world_.time() + down, [this] { Restart(); });
}

void Driver::Restart() {
  restart_planned_ = false;
  record_.Add("-- a daemon starts");
  invariants_.Restarted(boot_);
  // Now and then it dies again while it restores.
  if (faulty_ && random_.Chance(0.2)) daemon_.CrashIn(random_.Between(0, 20));
  daemon_.Start();
}

void Driver::Loop(absl::Duration until, bool (Driver::*done)() const) {
  while (world_.time() < until && !invariants_.violation() && !(this->*done)()) {
    CheckUp();
    absl::Duration next = std::min(until, agenda_.Next());
    // Who ends is heard of at once, so the world may not run past an end unseen.
    if (daemon_.up()) next = std::min(next, daemon_.WakeAt());
    next = std::min(next, world_.time() + World::kStep);
    world_.AdvanceTo(next);
    Hear();
    agenda_.Run(world_.time());
    Hear();
    if (daemon_.up() && world_.time() >= daemon_.WakeAt()) daemon_.Round();
    Hear();
  }
}

bool Driver::IsQuiet() const {
  return daemon_.up() && daemon_.core().pending() == 0 && daemon_.core().active() == 0;
}

// All that was accepted has come to its one end.
void Driver::CheckProgress() {
  if (invariants_.violation() || IsQuiet()) return;
  std::string left;
  if (daemon_.up()) {
    for (const auto& [id, request] : daemon_.requests()) {
      const core::JobRecord* record = daemon_.core().Find(id);
      if (record == nullptr) continue;
      absl::StrAppend(&left, "; job ", core::Value(id), " ", core::Name(record->state));
      for (const core::Blocker& blocker : daemon_.core().BlockersOf(world_.Now(), id)) {
        absl::StrAppend(&left, ", ", core::Name(blocker.kind), ": ", blocker.text);
      }
    }
  }
  invariants_.Break(Rule::kProgress, absl::StrCat("not everything has come to an end", left));
}

// In every ninth seed, which leaves those that once failed as they were.
void Driver::PlanConfigs() {
  if (options_.seed % 9 != 0) return;
  Random random(options_.seed ^ 0x3c6ef372fe94f82bULL);
  for (int changes = random.Between(1, 5); changes > 0; --changes) {
    const core::Config config = DrawOtherConfig(random, plan_);
    agenda_.At(random.Between(absl::ZeroDuration(), plan_.length),
               [this, config] { daemon_.Reconfigure(config); });
  }
}

// In every seventh seed: the daemon dies while it stops a session that holds a lease.
void Driver::PlanStopsOverRestarts() {
  if (options_.seed % 7 != 0) return;
  Random random(options_.seed ^ 0x9b05688c2b3e6c1fULL);
  for (int stops = random.Between(2, 6); stops > 0; --stops) {
    const absl::Duration wait = random.Between(absl::ZeroDuration(), absl::Milliseconds(300));
    agenda_.At(random.Between(absl::ZeroDuration(), plan_.length), [this, wait] {
      if (!daemon_.up() || !crowd_.CancelAHolder()) return;
      agenda_.At(world_.time() + wait, [this] {
        if (faulty_ && daemon_.up()) daemon_.CrashIn(0);
      });
    });
  }
}

RunResult Driver::Run() {
  PlanFaults();
  PlanConfigs();
  PlanStopsOverRestarts();
  crowd_.Arrive();
  daemon_.Start();
  Loop(options_.length, &Driver::Never);

  record_.Add("-- no more faults");
  faulty_ = false;
  daemon_.faults = {};
  daemon_.CrashIn(-1);
  disk_.full = false;
  world_.reuse_pids_at_once = false;
  world_.slow_release = 0;
  if (options_.seed % 9 == 0) daemon_.Reconfigure(plan_.config);
  crowd_.Settle();
  const absl::Duration begun = world_.time();
  const auto most =
      absl::Seconds(300) + absl::Seconds(90) * static_cast<double>(invariants_.live());
  Loop(begun + most, &Driver::IsQuiet);
  CheckProgress();

  RunResult result;
  counters_[Count::kPidsReused] = world_.pids_reused();
  result.hash = digest_.value();
  result.violation = invariants_.violation();
  result.at = world_.time();
  result.counters = counters_;
  result.lines.assign(record_.lines().begin(), record_.lines().end());
  return result;
}

}  // namespace

RunResult Simulate(const RunOptions& options) { return Driver(options).Run(); }

}  // namespace stageload::sim
