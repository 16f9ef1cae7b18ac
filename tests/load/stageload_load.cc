// stageload-load: a job that really takes memory, for demos and tests.
//
// Memory that was only allocated, or that can be folded into less, would prove nothing: every page
// is written with pseudo-random contents of its own, which neither zswap nor a compressor can make
// smaller nor KSM merge. Nothing is locked, so the pages may go to swap.
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "absl/time/time.h"
#include "base/text.h"
#include "base/units.h"

namespace stageload {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 1;

struct Load {
  Bytes hold;
  absl::Duration for_time;
  absl::Duration ramp;
  bool ignore_term = false;
};

// Since an arbitrary moment.
absl::Duration Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return absl::DurationFromTimespec(now);
}

void WaitUntil(absl::Duration moment) {
  for (absl::Duration left = moment - Now(); left > absl::ZeroDuration(); left = moment - Now()) {
    // Not longer at once than a timespec of any platform holds.
    const timespec wait = absl::ToTimespec(std::min(left, absl::Hours(24)));
    nanosleep(&wait, nullptr);
  }
}

// splitmix64 (Steele, Lea, Flood 2014): fast, and no two pages come out alike.
void FillWithNoise(unsigned char* from, std::size_t length, std::uint64_t& state) {
  for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
    std::uint64_t noise = state += 0x9e3779b97f4a7c15;
    noise = (noise ^ (noise >> 30)) * 0xbf58476d1ce4e5b9;
    noise = (noise ^ (noise >> 27)) * 0x94d049bb133111eb;
    noise ^= noise >> 31;
    std::memcpy(from + at, &noise, std::min(sizeof noise, length - at));
  }
}

// Touches all of it, over `ramp`, in steps.
void Touch(unsigned char* memory, std::size_t size, absl::Duration ramp) {
  constexpr std::size_t kStep = 1 << 20;
  // Two loads at once must not be alike either.
  std::uint64_t noise = static_cast<std::uint64_t>(getpid()) << 32 ^
                        static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(Now()));
  const absl::Duration start = Now();
  for (std::size_t done = 0; done < size;) {
    const std::size_t step = std::min(kStep, size - done);
    FillWithNoise(memory + done, step, noise);
    done += step;
    WaitUntil(start + ramp * (static_cast<double>(done) / static_cast<double>(size)));
  }
}

int Run(const Load& load) {
  if (load.ignore_term) signal(SIGTERM, SIG_IGN);
  const auto size = static_cast<std::size_t>(load.hold.count());
  void* memory = nullptr;
  if (size > 0) {
    memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) {
      std::fprintf(stderr, "stageload-load: allocate %s: %s; ask for less with --hold\n",
                   FormatBytes(load.hold).c_str(), std::strerror(errno));
      return kFailed;
    }
    Touch(static_cast<unsigned char*>(memory), size, load.ramp);
  }
  std::printf("holding %s\n", FormatBytes(load.hold).c_str());
  std::fflush(stdout);
  WaitUntil(Now() + load.for_time);
  if (memory != nullptr) munmap(memory, size);
  return 0;
}

// Reads `text` with `parse` into `value`; CLI11 shows the message and exits.
template <typename Value, typename Parse>
CLI::Option* AddQuantity(CLI::App& app, const std::string& name, Value& value, Parse parse,
                         const std::string& description) {
  return app.add_option_function<std::string>(
      name,
      [&value, parse, name](const std::string& text) {
        const auto parsed = parse(text);
        if (!parsed.ok()) throw CLI::ValidationError(name, std::string(parsed.status().message()));
        value = *parsed;
      },
      description);
}

}  // namespace
}  // namespace stageload

int main(int argc, char** argv) {
  stageload::Load load;
  CLI::App app("Takes memory, holds it for a while, gives it back and exits 0.", "stageload-load");
  stageload::AddQuantity(app, "--hold", load.hold, stageload::ParseBytes,
                         "how much memory to touch, for example 600M")
      ->required();
  stageload::AddQuantity(app, "--for", load.for_time, stageload::ParseDuration,
                         "how long to hold it, for example 60s")
      ->required();
  stageload::AddQuantity(app, "--ramp", load.ramp, stageload::ParseDuration,
                         "over how long to take it (default: at once)");
  app.add_flag("--ignore-term", load.ignore_term, "do not end on SIGTERM");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : stageload::kUsageError;
  }
  return stageload::Run(load);
}
