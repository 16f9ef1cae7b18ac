// One point a second.
#include "client/ctl/top_history.h"

#include <algorithm>

namespace stageload::ctl {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
// Points that are an interval apart may be two seconds' apart, and one of them be late.
constexpr int kFilledIntervals = 3;
constexpr std::int64_t kRateWindow = 5 * kSecond;

std::int64_t FloorDivide(std::int64_t a, std::int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

template <typename T, typename Better>
void Take(std::optional<T>& mine, const std::optional<T>& other, Better better) {
  if (other && (!mine || better(*other, *mine))) mine = other;
}

}  // namespace

void HostPoint::Worsen(const HostPoint& other) {
  Take(level, other.level, std::less<>());
  Take(swap, other.swap, std::greater<>());
  Take(pressure, other.pressure, std::greater<>());
}

TimedPoint PointOf(const v1::Frame& frame) {
  TimedPoint timed;
  timed.time_ns = frame.time_ns();
  const v1::HostSample& host = frame.host();
  if (host.has_level_percent()) timed.point.level = host.level_percent();
  if (host.has_swap_used_bytes()) timed.point.swap = host.swap_used_bytes();
  if (host.has_pressure()) timed.point.pressure = host.pressure();
  return timed;
}

void TopHistory::Add(const TimedPoint& point) {
  seconds_[FloorDivide(point.time_ns, kSecond)].Worsen(point.point);
  const std::int64_t kept = absl::ToInt64Seconds(kKept);
  seconds_.erase(seconds_.begin(), seconds_.lower_bound(seconds_.rbegin()->first - kept));
}

void TopHistory::AddNewest(const TimedPoint& point) {
  seconds_.erase(seconds_.upper_bound(FloorDivide(point.time_ns, kSecond)), seconds_.end());
  Add(point);
}

// An idle daemon samples once a second, and `top` may ask for less.
TopHistory::TopHistory(absl::Duration interval)
    : filled_seconds_(absl::ToInt64Seconds(
          absl::Ceil(kFilledIntervals * std::max(interval, absl::Seconds(1)), absl::Seconds(1)))) {}

// A column is a whole or a broken number of seconds, or a part of one: they are numbered from the
// epoch on, and a second lies in all that have a part in it.
std::vector<HostPoint> TopHistory::Stretches(std::size_t columns, std::int64_t seconds) const {
  std::vector<HostPoint> stretches(columns);
  if (seconds_.empty() || columns == 0) return stretches;
  const auto count = static_cast<std::int64_t>(columns);
  const auto column_of = [&](std::int64_t second) { return FloorDivide(second * count, seconds); };
  // `to` is the first second that is not in it any more.
  const auto last_before = [&](std::int64_t to) { return FloorDivide(to * count - 1, seconds); };
  const std::int64_t last = last_before(seconds_.rbegin()->first + 1);
  const std::int64_t first = last - count + 1;
  for (auto point = seconds_.begin(); point != seconds_.end(); ++point) {
    const auto next = std::next(point);
    const std::int64_t begin = point->first;
    std::int64_t end = begin + 1;
    if (next != seconds_.end() && next->first - begin <= filled_seconds_) end = next->first;
    for (std::int64_t i = std::max(first, column_of(begin)); i <= last_before(end); ++i) {
      stretches[static_cast<std::size_t>(i - first)].Worsen(point->second);
    }
  }
  return stretches;
}

void SwapRate::Add(const v1::Frame& frame) {
  if (!frame.host().has_swap_used_bytes()) return;
  const Reading reading{frame.awake_ns(), frame.host().swap_used_bytes()};
  // Of the machine before it was started anew.
  if (!readings_.empty() && reading.awake_ns <= readings_.back().awake_ns) readings_.clear();
  readings_.push_back(reading);
  const auto recent = std::find_if(readings_.begin(), readings_.end(), [&](const Reading& other) {
    return reading.awake_ns - other.awake_ns <= kRateWindow;
  });
  // One before the window too, so that a slow stream has two.
  if (recent - readings_.begin() > 1) readings_.erase(readings_.begin(), recent - 1);
}

std::optional<double> SwapRate::BytesPerSecond() const {
  if (readings_.size() < 2) return std::nullopt;
  const Reading& last = readings_.back();
  const Reading& first = readings_.front();
  if (last.awake_ns - first.awake_ns < kSecond * 9 / 10) return std::nullopt;
  return static_cast<double>(last.swap - first.swap) * static_cast<double>(kSecond) /
         static_cast<double>(last.awake_ns - first.awake_ns);
}

}  // namespace stageload::ctl
