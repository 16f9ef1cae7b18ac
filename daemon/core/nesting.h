// Which guarded commands are inside which clients: `stageload guard` in a job, or in what another
// guards. What is inside is a part of what is around it, and must not wait for it.
//
// Threading: one owner.
#ifndef STAGELOAD_DAEMON_CORE_NESTING_H_
#define STAGELOAD_DAEMON_CORE_NESTING_H_

#include <map>
#include <optional>
#include <vector>

#include "daemon/core/ids.h"

namespace stageload::core {

class Nesting {
 public:
  // `id`, which is not in it yet, is directly inside `around`.
  void Add(JobId id, JobId around);
  // What was inside it is inside what is around it from now on.
  void Remove(JobId id);

  std::optional<JobId> Around(JobId id) const;
  std::vector<JobId> Inside(JobId around) const;                 // directly, ascending
  bool IsInside(JobId id, JobId around) const;                   // directly or not
  const std::map<JobId, JobId>& all() const { return around_; }  // each with what is around it

 private:
  std::map<JobId, JobId> around_;
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_NESTING_H_
