// Quantities as people type and read them. Digits are read by hand: strtod and its kin also take
// "nan", "0x1p4", "1e400" and whatever the locale adds, and none of these is a size.
#include "base/text.h"

#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace stageload {
namespace {

// The Abseil of Debian 12 was built as C++14: its string_view is a type of its own there.
absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// What is being read, for error messages.
struct Quantity {
  absl::string_view name;
  absl::string_view examples;
  absl::string_view text;
};

std::string Quoted(absl::string_view text) {
  constexpr std::size_t kShown = 60;
  const bool cut = text.size() > kShown;
  return absl::StrCat("\"", absl::CHexEscape(text.substr(0, kShown)), cut ? "..." : "", "\"");
}

absl::Status Bad(const Quantity& quantity, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(quantity.name, " ", Quoted(quantity.text), ": ",
                                                 why, "; write for example ", quantity.examples));
}

// "12.75" as 12 and 0.75, so that whole numbers stay exact up to the last bit.
struct Number {
  std::int64_t whole = 0;
  double fraction = 0;
  bool has_fraction = false;
};

absl::string_view TakeDigits(absl::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && absl::ascii_isdigit(static_cast<unsigned char>(rest[length]))) {
    ++length;
  }
  const absl::string_view digits = rest.substr(0, length);
  rest.remove_prefix(length);
  return digits;
}

absl::StatusOr<Number> TakeNumber(const Quantity& quantity, absl::string_view& rest) {
  if (rest.empty()) return Bad(quantity, "is empty");
  if (rest.front() == '-') return Bad(quantity, "must not be negative");
  const absl::string_view whole = TakeDigits(rest);
  absl::string_view fraction;
  Number number;
  if (absl::ConsumePrefix(&rest, ".")) {
    fraction = TakeDigits(rest);
    number.has_fraction = true;
    if (fraction.empty()) return Bad(quantity, "has no digit after the point");
  }
  if (whole.empty() && fraction.empty()) return Bad(quantity, "does not begin with a number");
  if (!whole.empty() && !absl::SimpleAtoi(whole, &number.whole)) {
    return Bad(quantity, "is too large");
  }
  if (!fraction.empty() && !absl::SimpleAtod(absl::StrCat("0.", fraction), &number.fraction)) {
    return Bad(quantity, absl::StrCat("cannot read the fraction ", Quoted(fraction)));
  }
  return number;
}

// As a power of 1024; nullopt for no unit of ours.
std::optional<int> SizePower(absl::string_view unit) {
  constexpr absl::string_view kPrefixes = "kmgtp";
  if (unit.empty() || absl::EqualsIgnoreCase(unit, "b")) return 0;
  const auto at = kPrefixes.find(absl::ascii_tolower(static_cast<unsigned char>(unit.front())));
  if (at == absl::string_view::npos) return std::nullopt;
  unit.remove_prefix(1);
  if (!unit.empty() && !absl::EqualsIgnoreCase(unit, "b") && !absl::EqualsIgnoreCase(unit, "ib")) {
    return std::nullopt;
  }
  return static_cast<int>(at) + 1;
}

std::optional<absl::Duration> TimeUnit(absl::string_view unit) {
  if (absl::EqualsIgnoreCase(unit, "ms")) return absl::Milliseconds(1);
  if (absl::EqualsIgnoreCase(unit, "s")) return absl::Seconds(1);
  if (absl::EqualsIgnoreCase(unit, "m")) return absl::Minutes(1);
  if (absl::EqualsIgnoreCase(unit, "h")) return absl::Hours(1);
  if (absl::EqualsIgnoreCase(unit, "d")) return absl::Hours(24);
  return std::nullopt;
}

// Durations travel and are stored as 64-bit nanoseconds.
constexpr absl::Duration LongestDuration() {
  return absl::Nanoseconds(std::numeric_limits<std::int64_t>::max());
}

absl::string_view TakeUnit(absl::string_view& rest) {
  std::size_t length = 0;
  while (length < rest.size() && !absl::ascii_isdigit(static_cast<unsigned char>(rest[length])) &&
         rest[length] != '.') {
    ++length;
  }
  const absl::string_view unit = absl::StripAsciiWhitespace(rest.substr(0, length));
  rest.remove_prefix(length);
  return unit;
}

// `value` with `decimals` places at most, without trailing zeros.
std::string Trimmed(double value, int decimals) {
  std::string text = absl::StrFormat("%.*f", decimals, value);
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

}  // namespace

