// Reads moments.
#include "client/ctl/begin_time.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "base/text.h"

namespace stageload::ctl {
namespace {

constexpr std::string_view kNow = "now";
// The API's moments are 64-bit nanoseconds.
absl::Time Latest() { return absl::FromUnixNanos(std::numeric_limits<std::int64_t>::max()); }

std::string About(const std::string& text, const std::string& what) {
  return absl::StrCat("time \"", absl::CHexEscape(text), "\": ", what);
}

absl::Status Bad(const std::string& text, const char* why) {
  return absl::InvalidArgumentError(
      absl::StrCat(About(text, why), "; write for example 22:00, +30m or 2026-12-01T22:00"));
}

// ParseTime also takes blanks around a time and words such as "infinite-future".
bool HoldsATime(const std::string& text) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  return !text.empty() && digit(text.front()) && (digit(text.back()) || text.back() == 'Z');
}

std::optional<absl::Time> Read(const char* format, const std::string& text, absl::TimeZone zone) {
  absl::Time time;
  std::string ignored;
  if (!absl::ParseTime(format, text, zone, &time, &ignored)) return std::nullopt;
  return time;
}

// The next "22:00" or "22:00:30" after `now`; where a clock is put forward over it, the moment of
// that.
std::optional<absl::Time> NextTimeOfDay(const std::string& text, absl::Time now,
                                        absl::TimeZone zone) {
  for (const char* format : {"%H:%M", "%H:%M:%S"}) {
    const std::optional<absl::Time> read = Read(format, text, absl::UTCTimeZone());
    if (!read) continue;
    const absl::CivilSecond clock = absl::ToCivilSecond(*read, absl::UTCTimeZone());
    absl::CivilDay day = absl::ToCivilDay(now, zone);
    const auto on = [&](absl::CivilDay d) {
      return absl::FromCivil(absl::CivilSecond(d.year(), d.month(), d.day(), clock.hour(),
                                               clock.minute(), clock.second()),
                             zone);
    };
    return on(day) > now ? on(day) : on(day + 1);
  }
  return std::nullopt;
}

std::optional<absl::Time> Moment(const std::string& text, absl::TimeZone zone) {
  for (const char* format :
       {"%Y-%m-%dT%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d",
        "%Y-%m-%dT%H:%M%Ez", "%Y-%m-%dT%H:%M:%S%Ez", "%Y-%m-%d %H:%M:%S%Ez"}) {
    if (const std::optional<absl::Time> time = Read(format, text, zone)) return time;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<absl::Time> ParseBeginTime(const std::string& text, absl::Time now,
                                          absl::TimeZone zone) {
  if (text == kNow) return now;
  const std::size_t plus = text.starts_with(kNow) ? kNow.size() : 0;
  if (text.size() > plus && text[plus] == '+') {
    const absl::StatusOr<absl::Duration> wait = ParseDuration(text.substr(plus + 1));
    if (!wait.ok()) {
      return absl::InvalidArgumentError(About(text, std::string(wait.status().message())));
    }
    if (now + *wait > Latest()) return Bad(text, "is too far away");
    return now + *wait;
  }
  if (!HoldsATime(text)) return Bad(text, "is no time");
  if (const std::optional<absl::Time> next = NextTimeOfDay(text, now, zone)) return *next;
  const std::optional<absl::Time> time = Moment(text, zone);
  if (!time) return Bad(text, "is no time");
  if (*time < now) return Bad(text, "has passed");
  if (*time > Latest()) return Bad(text, "is too far away");
  return *time;
}

absl::StatusOr<absl::Time> ParsePastTime(const std::string& text, absl::Time now,
                                         absl::TimeZone zone) {
  const std::optional<absl::Time> time =
      HoldsATime(text) ? Moment(text, zone) : std::optional<absl::Time>();
  if (time && *time <= now) return *time;
  return absl::InvalidArgumentError(
      absl::StrCat(About(text, time ? "has not come yet" : "is no time"),
                   "; write for example 2h (ago) or 2026-11-30T22:00"));
}

}  // namespace stageload::ctl
