#include "daemon/host/proc_text.h"

#include <algorithm>
#include <charconv>
#include <system_error>

namespace stageload::host {
namespace {

void SkipBlanks(std::string_view& text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
}

template <typename Integer>
std::optional<Integer> TakeInteger(std::string_view& text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// A number and the end of its word; nullopt when the text ends right behind the digits, where more
// of them may have been cut off.
template <typename Integer>
std::optional<Integer> TakeField(std::string_view& text) {
  const auto value = TakeInteger<Integer>(text);
  if (!value || text.empty() || (text.front() != ' ' && text.front() != '\n')) return std::nullopt;
  text.remove_prefix(1);
  return value;
}

bool SkipFields(std::string_view& text, int count) {
  for (int field = 0; field < count; ++field) {
    const auto blank = text.find(' ');
    if (blank == std::string_view::npos) return false;
    text.remove_prefix(blank + 1);
  }
  return true;
}

Bytes Scaled(std::uint64_t count, std::uint64_t unit) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(count, unit, &product)) return Bytes::Max();
  return Bytes::FromUnsigned(product);
}

// "  24684092 kB" of meminfo and status. The kB are of 1024 bytes.
std::optional<Bytes> ParseKilobytes(std::string_view value) {
  SkipBlanks(value);
  const auto count = TakeInteger<std::uint64_t>(value);
  if (!count || value != " kB") return std::nullopt;
  return Scaled(*count, 1024);
}

// "Name:  value" lines.
struct NamedValue {
  std::string_view name;
  std::string_view value;
};
std::optional<NamedValue> SplitAtColon(std::string_view line) {
  const auto colon = line.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  return NamedValue{line.substr(0, colon), line.substr(colon + 1)};
}

std::optional<Bytes> Minus(std::optional<Bytes> a, std::optional<Bytes> b) {
  if (!a || !b) return std::nullopt;
  return std::max(*a - *b, Bytes(0));
}

// The share of time in "some avg10=0.12 avg60=...", in hundredths of a percent.
std::optional<int> TakeAverage(std::string_view line) {
  const auto whole = TakeInteger<int>(line);
  if (!whole || *whole < 0 || *whole > 100 || line.size() < 4 || line.front() != '.') {
    return std::nullopt;
  }
  line.remove_prefix(1);
  const std::string_view digits = line.substr(0, 2);
  const bool are_digits =
      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!are_digits || line[2] != ' ') return std::nullopt;
  return *whole * 100 + (digits[0] - '0') * 10 + (digits[1] - '0');
}

}  // namespace

Line TakeLine(std::string_view& text) {
  const auto newline = text.find('\n');
  const bool whole = newline != std::string_view::npos;
  const std::string_view line = text.substr(0, newline);
  text.remove_prefix(whole ? newline + 1 : text.size());
  return {line, whole};
}

std::optional<std::uint64_t> ParseCounter(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const auto value = TakeInteger<std::uint64_t>(text);
  return text.empty() ? value : std::nullopt;
}

std::optional<std::uint64_t> FindCounter(std::string_view text, std::string_view name) {
  while (!text.empty()) {
    auto [line, whole] = TakeLine(text);
    if (!whole || !line.starts_with(name) || line.size() <= name.size() ||
        line[name.size()] != ' ') {
      continue;
    }
    return ParseCounter(line.substr(name.size() + 1));
  }
  return std::nullopt;
}

MemoryText ParseMeminfo(std::string_view text) {
  std::optional<Bytes> free, cached, reclaimable, shared, swap_free, unevictable, locked;
  MemoryText memory;
  const struct {
    std::string_view name;
    std::optional<Bytes>* value;
  } kFields[] = {{"MemTotal", &memory.total},
                 {"MemFree", &free},
                 {"MemAvailable", &memory.available},
                 {"Cached", &cached},
                 {"SReclaimable", &reclaimable},
                 {"Shmem", &shared},
                 {"SwapTotal", &memory.swap_total},
                 {"SwapFree", &swap_free},
                 {"Zswap", &memory.compressed},
                 {"Unevictable", &unevictable},
                 {"Mlocked", &locked}};
  while (!text.empty()) {
    const auto named = SplitAtColon(TakeLine(text).text);
    if (!named) continue;
    for (const auto& field : kFields) {
      if (named->name == field.name) *field.value = ParseKilobytes(named->value);
    }
  }
  // Before Linux 3.14 the kernel did not say. Free memory, the page cache and the slabs that can be
  // shrunk, less shared memory, which is counted as cache but can only go to swap; the kernel's own
  // figure (mm/show_mem.c, si_mem_available) takes a further share off for its watermarks.
  if (!memory.available && free && cached) {
    const Bytes sum = *free + *cached + reclaimable.value_or(Bytes(0));
    memory.available = Minus(sum, shared.value_or(Bytes(0)));
  }
  if (memory.available && memory.total) {
    memory.available = std::min(*memory.available, *memory.total);
  }
  memory.swap_used = Minus(memory.swap_total, swap_free);
  // Locked pages lie on the unevictable list, so the two must not be added up
  // (Documentation/mm/unevictable-lru.rst).
  memory.wired = unevictable && locked ? std::max(unevictable, locked)
                 : unevictable         ? unevictable
                                       : locked;
  return memory;
}

