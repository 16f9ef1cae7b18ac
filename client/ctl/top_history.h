// What the machine's memory was like over the last hour, second by second, for the graphs.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_TOP_HISTORY_H_
#define STAGELOAD_CLIENT_CTL_TOP_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// The worst of a stretch of time; what was never read in it is absent.
struct HostPoint {
  std::optional<double> level;  // the lowest
  std::optional<std::int64_t> swap;
  std::optional<v1::Pressure> pressure;

  // The lowest level and the highest of the rest.
  void Worsen(const HostPoint& other);
};

struct TimedPoint {
  std::int64_t time_ns = 0;
  HostPoint point;
};
TimedPoint PointOf(const v1::Frame& frame);

class TopHistory {
 public:
  static constexpr absl::Duration kKept = absl::Hours(1);

  // `interval`: from one point to the next, at most, while there is a daemon.
  explicit TopHistory(absl::Duration interval = absl::Seconds(1));

  // In any order: frames of the past come while new ones do. One from the future of the newest
  // means that the clock was set back, and what is after it is forgotten.
  void Add(const TimedPoint& point);
  void AddNewest(const TimedPoint& point);

  // `columns` stretches of time, `seconds` all together, the last with the newest point. Their
  // borders stay where they are while time goes on, so that a graph moves and does not flicker.
  // Holes of up to three intervals are filled; longer ones are absent.
  std::vector<HostPoint> Stretches(std::size_t columns, std::int64_t seconds) const;

 private:
  const std::int64_t filled_seconds_;
  std::map<std::int64_t, HostPoint> seconds_;
};

// How fast swap grows, over the last few seconds.
class SwapRate {
 public:
  void Add(const v1::Frame& frame);
  // Bytes in a second; absent until there are two readings a second apart.
  std::optional<double> BytesPerSecond() const;

 private:
  struct Reading {
    std::int64_t awake_ns;
    std::int64_t swap;
  };
  std::vector<Reading> readings_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_HISTORY_H_
