// What one seed is about, drawn before anything happens: the machine, the configuration, who comes
// with what, and which faults are on. Each seed turns a random subset of the faults on and weighs
// them (swarm testing): a fault that is always there hides what only shows in its absence.
//
// Threading: plain values and pure functions.
#ifndef STAGELOAD_TESTS_SIM_PLAN_H_
#define STAGELOAD_TESTS_SIM_PLAN_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/events.h"
#include "daemon/core/policy.h"
#include "tests/sim/random.h"
#include "tests/sim/world.h"

namespace stageload::sim {

// Per simulated minute, or the share of occasions; 0 is off.
struct Faults {
  double crashes = 0;         // of the daemon, per minute
  double reboots = 0;         // per minute
  double sleeps = 0;          // per minute
  double stalls = 0;          // of the daemon, per minute
  double long_stalls = 0;     // share of the stalls that take minutes
  double wall_steps = 0;      // per minute
  double disk_full = 0;       // times per minute
  double external_kills = 0;  // of a managed process by somebody else, per minute
  double hogs = 0;            // unmanaged programs that take much, per minute
  double busy_programs = 0;   // that match busy patterns, per minute
  double missing = 0;         // share of readings that are absent
  double lying = 0;           // share of samples with a value that cannot be true
  double sample_errors = 0;   // share of samples that fail as a whole
  double start_fails = 0;     // share of starts
  double refuses = 0;         // share of programs that cannot be signalled
  double ignores_term = 0;    // share of programs
  double slow_release = 0;    // share of ends
  double dies_slowly = 0;     // share of programs
  bool pids_reused_at_once = false;
  double vanishes = 0;  // share of signals before which a process ends by itself
};

struct Plan {
  World::Machine machine;
  core::Config config;
  Faults faults;
  absl::Duration length;  // of the phase with faults
  int requests = 0;
  double sessions = 0;      // share of them
  double guards = 0;        // likewise
  double user_actions = 0;  // per minute: cancel, hold, release, suspend, resume, drain
  double undeclared = 0;    // share of requests
  double eager = 0;         // share of programs that take more than they declare
  bool crowded = false;     // all want to start early, take much, and are to be stopped early
  double gpu = 0;           // share of programs whose memory is all wired
  int subscribers = 0;
  std::vector<std::string> groups;
  std::vector<std::string> patterns;
};
Plan DrawPlan(Random& random, absl::Duration length);
// What the machine's owner writes into the config file meanwhile. Whether to dry-run is no matter of
// the file.
core::Config DrawOtherConfig(Random& random, const Plan& plan);

// One request: what is asked and what the program then does.
struct Ask {
  core::Submit submit;  // without parents, root and token
  std::shared_ptr<const Program> program;
  Bytes peak;
  // Of a session.
  struct Stage {
    Bytes memory;
    absl::Duration hold;
    std::optional<absl::Duration> start_timeout;
  };
  std::vector<Stage> stages;
  bool nests = false;        // keeps its leases while it asks for the next
  bool cooperative = false;  // leaves when it is asked to
  bool comes_back = false;   // registers again after the daemon was gone
};
Ask DrawAsk(Random& random, const Plan& plan);
// An unmanaged program.
std::shared_ptr<const Program> DrawHog(Random& random, const Plan& plan);

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_PLAN_H_
