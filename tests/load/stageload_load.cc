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
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/awake_clock.h"
#include "base/text.h"
#include "base/units.h"

namespace stageload {
namespace {

constexpr int kUsageError = 2;
constexpr int kFailed = 1;

// So much, reached over `ramp` and held for `for_time`.
struct Step {
  Bytes hold;
  absl::Duration for_time;
  absl::Duration ramp;
};

struct Load {
  Step first;
  std::vector<Step> then;
  bool ignore_term = false;
};

void WaitUntil(absl::Duration moment) {
  for (absl::Duration left = moment - AwakeNow(); left > absl::ZeroDuration();
       left = moment - AwakeNow()) {
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
                        static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(AwakeNow()));
  const absl::Duration start = AwakeNow();
  for (std::size_t done = 0; done < size;) {
    const std::size_t step = std::min(kStep, size - done);
    FillWithNoise(memory + done, step, noise);
    done += step;
    WaitUntil(start + ramp * (static_cast<double>(done) / static_cast<double>(size)));
  }
}

// What is held, as one mapping for each growth.
class Held {
 public:
  // Maps and touches what is missing; false, with errno, when there is not so much.
  bool Grow(std::size_t size, absl::Duration ramp) {
    const std::size_t more = size - total_;
    void* memory = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
    if (memory == MAP_FAILED) return false;
    parts_.push_back({static_cast<unsigned char*>(memory), more});
    total_ = size;
    Touch(parts_.back().begin, more, ramp);
    return true;
  }

  // Gives back what came last, in whole pages.
  void Shrink(std::size_t size) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    while (total_ > size) {
      Part& last = parts_.back();
      const std::size_t keep = last.size - std::min(last.size, total_ - size);
      const std::size_t kept_pages = (keep + page - 1) / page * page;
      if (kept_pages < last.size) munmap(last.begin + kept_pages, last.size - kept_pages);
      total_ -= last.size - keep;
      last.size = keep;
      if (keep == 0) parts_.pop_back();
    }
  }

  std::size_t total() const { return total_; }

 private:
  struct Part {
    unsigned char* begin;
    std::size_t size;
  };
  std::vector<Part> parts_;
  std::size_t total_ = 0;
};

int Run(const Load& load) {
  if (load.ignore_term) signal(SIGTERM, SIG_IGN);
  std::vector<Step> steps = {load.first};
  steps.insert(steps.end(), load.then.begin(), load.then.end());
  Held held;
  for (const Step& step : steps) {
    const auto size = static_cast<std::size_t>(step.hold.count());
    held.Shrink(size);
    if (size > held.total() && !held.Grow(size, step.ramp)) {
      std::fprintf(stderr, "stageload-load: allocate %s: %s; ask for less with --hold\n",
                   FormatBytes(step.hold).c_str(), std::strerror(errno));
      return kFailed;
    }
    std::printf("holding %s\n", FormatBytes(step.hold).c_str());
    std::fflush(stdout);
    WaitUntil(AwakeNow() + step.for_time);
  }
  return 0;
}

// "400M:2s" or "400M:2s:500ms": SIZE:FOR[:RAMP].
absl::StatusOr<Step> ParseStep(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  if (parts.size() < 2 || parts.size() > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\": not SIZE:FOR[:RAMP], as in 400M:2s or 400M:2s:500ms"));
  }
  const absl::StatusOr<Bytes> hold = ParseBytes(parts[0]);
  if (!hold.ok()) return hold.status();
  const absl::StatusOr<absl::Duration> for_time = ParseDuration(parts[1]);
  if (!for_time.ok()) return for_time.status();
  const absl::StatusOr<absl::Duration> ramp = ParseDuration(parts.size() == 3 ? parts[2] : "0");
  if (!ramp.ok()) return ramp.status();
  return Step{*hold, *for_time, *ramp};
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
  stageload::AddQuantity(app, "--hold", load.first.hold, stageload::ParseBytes,
                         "how much memory to touch, for example 600M")
      ->required();
  stageload::AddQuantity(app, "--for", load.first.for_time, stageload::ParseDuration,
                         "how long to hold it, for example 60s")
      ->required();
  stageload::AddQuantity(app, "--ramp", load.first.ramp, stageload::ParseDuration,
                         "over how long to take it (default: at once)");
  app.add_option_function<std::vector<std::string>>(
         "--then",
         [&load](const std::vector<std::string>& texts) {
           for (const std::string& text : texts) {
             const auto step = stageload::ParseStep(text);
             if (!step.ok()) {
               throw CLI::ValidationError("--then", std::string(step.status().message()));
             }
             load.then.push_back(*step);
           }
         },
         "SIZE:FOR[:RAMP]: after that hold so much, more or less than before, for so long; may be "
         "repeated")
      ->allow_extra_args(false);
  app.add_flag("--ignore-term", load.ignore_term, "do not end on SIGTERM");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : stageload::kUsageError;
  }
  return stageload::Run(load);
}