absl::StatusOr<Bytes> ParseBytes(std::string_view text) {
  const Quantity quantity{"size", "512M, 8G or 1.5GiB", View(text)};
  absl::string_view rest = absl::StripAsciiWhitespace(View(text));
  const auto number = TakeNumber(quantity, rest);
  if (!number.ok()) return number.status();
  const absl::string_view unit = absl::StripLeadingAsciiWhitespace(rest);
  const auto power = SizePower(unit);
  if (!power) return Bad(quantity, absl::StrCat("unknown unit ", Quoted(unit)));
  if (*power == 0 && number->has_fraction) {
    return Bad(quantity, "is not a whole number of bytes");
  }
  const std::int64_t multiple = std::int64_t{1} << (10 * *power);
  std::int64_t whole = 0;
  // A fraction is below one multiple, and multiples divide 2^63: the sum cannot overflow.
  if (__builtin_mul_overflow(number->whole, multiple, &whole)) {
    return Bad(quantity, "is too large");
  }
  return Bytes(whole) + Bytes(multiple) * number->fraction;
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  const Quantity quantity{"duration", "500ms, 90s, 30m or 1h30m", View(text)};
  absl::string_view rest = absl::StripAsciiWhitespace(View(text));
  absl::Duration total;
  absl::Duration smallest = absl::InfiniteDuration();
  do {
    const auto number = TakeNumber(quantity, rest);
    if (!number.ok()) return number.status();
    const absl::string_view word = TakeUnit(rest);
    const bool bare = word.empty() && rest.empty() && smallest == absl::InfiniteDuration();
    const auto unit = bare ? std::optional(absl::Seconds(1)) : TimeUnit(word);
    if (!unit) {
      return Bad(quantity,
                 word.empty() ? "a part has no unit" : absl::StrCat("unknown unit ", Quoted(word)));
    }
    // "30m1h" and "1h1h" are slips of the finger.
    if (*unit >= smallest) return Bad(quantity, "units must go from large to small");
    smallest = *unit;
    total += *unit * number->whole + *unit * number->fraction;
    if (total > LongestDuration()) return Bad(quantity, "is too long");
  } while (!rest.empty());
  return total;
}

absl::StatusOr<Percent> ParsePercent(std::string_view text) {
  const Quantity quantity{"percentage", "40 or 40%, from 0 to 100", View(text)};
  absl::string_view rest = absl::StripAsciiWhitespace(View(text));
  const auto number = TakeNumber(quantity, rest);
  if (!number.ok()) return number.status();
  rest = absl::StripLeadingAsciiWhitespace(rest);
  absl::ConsumePrefix(&rest, "%");
  if (!rest.empty()) return Bad(quantity, absl::StrCat("cannot read ", Quoted(rest)));
  const Percent percent{static_cast<double>(number->whole) + number->fraction};
  if (percent.value > 100) return Bad(quantity, "is above 100");
  return percent;
}

std::string FormatBytes(Bytes bytes) {
  constexpr absl::string_view kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  constexpr std::size_t kLast = std::size(kUnits) - 1;
  if (bytes > Bytes(-1024) && bytes < Bytes(1024)) return absl::StrCat(bytes.count(), " B");
  double value = std::abs(bytes.AsDouble()) / 1024;
  std::size_t unit = 0;
  // What would be rounded to 1024 of one unit is 1 of the next.
  while (value >= 1023.5 && unit < kLast) {
    value /= 1024;
    ++unit;
  }
  const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  return absl::StrCat(bytes < Bytes(0) ? "-" : "", Trimmed(value, decimals), " ", kUnits[unit]);
}

std::string FormatSpan(absl::Duration duration) {
  if (duration < absl::ZeroDuration()) return absl::StrCat("-", FormatSpan(-duration));
  if (duration == absl::InfiniteDuration()) return "inf";
  if (duration < absl::Milliseconds(100)) {
    const double ms = absl::ToDoubleMilliseconds(duration);
    const std::string text = Trimmed(ms, ms < 9.95 ? 1 : 0);
    return text == "0" ? "0s" : text == "100" ? "0.1s" : absl::StrCat(text, "ms");
  }
  if (duration < absl::Seconds(10)) {
    return absl::StrCat(Trimmed(absl::ToDoubleSeconds(duration), 1), "s");
  }
  // From here on whole units that have passed, as a clock shows them.
  const std::int64_t seconds = absl::ToInt64Seconds(duration);
  const std::int64_t minutes = seconds / 60;
  const std::int64_t hours = minutes / 60;
  if (minutes == 0) return absl::StrFormat("%ds", seconds);
  if (hours == 0) return absl::StrFormat("%dm%02ds", minutes, seconds % 60);
  if (hours < 24) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  return absl::StrFormat("%dd%02dh", hours / 24, hours % 24);
}

std::string FormatPercent(Percent percent) {
  // Rounded down: a level of 39.96 that is refused for want of 40 must not read "40 %". The tiny
  // step up is for tenths that a double holds from below.
  return absl::StrCat(Trimmed(std::floor(percent.value * 10 + 1e-6) / 10, 1), " %");
}

}  // namespace stageload