std::optional<core::Pressure> ParsePressure(std::string_view text) {
  // Documentation/accounting/psi.rst: the share of the last 10 s in which some, or all, tasks that
  // had work to do were held up for want of memory.
  constexpr int kHigh = 10'00;
  constexpr std::string_view kSome = "some avg10=";
  constexpr std::string_view kFull = "full avg10=";
  std::optional<int> some, full;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text).text;
    if (line.starts_with(kSome)) some = TakeAverage(line.substr(kSome.size()));
    if (line.starts_with(kFull)) full = TakeAverage(line.substr(kFull.size()));
  }
  if (!some || !full) return std::nullopt;
  if (*full >= kHigh) return core::Pressure::kCritical;
  return *some >= kHigh ? core::Pressure::kWarn : core::Pressure::kNormal;
}

SwapTraffic ParseVmstat(std::string_view text, std::int64_t page_size) {
  const auto bytes = [&](std::string_view name) -> std::optional<Bytes> {
    const auto pages = FindCounter(text, name);
    if (!pages) return std::nullopt;
    return Scaled(*pages, static_cast<std::uint64_t>(page_size));
  };
  return {bytes("pswpin"), bytes("pswpout")};
}

std::optional<Process> ParseStat(std::string_view text, std::int32_t pid) {
  // "pid (comm) S ppid pgrp session ...". A comm is whatever the process called itself, with
  // blanks, brackets and newlines; behind the last bracket there are only numbers.
  if (TakeInteger<std::int32_t>(text) != pid || !text.starts_with(" (")) return std::nullopt;
  const auto bracket = text.rfind(')');
  if (bracket == std::string_view::npos || text.size() < bracket + 4) return std::nullopt;
  Process process;
  process.identity.pid = pid;
  process.state = text[bracket + 2];
  if (text[bracket + 1] != ' ' || text[bracket + 3] != ' ') return std::nullopt;
  text.remove_prefix(bracket + 4);
  const auto parent = TakeField<std::int32_t>(text);
  const auto group = parent ? TakeField<std::int32_t>(text) : std::nullopt;
  const auto session = group ? TakeField<std::int32_t>(text) : std::nullopt;
  if (!session) return std::nullopt;
  process.parent = *parent;
  process.group = *group;
  process.session = *session;
  const auto threads = SkipFields(text, 13) ? TakeField<int>(text) : std::nullopt;  // field 20
  if (!threads || !SkipFields(text, 1)) return std::nullopt;
  const auto start = TakeField<std::uint64_t>(text);
  if (!start) return std::nullopt;
  process.identity.start = *start;
  // The first thread has ended and others run on: this is no zombie that holds nothing.
  if (process.state == 'Z' && *threads > 1) process.state = 'S';
  return process;
}

StatusText ParseStatus(std::string_view text) {
  std::optional<Bytes> anonymous, shared, swapped;
  StatusText status;
  while (!text.empty()) {
    const auto named = SplitAtColon(TakeLine(text).text);
    if (!named) continue;
    std::string_view value = named->value;
    if (named->name == "RssAnon") {
      anonymous = ParseKilobytes(value);
    } else if (named->name == "RssShmem") {
      shared = ParseKilobytes(value);
    } else if (named->name == "VmSwap") {
      swapped = ParseKilobytes(value);
    } else if (named->name == "State") {
      SkipBlanks(value);
      status.zombie = value.starts_with('Z') || value.starts_with('X');
    } else if (named->name == "Threads") {
      SkipBlanks(value);
      status.threads = TakeInteger<int>(value).value_or(1);
    }
  }
  status.usage.swapped = swapped;
  if (anonymous && shared) {
    status.usage.footprint = *anonymous + *shared + swapped.value_or(Bytes(0));
  }
  // The first thread of a program can end before the others: then they still hold its memory.
  if (status.zombie && status.threads <= 1) status.usage = {Bytes(0), Bytes(0)};
  return status;
}

}  // namespace stageload::host
