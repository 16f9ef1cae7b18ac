#include "daemon/core/busy_watch.h"

namespace stageload::core {

void BusyWatch::Want(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) ++patterns_[pattern].wanted;
}

void BusyWatch::Unwant(const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    const auto found = patterns_.find(pattern);
    if (found != patterns_.end() && --found->second.wanted == 0) patterns_.erase(found);
  }
}

std::vector<std::string> BusyWatch::Patterns() const {
  std::vector<std::string> patterns;
  for (const auto& [pattern, state] : patterns_) patterns.push_back(pattern);
  return patterns;
}

void BusyWatch::Observe(absl::Duration now, const std::vector<BusyReading>& readings) {
  for (const BusyReading& reading : readings) {
    const auto found = patterns_.find(reading.pattern);
    if (found == patterns_.end()) continue;
    Pattern& pattern = found->second;
    // It ran until some moment between the two readings: until now, to be safe.
    if (pattern.matches) pattern.last_seen = now;
    // Nobody knows what ran before the first look.
    if (!pattern.read) pattern.last_seen = now;
    pattern.read = true;
    pattern.matches = !reading.match.empty();
    if (!pattern.matches) continue;
    pattern.last_seen = now;
    pattern.match = reading.match;
  }
}

BusyWatch::Quiet BusyWatch::Of(const std::vector<std::string>& patterns,
                               absl::Duration quiet_for) const {
  Quiet quiet;
  const auto take = [&quiet](absl::Duration at, const std::string& text, const Pattern& pattern) {
    if (at <= quiet.at) return;
    quiet.at = at;
    quiet.match = pattern.match;
    quiet.pattern = text;
    quiet.last_seen = pattern.last_seen;
  };
  for (const std::string& text : patterns) {
    const auto found = patterns_.find(text);
    if (found == patterns_.end() || !found->second.read) {
      quiet.unread = true;
      take(absl::InfiniteDuration(), text, {});
    } else if (found->second.matches) {
      take(absl::InfiniteDuration(), text, found->second);
    } else if (found->second.last_seen) {
      take(*found->second.last_seen + quiet_for, text, found->second);
    }
  }
  return quiet;
}

}  // namespace stageload::core
