#include "daemon/store/columns.h"

#include <SQLiteCpp/Column.h>

#include <limits>
#include <optional>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace stageload::store {
namespace {

// Calls `field` with each column's value in turn; Record is core::JobRecord, const or not.
template <typename Record, typename Field>
void VisitColumns(Record& job, Field& field) {
  field(job.id);
  field(job.kind);
  field(job.name);
  field(job.command);
  field(job.working_directory);
  field(job.policy.wait_free);
  field(job.policy.swap_budget);
  field(job.policy.swap_limit);
  field(job.policy.kill_free);
  field(job.policy.memory);
  field(job.policy.priority);
  field(job.policy.start_timeout);
  field(job.policy.grace);
  field(job.state);
  field(job.reason);
  field(job.reason_text);
  field(job.outcome.exit_code);
  field(job.outcome.signal);
  field(job.outcome.start_errno);
  field(job.submit_time);
  field(job.start_time);
  field(job.end_time);
  field(job.root);
  field(job.boot_id);
  field(job.charge);
  field(job.peak_footprint);
  field(job.policy.memory_auto);
  field(job.policy.time_limit);
  field(job.policy.charge_mode);
  field(job.policy.on_over_budget);
  field(job.policy.busy);
  field(job.policy.quiet_for);
  field(job.group);
  field(job.profile);
  field(job.request_id);
  field(job.requeue);
  field(job.retry_of);
  field(job.may_signal);
  field(job.after);
  field(job.begin_time);
  field(job.held);
  field(job.started_awake);
  field(job.suspended_awake);
  field(job.suspended_for);
  field(job.stop_awake);
  field(job.swap_at_charge);
  field(job.charge_awake);
  field(job.charge_continuous);
  field(job.forgiven);
  field(job.bypassed);
  field(job.true_peak);
  field(job.available_at_start);
  field(job.swap_at_start);
  field(job.alone);
  field(job.notify);
  field(job.waited);
}

// The ends of the range stand for the infinities, which absl saturates to.
std::int64_t ToNanoseconds(absl::Duration duration) { return absl::ToInt64Nanoseconds(duration); }

absl::Duration DurationFrom(std::int64_t nanoseconds) {
  if (nanoseconds == std::numeric_limits<std::int64_t>::max()) return absl::InfiniteDuration();
  if (nanoseconds == std::numeric_limits<std::int64_t>::min()) return -absl::InfiniteDuration();
  return absl::Nanoseconds(nanoseconds);
}

class Binder {
 public:
  explicit Binder(SQLite::Statement& statement) : statement_(statement) {}

  void operator()(const std::string& text) { BindText(statement_, ++index_, text); }
  void operator()(int number) { Integer(number); }
  void operator()(bool flag) { Integer(flag ? 1 : 0); }
  // Copied by SQLite; an entry with a NUL was refused before it came here.
  void operator()(const std::vector<std::string>& entries) {
    std::string joined;
    for (const std::string& entry : entries) joined.append(entry).push_back('\0');
    statement_.bind(++index_, joined.data(), static_cast<int>(joined.size()));
  }
  void operator()(const std::vector<core::JobId>& ids) {
    std::vector<std::string> entries;
    for (const core::JobId id : ids) entries.push_back(std::to_string(core::Value(id)));
    (*this)(entries);
  }
  void operator()(const std::vector<core::Waited>& waited) {
    std::vector<std::string> entries;
    for (const core::Waited& each : waited) {
      entries.push_back(std::to_string(static_cast<int>(each.kind)));
      entries.push_back(std::to_string(ToNanoseconds(each.time)));
      entries.push_back(each.text);
    }
    (*this)(entries);
  }
  void operator()(Bytes bytes) { Integer(bytes.count()); }
  void operator()(Percent percent) { statement_.bind(++index_, percent.value); }
  void operator()(absl::Duration duration) { Integer(ToNanoseconds(duration)); }
  void operator()(absl::Time time) { Integer(store::ToNanoseconds(time)); }
  void operator()(const std::optional<core::ProcessIdentity>& process) {
    if (!process.has_value()) {
      statement_.bind(++index_);
      statement_.bind(++index_);
      return;
    }
    Integer(process->pid);
    Integer(static_cast<std::int64_t>(process->start));  // the same 64 bits
  }
  template <typename T>
  void operator()(const std::optional<T>& value) {
    if (value.has_value()) {
      (*this)(*value);
    } else {
      statement_.bind(++index_);
    }
  }
  template <typename T>
  requires std::is_enum_v<T>
  void operator()(T value) { Integer(static_cast<std::int64_t>(value)); }

 private:
  void Integer(std::int64_t value) { statement_.bind(++index_, value); }

