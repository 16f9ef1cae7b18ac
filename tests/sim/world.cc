#include "tests/sim/world.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stageload::sim {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;
// How fast a process can touch memory: the recordings load at up to 4 GiB/s.
constexpr double kFastestGrowth = 4 * kGiB;
// The fastest growth of swap in the recordings is 2.5 GiB/s.
constexpr double kFastestSwapOut = 2.5 * kGiB;
constexpr double kFastestCompression = 6 * kGiB;
// Weights hardly compress.
constexpr double kCompressed = 0.9;
// Pages are written to swap when less than this share of memory is free or can be dropped.
constexpr double kLowWater = 0.22;
// What the compressor holds at least while it feeds the swap, as a share of memory.
constexpr double kPool = 0.1;
// What is never given to anybody.
constexpr double kLast = 0.015;
// The period and depth of the swing of what a GPU at work has wired.
constexpr absl::Duration kWave = absl::Milliseconds(4800);
constexpr double kWaveDepth = 0.4;
constexpr absl::Duration kEpoch = absl::Hours(24 * 365 * 56);  // of the wall clock, at time() 0

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

Bytes Whole(double bytes) { return Bytes(static_cast<std::int64_t>(std::max(0.0, bytes))); }

// What the program wants to hold at this age, and how much of it is parked.
std::pair<double, double> Wanted(const Program& program, absl::Duration age) {
  double held = 0;
  double parked = 0;
  for (const Program::Step& step : program.steps) {
    if (age < step.at) break;
    const absl::Duration since = age - step.at;
    const double share = since >= step.over ? 1.0 : Seconds(since) / Seconds(step.over);
    held += (step.held.AsDouble() - held) * share;
    parked += (step.parked.AsDouble() - parked) * share;
  }
  return {held, std::min(parked, held)};
}

}  // namespace

World::World(Machine machine, Random random)
    : machine_(machine), random_(random), uptime_(machine.uptime) {
  pid_used_.resize(static_cast<std::size_t>(machine.pids) + 1);
  others_.resident = machine.total.AsDouble() * machine.others_share;
  others_.swapped = machine.swap_at_start.AsDouble() / kCompressed;
  others_.compressed = machine.compressed_at_start.AsDouble() / kCompressed;
  AddUp();
}

// ---- Clocks ----

Instant World::Now() const {
  Instant now;
  now.awake = uptime_ + (time_ - boot_time_);
  now.continuous = now.awake + slept_;
  now.wall = absl::UnixEpoch() + kEpoch + time_ + slept_ever_ + wall_error_;
  return now;
}

void World::AdvanceTo(absl::Duration time) {
  while (time_ < time) Step(std::min(kStep, time - time_));
}

void World::Sleep(absl::Duration length) {
  slept_ += length;
  slept_ever_ += length;
}

void World::Reboot() {
  const absl::Duration off = absl::Seconds(30);
  slept_ever_ += off;  // only the wall clock goes on
  boot_time_ = time_;
  uptime_ = absl::Seconds(20);
  slept_ = absl::ZeroDuration();
  boot_id_ = absl::StrCat("boot-", ++boots_);
  for (const Process& process : processes_) {
    exits_.push_back({process.identity, process.owner, process.role, {}});
  }
  processes_.clear();
  returning_.clear();
  last_pid_ = 0;
  last_start_ = 0;
  std::fill(pid_used_.begin(), pid_used_.end(), false);
  others_ = Process{};
  others_.resident = machine_.total.AsDouble() * machine_.others_share;
  AddUp();
}

// ---- Processes ----

std::int32_t World::NewPid() {
  const auto taken = [this](std::int32_t pid) {
    return Find(pid) != nullptr || std::any_of(born_.begin(), born_.end(), [pid](const Process& p) {
             return p.identity.pid == pid;
           });
  };
  int tries = 0;
  do {
    if (++tries > machine_.pids) {  // all are in use: a machine has one more
      pid_used_.resize(static_cast<std::size_t>(++machine_.pids) + 1);
      last_pid_ = machine_.pids - 1;
    }
    last_pid_ = last_pid_ % machine_.pids + 1;
  } while (taken(last_pid_));
  if (pid_used_[static_cast<std::size_t>(last_pid_)]) ++pids_reused_;
  pid_used_[static_cast<std::size_t>(last_pid_)] = true;
  return last_pid_;
}

