// stageload-sim: runs many seeds of the simulator, or one again with every line.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "daemon/core/fault.h"
#include "tests/sim/driver.h"

namespace stageload::sim {
namespace {

using core::Fault;

const std::map<std::string, Fault> kFaults = {
    {"none", Fault::kNone},
    {"reservations-ignored", Fault::kReservationsIgnored},
    {"bypass-unbounded", Fault::kBypassUnbounded},
    {"second-victim-at-once", Fault::kSecondVictimAtOnce},
    {"stale-sample-admitted", Fault::kStaleSampleAdmitted},
    {"not-rebased-after-sleep", Fault::kNotRebasedAfterSleep},
    {"identity-unchecked", Fault::kIdentityUnchecked},
    {"job-lost-on-restart", Fault::kJobLostOnRestart},
    {"held-of-stopping-refused", Fault::kHeldOfStoppingRefused},
};

struct Options {
  std::uint64_t seeds = 1000;
  std::uint64_t first_seed = 1;
  std::optional<std::uint64_t> seed;
  double seconds = 60;
  std::string fault = "none";
  bool verbose = false;
  bool keep_going = false;
  std::uint64_t store_every = 20;
};

class Seconds {
 public:
  double operator()() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  }

 private:
  std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
};

void PrintFailure(const Options& options, std::uint64_t seed, const RunResult& result) {
  for (const std::string& line : result.lines) std::printf("  %s\n", line.c_str());
  std::printf("seed %llu breaks invariant %d %s at %.3f s: %s\n",
              static_cast<unsigned long long>(seed), static_cast<int>(result.violation->rule),
              Name(result.violation->rule), absl::ToDoubleSeconds(result.at),
              result.violation->text.c_str());
  std::printf("again: stageload-sim --seed %llu --seconds %g%s%s --verbose\n",
              static_cast<unsigned long long>(seed), options.seconds,
              options.fault == "none" ? "" : " --fault ",
              options.fault == "none" ? "" : options.fault.c_str());
}

int RunOne(const Options& options, StoreTrip* trip) {
  RunOptions run;
  run.seed = *options.seed;
  run.length = absl::Seconds(options.seconds);
  run.trip = trip;
  run.record = true;
  if (options.verbose) run.each_line = [](const std::string& line) { std::puts(line.c_str()); };
  RunResult result = Simulate(run);
  if (options.verbose) result.lines.clear();
  std::printf("seed %llu: hash %016llx, %.3f s simulated\n",
              static_cast<unsigned long long>(*options.seed),
              static_cast<unsigned long long>(result.hash), absl::ToDoubleSeconds(result.at));
  if (!result.violation) return 0;
  PrintFailure(options, *options.seed, result);
  return 1;
}

int RunMany(const Options& options, StoreTrip* trip) {
  const Seconds elapsed;
  double told = 0;
  Counters counters;
  double simulated = 0;
  std::uint64_t done = 0;
  int failures = 0;
  std::map<std::string, std::uint64_t> first_of;
  for (std::uint64_t seed = options.first_seed; seed < options.first_seed + options.seeds; ++seed) {
    RunOptions run;
    run.seed = seed;
    run.length = absl::Seconds(options.seconds);
    if (seed % options.store_every == 0) run.trip = trip;
    const RunResult result = Simulate(run);
    counters.Add(result.counters);
    simulated += absl::ToDoubleSeconds(result.at);
    ++done;
    if (result.violation) {
      ++failures;
      if (!options.keep_going) {
        run.record = true;
        PrintFailure(options, seed, Simulate(run));
        break;
      }
      std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed),
                  Name(result.violation->rule), result.violation->text.c_str());
    }
    if (elapsed() - told >= 10) {
      told = elapsed();
      std::printf("%llu seeds, %.0f s\n", static_cast<unsigned long long>(done), told);
      std::fflush(stdout);
    }
  }
  for (int i = 0; i < static_cast<int>(Count::kCounts); ++i) {
    const auto count = static_cast<Count>(i);
    std::printf("%12lld  %s\n", static_cast<long long>(counters[count]), Name(count));
  }
  std::printf("%llu seeds, %.0f simulated seconds, in %.1f s: %.0f seeds/s; %d failed\n",
              static_cast<unsigned long long>(done), simulated, elapsed(),
              static_cast<double>(done) / elapsed(), failures);
  return failures == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Runs the core in a simulated world, seed after seed, and checks its invariants.");
  app.add_option("--seeds", options.seeds, "How many seeds to run");
  app.add_option("--first-seed", options.first_seed, "The first of them");
  app.add_option("--seed", options.seed, "Run only this one and show its last lines");
  app.add_option("--seconds", options.seconds, "Simulated length of the phase with faults");
  app.add_option("--fault", options.fault, "A mistake to switch on in the core (fault.h)")
      ->check(CLI::IsMember(kFaults));
  app.add_option("--store-every", options.store_every,
                 "Every which seed takes its rows through a real store at restarts");
  app.add_flag("--verbose", options.verbose, "With --seed: every event and effect");
  app.add_flag("--keep-going", options.keep_going, "Do not end at the first failure");
  CLI11_PARSE(app, argc, argv);
  core::switched_on = kFaults.at(options.fault);

  const std::string path =
      (std::filesystem::temp_directory_path() / ("stageload-sim." + std::to_string(::getpid())))
          .string();
  auto trip = StoreTrip::Open(path);
  if (!trip.ok()) {
    std::fprintf(stderr, "%s\n", std::string(trip.status().message()).c_str());
    return 1;
  }
  const int code = options.seed ? RunOne(options, trip->get()) : RunMany(options, trip->get());
  trip->reset();
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix);
  return code;
}

}  // namespace
}  // namespace stageload::sim

int main(int argc, char** argv) { return stageload::sim::Main(argc, argv); }
