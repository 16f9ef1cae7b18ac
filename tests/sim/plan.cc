#include "tests/sim/plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace stageload::sim {
namespace {

// On in this seed or not, and how strongly.
double Weigh(Random& random, double chance, double most) {
  if (!random.Chance(chance)) return 0;
  return random.Between(most * 0.1, most);
}

Faults DrawFaults(Random& random) {
  Faults faults;
  faults.crashes = Weigh(random, 0.4, 8);
  faults.reboots = Weigh(random, 0.12, 2);
  faults.sleeps = Weigh(random, 0.3, 4);
  faults.stalls = Weigh(random, 0.3, 6);
  faults.long_stalls = Weigh(random, 0.3, 0.3);
  faults.wall_steps = Weigh(random, 0.25, 6);
  faults.disk_full = Weigh(random, 0.2, 4);
  faults.external_kills = Weigh(random, 0.3, 6);
  faults.hogs = Weigh(random, 0.5, 8);
  faults.busy_programs = Weigh(random, 0.4, 8);
  faults.missing = Weigh(random, 0.3, 0.15);
  faults.lying = Weigh(random, 0.3, 0.15);
  faults.sample_errors = Weigh(random, 0.3, 0.2);
  faults.start_fails = Weigh(random, 0.25, 0.3);
  faults.refuses = Weigh(random, 0.25, 0.4);
  faults.ignores_term = Weigh(random, 0.4, 0.5);
  faults.slow_release = Weigh(random, 0.4, 0.8);
  faults.dies_slowly = Weigh(random, 0.25, 0.4);
  faults.pids_reused_at_once = random.Chance(0.3);
  faults.vanishes = Weigh(random, 0.4, 0.4);
  return faults;
}

World::Machine DrawMachine(Random& random) {
  static const std::vector<Bytes> kSizes = {GiB(16), GiB(32), GiB(48)};
  World::Machine machine;
  machine.total = random.Pick(kSizes);
  machine.wired_share = random.Between(0.05, 0.1);
  machine.others_share = random.Between(0.05, 0.2);
  machine.swap_total = machine.total * random.Between(0.5, 2.0);
  machine.swap_at_start = random.Chance(0.5) ? Bytes(0) : machine.total * random.Between(0.0, 0.15);
  machine.pids = random.Between(60, 300);
  machine.tells_own_swap = random.Chance(0.7);
  machine.uptime = random.Between(absl::Seconds(30), absl::Hours(200));
  return machine;
}

core::Config DrawConfig(Random& random, const World::Machine& machine, const Plan& plan) {
  core::Config config;
  config.reserve_fraction = random.Between(0.02, 0.15);
  if (random.Chance(0.2)) config.reserve = machine.total * random.Between(0.02, 0.15);
  if (random.Chance(0.2)) config.memory_pool = machine.total * random.Between(0.3, 0.9);
  if (random.Chance(0.2)) config.max_pressure = core::Pressure::kWarn;
  config.max_bypass = random.Between(0, 6);
  config.settle = random.Between(absl::Seconds(0.5), absl::Seconds(15));
  if (random.Chance(0.4)) config.anonymous_credit = random.Between(0.05, 0.4);
  for (const std::string& group : plan.groups) config.group_limits[group] = random.Between(1, 3);
  config.dry_run = random.Chance(0.08);
  if (random.Chance(0.1)) config.max_queued = random.Between(2, 8);
  return config;
}

// Steps of what it holds, up to `peak`.
std::vector<Program::Step> DrawSteps(Random& random, Bytes peak, absl::Duration lifetime) {
  std::vector<Program::Step> steps;
  const double rate = random.Between(0.2, 4.0) * 1024 * 1024 * 1024;
  const absl::Duration ramp = absl::Seconds(peak.AsDouble() / rate);
  switch (random.Between(0, 5)) {
    case 0:  // at once
      steps.push_back({absl::ZeroDuration(), absl::ZeroDuration(), peak, Bytes(0)});
      break;
    case 1:  // a ramp
      steps.push_back(
          {random.Between(absl::ZeroDuration(), absl::Seconds(2)), ramp, peak, Bytes(0)});
      break;
    case 2: {  // saw-tooth
      const absl::Duration period = random.Between(absl::Seconds(0.5), absl::Seconds(4));
      for (int i = 0; i < 6; ++i) {
        steps.push_back({i * period, period * 0.7, peak * random.Between(0.6, 1.0), Bytes(0)});
        steps.push_back({i * period + period * 0.8, period * 0.1, peak * 0.2, Bytes(0)});
      }
      break;
    }
    case 3:  // late
      steps.push_back({absl::ZeroDuration(), absl::ZeroDuration(), peak * 0.05, Bytes(0)});
      steps.push_back({lifetime * random.Between(0.4, 0.8), ramp, peak, Bytes(0)});
      break;
    case 4:  // stage after stage, the earlier ones' weights parked
      steps.push_back({absl::Seconds(0.5), ramp, peak * 0.5, Bytes(0)});
      steps.push_back({absl::Seconds(1) + ramp, absl::Seconds(0.5), peak * 0.5, peak * 0.48});
      steps.push_back({absl::Seconds(2) + ramp, ramp, peak, peak * 0.48});
      break;
    default:  // parked from the beginning, so that hardly any footprint shows
      steps.push_back({absl::ZeroDuration(), ramp, peak, peak * 0.95});
      break;
  }
  return steps;
}

std::shared_ptr<const Program> DrawChild(Random& random, Bytes peak, absl::Duration lifetime) {
  Program child;
  child.steps = {{absl::ZeroDuration(), absl::Seconds(0.5), peak, Bytes(0)}};
  child.lifetime = lifetime * random.Between(0.2, 1.5);
  if (random.Chance(0.2)) child.on_term.reset();
  return std::make_shared<const Program>(std::move(child));
}

std::shared_ptr<const Program> DrawProgram(Random& random, const Plan& plan, Bytes peak,
                                           absl::Duration lifetime) {
  const Faults& faults = plan.faults;
  Program program;
  program.lifetime = lifetime;
  program.steps = DrawSteps(random, peak, lifetime);
  const bool gpu = random.Chance(plan.gpu);
  program.wired_share = gpu ? random.Between(0.8, 1.0) : random.Between(0.0, 0.6);
  program.waves = gpu ? random.Chance(0.3) : random.Chance(0.4);
  program.outcome.exit_code = random.Chance(0.8) ? 0 : random.Between(1, 125);
  if (random.Chance(0.05)) program.outcome = {.exit_code = {}, .signal = 11, .start_errno = {}};
  if (random.Chance(0.03)) {
    program.outcome = {.exit_code = 127, .signal = {}, .start_errno = 2};
    program.lifetime = absl::ZeroDuration();
  }
  program.on_term = random.Chance(0.5) ? absl::ZeroDuration()
                                       : random.Between(absl::ZeroDuration(), absl::Seconds(8));
  if (random.Chance(faults.ignores_term)) program.on_term.reset();
  program.term_exits_well = random.Chance(0.3);
  program.refuses_signals = random.Chance(faults.refuses);
  if (random.Chance(faults.dies_slowly)) {
    program.dying = random.Between(absl::Seconds(0.1), absl::Seconds(12));
  }
  program.release_over = random.Between(absl::ZeroDuration(), absl::Seconds(1));
  const int children = random.Chance(0.25) ? random.Between(1, 3) : 0;
  for (int i = 0; i < children; ++i) {
    program.children.push_back({random.Between(absl::ZeroDuration(), lifetime),
                                DrawChild(random, peak * random.Between(0.0, 0.2), lifetime),
                                random.Chance(0.3)});
  }
  std::sort(program.children.begin(), program.children.end(),
            [](const Program::Child& a, const Program::Child& b) { return a.at < b.at; });
  if (random.Chance(0.07)) program.successor = DrawChild(random, peak * 0.3, lifetime);
  return std::make_shared<const Program>(std::move(program));
}

core::Policy DrawPolicy(Random& random, const Plan& plan, Bytes peak) {
  core::Policy policy;
  const double idle = 100 * (1 - plan.machine.wired_share - plan.machine.others_share);
  policy.wait_free = Percent{random.Between(0.0, std::min(60.0, idle - 12))};
  policy.kill_free = Percent{random.Between(0.0, std::min(30.0, policy.wait_free.value))};
  if (plan.crowded) {
    policy.wait_free.value *= 0.5;
    policy.kill_free = Percent{random.Between(5.0, 45.0)};
  }
  policy.swap_budget = random.Chance(plan.crowded ? 0.7 : 0.3) ? plan.machine.total
                                                               : peak * random.Between(0.02, 0.7);
  if (random.Chance(0.15)) {
    policy.swap_limit = policy.swap_budget + plan.machine.total * random.Between(0.02, 0.6);
  }
  if (!random.Chance(plan.undeclared)) {
    policy.memory = random.Chance(plan.eager) ? peak * random.Between(0.2, 0.9)
                                              : peak * random.Between(1.0, 1.4);
    if (random.Chance(0.01)) policy.memory = plan.machine.total * random.Between(0.8, 1.5);
  } else {
    policy.memory_auto = random.Chance(0.5);
  }
  policy.priority = random.Chance(0.4) ? random.Between(-2, 2) : 0;
  if (random.Chance(0.2)) policy.start_timeout = random.Between(absl::ZeroDuration(), plan.length);
  policy.grace = random.Between(absl::ZeroDuration(), absl::Seconds(6));
  if (random.Chance(0.2)) policy.time_limit = random.Between(absl::Seconds(1), absl::Seconds(20));
  if (random.Chance(0.25)) policy.charge_mode = core::ChargeMode::kOwn;
  if (random.Chance(0.3)) policy.on_over_budget = core::OverBudget::kSuspend;
  if (random.Chance(0.1)) policy.on_over_budget = core::OverBudget::kWarn;
  if (random.Chance(0.12)) {
    policy.busy = {random.Pick(plan.patterns)};
    policy.quiet_for = random.Between(absl::ZeroDuration(), absl::Seconds(10));
  }
  return policy;
}

}  // namespace