Process& World::Add(Process process) {
  process.identity = {NewPid(), ++last_start_};
  return processes_.emplace_back(std::move(process));
}

core::ProcessIdentity World::Spawn(std::shared_ptr<const Program> program, int owner, Role role) {
  Process process;
  process.program = std::move(program);
  process.owner = owner;
  process.role = role;
  return Add(std::move(process)).identity;
}

core::ProcessIdentity World::SpawnUnmanaged(std::shared_ptr<const Program> program,
                                            std::string command) {
  Process process;
  process.program = std::move(program);
  process.command = std::move(command);
  return Add(std::move(process)).identity;
}

const Process* World::Find(std::int32_t pid) const {
  const auto found = std::find_if(processes_.begin(), processes_.end(),
                                  [pid](const Process& p) { return p.identity.pid == pid; });
  return found == processes_.end() ? nullptr : &*found;
}

Process* World::Find(std::int32_t pid) {
  return const_cast<Process*>(static_cast<const World*>(this)->Find(pid));
}

Process* World::Find(const core::ProcessIdentity& identity) {
  Process* process = Find(identity.pid);
  return process != nullptr && process->identity == identity ? process : nullptr;
}

Sent World::Send(std::int32_t pid, Signal signal) {
  Process* process = Find(pid);
  if (process == nullptr) return Sent::kNoSuchProcess;
  const Program& program = *process->program;
  if (program.refuses_signals) return Sent::kNotPermitted;
  const auto die = [&](absl::Duration after, const core::Outcome& outcome) {
    const absl::Duration at = time_ + after;
    if (process->dies_at && *process->dies_at <= at) return;
    process->dies_at = at;
    process->dies_with = outcome;
  };
  const auto take_term = [&] {
    if (!program.on_term) return;
    core::Outcome outcome;
    if (program.term_exits_well) {
      outcome.exit_code = 0;
    } else {
      outcome.signal = 15;
    }
    die(*program.on_term, outcome);
  };
  switch (signal) {
    case Signal::kTerm:
      if (process->stopped) {
        process->term_waits = true;
      } else {
        take_term();
      }
      break;
    case Signal::kKill:
      die(program.dying, core::Outcome{.exit_code = {}, .signal = 9, .start_errno = {}});
      break;
    case Signal::kStop:
      process->stopped = true;
      break;
    case Signal::kContinue:
      process->stopped = false;
      if (std::exchange(process->term_waits, false)) take_term();
      break;
  }
  return Sent::kYes;
}

void World::End(const core::ProcessIdentity& identity, const core::Outcome& outcome) {
  Process* process = Find(identity);
  if (process == nullptr) return;
  process->dies_at = time_;
  process->dies_with = outcome;
  Bury();
}

void World::Tell(const core::ProcessIdentity& identity, Bytes held, Bytes bytes_per_second) {
  Process* process = Find(identity);
  if (process == nullptr) return;
  process->told = held.AsDouble();
  process->told_rate = bytes_per_second.AsDouble();
}

void World::EndUnmanaged() {
  for (Process& process : processes_) {
    if (process.owner != kUnmanaged || process.dies_at) continue;
    process.dies_at = time_;
    process.dies_with = core::Outcome{.exit_code = 0, .signal = {}, .start_errno = {}};
  }
  Bury();
}

std::vector<Exit> World::TakeExits() { return std::exchange(exits_, {}); }

// ---- A step ----

void World::Step(absl::Duration by) {
  const double seconds = Seconds(by);
  time_ += by;
  for (Process& process : processes_) Live(process, by);
  Compress(seconds);
  SwapOut(seconds);
  GiveBack(by);
  Bury();
  AddUp();
}