  SQLite::Statement& statement_;
  int index_ = 0;
};

class ColumnReader {
 public:
  explicit ColumnReader(SQLite::Statement& statement) : statement_(statement) {}

  void operator()(std::string& text) { text = statement_.getColumn(index_++).getString(); }
  void operator()(int& number) { number = static_cast<int>(Integer()); }
  void operator()(bool& flag) { flag = Integer() != 0; }
  void operator()(std::vector<std::string>& entries) {
    entries = SplitEntries(statement_.getColumn(index_++).getString());
  }
  void operator()(std::vector<core::JobId>& ids) {
    std::vector<std::string> entries;
    (*this)(entries);
    for (const std::string& entry : entries) {
      std::int64_t id = 0;
      if (absl::SimpleAtoi(entry, &id)) ids.push_back(core::JobId{id});
    }
  }
  void operator()(std::vector<core::Waited>& waited) {
    std::vector<std::string> entries;
    (*this)(entries);
    for (std::size_t i = 0; i + 2 < entries.size(); i += 3) {
      int kind = 0;
      std::int64_t time = 0;
      if (absl::SimpleAtoi(entries[i], &kind) && absl::SimpleAtoi(entries[i + 1], &time)) {
        waited.push_back(
            {static_cast<core::BlockerKind>(kind), DurationFrom(time), entries[i + 2]});
      }
    }
  }
  void operator()(Bytes& bytes) { bytes = Bytes(Integer()); }
  void operator()(Percent& percent) { percent.value = statement_.getColumn(index_++).getDouble(); }
  void operator()(absl::Duration& duration) { duration = DurationFrom(Integer()); }
  void operator()(absl::Time& time) { time = absl::UnixEpoch() + DurationFrom(Integer()); }
  void operator()(std::optional<core::ProcessIdentity>& process) {
    if (statement_.isColumnNull(index_)) {
      index_ += 2;
      return;
    }
    process.emplace();
    process->pid = static_cast<std::int32_t>(Integer());
    process->start = static_cast<std::uint64_t>(Integer());
  }
  template <typename T>
  void operator()(std::optional<T>& value) {
    if (statement_.isColumnNull(index_)) {
      ++index_;
    } else {
      (*this)(value.emplace());
    }
  }
  template <typename T>
  requires std::is_enum_v<T>
  void operator()(T& value) { value = static_cast<T>(Integer()); }

 private:
  std::int64_t Integer() { return statement_.getColumn(index_++).getInt64(); }

  SQLite::Statement& statement_;
  int index_ = 0;
};

}  // namespace

void BindJob(SQLite::Statement& statement, const core::JobRecord& record) {
  Binder binder(statement);
  VisitColumns(record, binder);
}

core::JobRecord ReadJob(SQLite::Statement& statement) {
  core::JobRecord record;
  ColumnReader reader(statement);
  VisitColumns(record, reader);
  return record;
}

void BindBytes(SQLite::Statement& statement, int index, std::string_view bytes) {
  statement.bindNoCopy(index, bytes.data(), static_cast<int>(bytes.size()));
}

void BindText(SQLite::Statement& statement, int index, const std::string& text) {
  statement.bindNoCopy(index, text);
}

std::int64_t ToNanoseconds(absl::Time time) { return ToNanoseconds(time - absl::UnixEpoch()); }

absl::StatusOr<std::string> JoinEntries(const std::vector<std::string>& entries) {
  std::string joined;
  for (const std::string& entry : entries) {
    if (entry.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat(
          "an argument or variable holds a NUL byte, which no process can be given: \"",
          entry.substr(0, entry.find('\0')), "\""));
    }
    joined.append(entry).push_back('\0');
  }
  return joined;
}

std::vector<std::string> SplitEntries(std::string_view joined) {
  std::vector<std::string> entries =
      absl::StrSplit(absl::string_view(joined.data(), joined.size()), '\0');
  entries.pop_back();  // what follows the last NUL
  return entries;
}

std::string JoinLimits(const std::vector<std::pair<int, std::uint64_t>>& limits) {
  std::string joined;
  for (const auto& [resource, limit] : limits) {
    absl::StrAppend(&joined, resource, "=", limit);
    joined.push_back('\0');
  }
  return joined;
}

std::vector<std::pair<int, std::uint64_t>> SplitLimits(std::string_view joined) {
  std::vector<std::pair<int, std::uint64_t>> limits;
  for (const std::string& entry : SplitEntries(joined)) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(entry, absl::MaxSplits('=', 1));
    int resource = 0;
    std::uint64_t limit = 0;
    if (absl::SimpleAtoi(parts.first, &resource) && absl::SimpleAtoi(parts.second, &limit)) {
      limits.emplace_back(resource, limit);
    }
  }
  return limits;
}

}  // namespace stageload::store
