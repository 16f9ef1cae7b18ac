// What survives the daemon and the machine: rows and what runs have taught, as they were committed.
// It is kept in memory, since a run commits a thousand times. When a daemon comes back, what it
// reads takes the way through a real store::Store first, so that a column which is not stored, or
// stored wrongly, shows.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_DISK_H_
#define STAGELOAD_TESTS_SIM_DISK_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/job.h"
#include "daemon/store/store.h"

namespace stageload::sim {

// One real store for many runs: each row that goes through it gets an id of its own there.
class StoreTrip {
 public:
  static absl::StatusOr<std::unique_ptr<StoreTrip>> Open(const std::string& path);
  // The rows as the store gives them back, in the same order.
  absl::StatusOr<std::vector<core::JobRecord>> Through(const std::vector<core::JobRecord>& rows);
  // Likewise the runs that profiles remember.
  absl::StatusOr<std::vector<store::ProfileRow>> Through(
      const std::vector<store::ProfileRow>& runs);

 private:
  explicit StoreTrip(std::unique_ptr<store::Store> store) : store_(std::move(store)) {}
  std::unique_ptr<store::Store> store_;
  std::int64_t used_ = 0;
};

class Disk {
 public:
  // All or nothing, as the store does it.
  absl::Status Commit(const store::Batch& batch);

  std::vector<core::JobRecord> Unended() const;
  core::JobId NextId() const { return next_id_; }
  const core::JobRecord* Find(core::JobId id) const;
  const std::map<core::JobId, core::JobRecord>& rows() const { return rows_; }
  const std::vector<store::ProfileRow>& learned() const { return learned_; }
  std::string Setting(const std::string& name) const;

  bool full = false;  // nothing can be written

 private:
  std::map<core::JobId, core::JobRecord> rows_;
  std::vector<store::ProfileRow> learned_;
  std::map<std::string, std::string> settings_;
  core::JobId next_id_{1};
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_DISK_H_