void World::Live(Process& process, absl::Duration by) {
  if (process.stopped || process.held_back || process.role == Role::kShim) return;
  const Program& program = *process.program;
  process.age += by;
  Hold(process, Seconds(by));
  Wire(process);
  while (process.next_child < program.children.size() &&
         process.age >= program.children[process.next_child].at) {
    const Program::Child& child = program.children[process.next_child++];
    Process born;
    born.program = child.program;
    born.owner = process.owner;
    born.role = Role::kChild;
    born.left_session = child.leaves_session;
    born.command = process.command;
    born.identity = {NewPid(), ++last_start_};
    born_.push_back(std::move(born));
  }
  if (process.age >= program.lifetime && !process.dies_at) {
    process.dies_at = time_;
    process.dies_with = program.outcome;
  }
}

void World::Hold(Process& process, double seconds) {
  double want = 0;
  double parked = 0;
  double rate = kFastestGrowth;
  if (process.told) {
    want = *process.told;
    rate = process.told_rate;
  } else {
    std::tie(want, parked) = Wanted(*process.program, process.age);
  }
  const double held = process.held();
  if (want > held) {
    const double free = Free() - machine_.total.AsDouble() * kLast;
    const double more = std::min({want - held, rate * seconds, std::max(0.0, free)});
    process.resident += more;
    resident_ += more;
  } else if (want < held) {
    const double kept = want / held;
    resident_ -= process.resident * (1 - kept);
    process.resident *= kept;
    process.compressed *= kept;
    process.swapped *= kept;
  }
  process.parked = std::min(parked, process.held());
}

// Parked memory is not wired, and the first to be compressed; what the GPU uses is, and more of it
// now and less of it then.
void World::Wire(Process& process) {
  const Program& program = *process.program;
  double share = program.wired_share;
  if (program.waves) {
    const double fall = Seconds(process.age % kWave) / Seconds(kWave);  // up at once, then down
    share += kWaveDepth * (0.5 - fall);
  }
  const double parked = std::max(0.0, process.parked - process.compressed - process.swapped);
  process.wired = (process.resident - parked) * std::clamp(share, 0.0, 1.0);
}

// Parked pages go to the compressor by themselves; when little is free, idle pages of all follow,
// in proportion to what each has that can be moved, so that there is something to write to swap.
void World::Compress(double seconds) {
  AddUp();
  double most = kFastestCompression * seconds;
  for (Process& process : processes_) {
    const double squeezed = process.compressed + process.swapped;
    const double moved = std::min({most, process.parked - squeezed, process.resident});
    if (moved <= 0) continue;
    process.resident -= moved;
    process.compressed += moved;
    most -= moved;
  }
  AddUp();
  const double total = machine_.total.AsDouble();
  const double missing = total * kPool - compressed_ * kCompressed;
  if (missing <= 0 || Free() >= total * kLowWater) return;
  double movable = others_.resident;
  for (const Process& process : processes_) movable += process.resident - process.wired;
  if (movable <= 0) return;
  const double share = std::min({missing, std::max(0.0, most), movable}) / movable;
  const auto move = [share](Process& process) {
    const double moved = (process.resident - process.wired) * share;
    process.resident -= moved;
    process.compressed += moved;
  };
  move(others_);
  for (Process& process : processes_) move(process);
  AddUp();
}

void World::SwapOut(double seconds) {
  const double pool = compressed_ * kCompressed;
  const double missing = machine_.total.AsDouble() * kLowWater - Free();
  const double room = machine_.swap_total.AsDouble() - swapped_ * kCompressed;
  const double out = std::min({missing, kFastestSwapOut * seconds, room, pool});
  if (out <= 0) return;
  const double share = out / pool;
  const auto move = [share](Process& process) {
    const double moved = process.compressed * share;
    process.compressed -= moved;
    process.swapped += moved;
  };
  move(others_);
  for (Process& process : processes_) move(process);
}

void World::GiveBack(absl::Duration by) {
  for (Returning& one : returning_) {
    if (time_ < one.at) continue;
    const absl::Duration left = one.at + one.over - (time_ - by);
    const double share = left <= by ? 1.0 : Seconds(by) / Seconds(left);
    one.resident -= one.resident * share;
    one.swapped -= one.swapped * share;
  }
  returning_.erase(
      std::remove_if(returning_.begin(), returning_.end(),
                     [](const Returning& one) { return one.resident <= 0 && one.swapped <= 0; }),
      returning_.end());
}

