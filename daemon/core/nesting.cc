#include "daemon/core/nesting.h"

namespace stageload::core {

void Nesting::Add(JobId id, JobId around) { around_.emplace(id, around); }

void Nesting::Remove(JobId id) {
  const std::optional<JobId> around = Around(id);
  for (const JobId inner : Inside(id)) {
    if (around) {
      around_[inner] = *around;
    } else {
      around_.erase(inner);
    }
  }
  around_.erase(id);
}

std::optional<JobId> Nesting::Around(JobId id) const {
  const auto found = around_.find(id);
  return found == around_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<JobId> Nesting::Inside(JobId around) const {
  std::vector<JobId> inside;
  for (const auto& [inner, outer] : around_) {
    if (outer == around) inside.push_back(inner);
  }
  return inside;
}

bool Nesting::IsInside(JobId id, JobId around) const {
  for (std::optional<JobId> next = Around(id); next; next = Around(*next)) {
    if (*next == around) return true;
  }
  return false;
}

}  // namespace stageload::core