Plan DrawPlan(Random& random, absl::Duration length) {
  Plan plan;
  plan.length = length;
  plan.machine = DrawMachine(random);
  plan.groups = {"train", "render"};
  plan.patterns = {"ollama", "comfyui", "lmstudio"};
  plan.faults = DrawFaults(random);
  plan.config = DrawConfig(random, plan.machine, plan);
  const double minutes = std::max(1.0, absl::ToDoubleMinutes(length));
  plan.requests = static_cast<int>(random.Between(3, 24) * minutes);
  plan.sessions = random.Chance(0.5) ? random.Between(0.1, 0.7) : 0;
  plan.guards = random.Chance(0.5) ? random.Between(0.1, 0.5) : 0;
  plan.user_actions = random.Chance(0.7) ? random.Between(1.0, 25.0) : 0;
  plan.undeclared = random.Between(0.0, 0.6);
  plan.eager = random.Chance(0.6) ? random.Between(0.1, 0.8) : 0;
  plan.gpu = random.Chance(0.6) ? random.Between(0.2, 1.0) : 0;
  plan.crowded = random.Chance(0.25);
  if (plan.crowded) {
    plan.gpu = random.Between(0.6, 1.0);
    plan.eager = random.Between(0.5, 1.0);
    plan.undeclared = random.Between(0.3, 1.0);
    plan.config.settle = random.Between(absl::ZeroDuration(), absl::Seconds(2));
  }
  plan.subscribers = random.Between(0, 1);
  return plan;
}