// Ends those whose time has come. A shim ends with its command.
void World::Bury() {
  for (std::size_t i = 0; i < processes_.size();) {
    Process& process = processes_[i];
    if (!process.dies_at || *process.dies_at > time_) {
      ++i;
      continue;
    }
    const Process dead = std::move(process);
    processes_.erase(processes_.begin() + static_cast<std::ptrdiff_t>(i));
    exits_.push_back({dead.identity, dead.owner, dead.role, dead.dies_with});
    const Program& program = *dead.program;
    const bool late = random_.Chance(slow_release);
    const absl::Duration after =
        late ? random_.Between(absl::Seconds(1), absl::Seconds(6)) : program.release_after;
    returning_.push_back({dead.resident + dead.compressed * kCompressed, dead.swapped,
                          time_ + after, program.release_over});
    for (Process& other : processes_) {
      if (other.owner == dead.owner && dead.role == Role::kMain) other.parent_alive = false;
      if (other.owner == dead.owner && dead.role == Role::kMain && other.role == Role::kShim) {
        other.dies_at = time_;
        other.dies_with = dead.dies_with;
        i = 0;
      }
    }
    if (program.successor) {
      Process born;
      born.program = program.successor;
      born.owner = dead.owner;
      born.role = Role::kChild;
      born.command = dead.command;
      born.identity = {NewPid(), ++last_start_};
      born_.push_back(std::move(born));
    }
    if (reuse_pids_at_once && dead.owner != kUnmanaged) {
      Process born;
      auto taker = std::make_shared<Program>();
      taker->steps = {{absl::ZeroDuration(), absl::ZeroDuration(), MiB(64), Bytes(0)}};
      taker->lifetime = absl::Seconds(20);
      born.program = std::move(taker);
      born.command = "takes pids again";
      born.identity = {dead.identity.pid, ++last_start_};
      ++pids_reused_;
      born_.push_back(std::move(born));
    }
  }
  for (Process& born : born_) processes_.push_back(std::move(born));
  born_.clear();
}

void World::AddUp() {
  wired_ = machine_.total.AsDouble() * machine_.wired_share;
  resident_ = others_.resident;
  compressed_ = others_.compressed;
  swapped_ = others_.swapped;
  for (const Process& process : processes_) {
    resident_ += process.resident;
    compressed_ += process.compressed;
    swapped_ += process.swapped;
  }
  for (const Returning& one : returning_) {
    resident_ += one.resident;
    swapped_ += one.swapped;
  }
}

// ---- Readings ----

double World::Free() const {
  return machine_.total.AsDouble() - wired_ - resident_ - compressed_ * kCompressed;
}

Bytes World::available() const { return Whole(Free()); }

core::HostSample World::Sample() const {
  core::HostSample sample;
  const double total = machine_.total.AsDouble();
  double gpu_wired = 0;
  for (const Process& process : processes_) gpu_wired += process.wired;
  const double pool = compressed_ * kCompressed;
  // What is neither wired nor in the compressor: anonymous pages in use count as available here
  // (xnu osfmk/vm/vm_pageout.c, vm_pressure_response).
  sample.level = Percent{
      static_cast<double>(static_cast<int>(100 * (total - wired_ - gpu_wired - pool) / total))};
  sample.total = machine_.total;
  sample.available = available();
  sample.swap_used = Whole(swapped_ * kCompressed);
  sample.swap_total = machine_.swap_total;
  const double free_share = sample.available->AsDouble() / total;
  sample.pressure = core::Pressure::kNormal;
  if (free_share < 0.1) sample.pressure = core::Pressure::kWarn;
  if (free_share < 0.04) sample.pressure = core::Pressure::kCritical;
  sample.pageable_internal = Whole(resident_ - gpu_wired);
  sample.compressed = Whole(pool);
  sample.wired = Whole(wired_ + gpu_wired);
  return sample;
}

core::Usage World::UsageOf(const Process& process) const {
  core::Usage usage;
  usage.footprint = Whole(process.visible());
  if (machine_.tells_own_swap) {
    usage.swapped = Whole(process.compressed + process.swapped - process.parked);
  }
  return usage;
}

void World::DrainSwap(Bytes by) {
  others_.swapped = std::max(0.0, others_.swapped - by.AsDouble());
  AddUp();
}

}  // namespace stageload::sim
