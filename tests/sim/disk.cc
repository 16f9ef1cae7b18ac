#include "tests/sim/disk.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace stageload::sim {

using core::JobId;
using core::JobRecord;

absl::StatusOr<std::unique_ptr<StoreTrip>> StoreTrip::Open(const std::string& path) {
  absl::StatusOr<std::unique_ptr<store::Store>> store = store::Store::Open(path);
  if (!store.ok()) return store.status();
  return std::unique_ptr<StoreTrip>(new StoreTrip(*std::move(store)));
}

absl::StatusOr<std::vector<JobRecord>> StoreTrip::Through(const std::vector<JobRecord>& rows) {
  store::Batch batch;
  for (const JobRecord& row : rows) {
    batch.added.push_back({row, std::nullopt});
    batch.added.back().record.id = JobId{++used_};
  }
  if (absl::Status status = store_->Commit(batch); !status.ok()) return status;
  std::vector<JobRecord> read;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    absl::StatusOr<JobRecord> row = store_->Get(batch.added[i].record.id);
    if (!row.ok()) return row.status();
    row->id = rows[i].id;
    read.push_back(*std::move(row));
  }
  return read;
}

// Each under a profile of its own, so that those of earlier trips are not among them.
absl::StatusOr<std::vector<store::ProfileRow>> StoreTrip::Through(
    const std::vector<store::ProfileRow>& runs) {
  const std::string prefix = absl::StrCat(++used_, ":");
  store::Batch batch;
  for (const store::ProfileRow& row : runs) {
    batch.learned.push_back({absl::StrCat(prefix, row.profile), row.run});
  }
  if (absl::Status status = store_->Commit(batch); !status.ok()) return status;
  absl::StatusOr<std::vector<store::ProfileRow>> all = store_->Profiles();
  if (!all.ok()) return all.status();
  std::vector<store::ProfileRow> read;
  for (store::ProfileRow& row : *all) {
    if (!absl::StartsWith(row.profile, prefix)) continue;
    row.profile.erase(0, prefix.size());
    read.push_back(std::move(row));
  }
  return read;
}

absl::Status Disk::Commit(const store::Batch& batch) {
  if (full) return absl::UnavailableError("write: no space left on device");
  for (const store::NewJob& job : batch.added) {
    rows_[job.record.id] = job.record;
    next_id_ = std::max(next_id_, JobId{core::Value(job.record.id) + 1});
  }
  for (const JobRecord& record : batch.changed) {
    const auto row = rows_.find(record.id);
    if (row == rows_.end()) {
      return absl::NotFoundError(absl::StrCat("no job ", core::Value(record.id), " to change"));
    }
    row->second = record;
  }
  for (const auto& [name, value] : batch.settings) settings_[name] = value;
  learned_.insert(learned_.end(), batch.learned.begin(), batch.learned.end());
  return absl::OkStatus();
}

std::string Disk::Setting(const std::string& name) const {
  const auto found = settings_.find(name);
  return found == settings_.end() ? "" : found->second;
}

std::vector<JobRecord> Disk::Unended() const {
  std::vector<JobRecord> unended;
  for (const auto& [id, row] : rows_) {
    if (!core::IsEnd(row.state)) unended.push_back(row);
  }
  return unended;
}

const JobRecord* Disk::Find(JobId id) const {
  const auto row = rows_.find(id);
  return row == rows_.end() ? nullptr : &row->second;
}

}  // namespace stageload::sim