core::Config DrawOtherConfig(Random& random, const Plan& plan) {
  core::Config config = DrawConfig(random, plan.machine, plan);
  config.dry_run = plan.config.dry_run;
  for (const std::string& group : plan.groups) {
    if (random.Chance(0.3)) config.group_limits.erase(group);
  }
  return config;
}

Ask DrawAsk(Random& random, const Plan& plan) {
  Ask ask;
  core::Submit& submit = ask.submit;
  const double kind = random.Unit();
  submit.kind = kind < plan.sessions                 ? core::JobKind::kSession
                : kind < plan.sessions + plan.guards ? core::JobKind::kGuard
                                                     : core::JobKind::kJob;
  // Many small ones, some that fill the machine.
  const double size = random.Unit();
  ask.peak = plan.machine.total * (0.01 + 0.7 * size * size);
  const absl::Duration lifetime = random.Between(absl::Seconds(0.2), absl::Seconds(18));
  ask.program = DrawProgram(random, plan, ask.peak, lifetime);
  submit.policy = DrawPolicy(random, plan, ask.peak);
  submit.name = absl::StrCat("n", random.Below(1000));
  submit.command = submit.name;
  if (random.Chance(0.3)) submit.group = random.Pick(plan.groups);
  if (random.Chance(0.5) || submit.policy.memory_auto) {
    submit.profile = absl::StrCat("p", random.Below(3));
  }
  if (submit.kind != core::JobKind::kSession) {
    submit.held = random.Chance(0.1);
    submit.requeue = submit.kind == core::JobKind::kJob && random.Chance(0.4);
    if (random.Chance(0.1)) submit.begin_time = absl::UnixEpoch();  // the user sets it
    return ask;
  }
  submit.may_signal = random.Chance(0.6);
  const int stages = random.Between(0, 3);
  for (int i = 0; i < stages; ++i) {
    std::optional<absl::Duration> timeout;
    if (random.Chance(0.3)) timeout = random.Between(absl::ZeroDuration(), absl::Seconds(20));
    if (random.Chance(0.1)) timeout = absl::ZeroDuration();  // now or not at all
    ask.stages.push_back({plan.machine.total * random.Between(0.02, 0.5),
                          random.Between(absl::Seconds(0.3), absl::Seconds(6)), timeout});
  }
  ask.nests = random.Chance(0.4);
  ask.cooperative = random.Chance(0.6);
  ask.comes_back = random.Chance(0.5);
  return ask;
}

std::shared_ptr<const Program> DrawHog(Random& random, const Plan& plan) {
  Program hog;
  hog.lifetime = random.Between(absl::Seconds(1), absl::Seconds(25));
  hog.steps = DrawSteps(random, plan.machine.total * random.Between(0.02, 0.7), hog.lifetime);
  hog.wired_share = random.Chance(plan.gpu) ? random.Between(0.8, 1.0) : random.Between(0.0, 0.6);
  return std::make_shared<const Program>(std::move(hog));
}

}  // namespace stageload::sim
