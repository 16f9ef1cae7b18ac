#include "daemon/engine/rows_from_folders.h"

#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/shell_words.h"

namespace stageload::engine {
namespace {

// Empty when the folder says nothing about a job.
std::optional<store::NewJob> JobOf(const jobs::Jobs& jobs, core::JobId id, host::Host& host) {
  const absl::StatusOr<jobs::Found> found = jobs.Inspect(id);
  absl::StatusOr<core::JobSpec> spec = jobs.SpecOf(id);
  store::NewJob job;
  core::JobRecord& record = job.record;
  record.id = id;
  record.name = absl::StrCat("job-", core::Value(id));
  record.submit_time = host.Clock().wall;
  if (spec.ok()) {
    record.command = core::DisplayCommand({ShellWords(spec->argv)});
    if (!spec->argv.empty()) record.name = std::filesystem::path(spec->argv[0]).filename();
    record.working_directory = spec->working_directory;
  }
  using State = jobs::Found::State;
  const State state = found.ok() ? found->state : State::kLost;
  if (state == State::kNeverStarted) {
    if (!spec.ok()) return std::nullopt;
    record.held = true;
  } else if (state == State::kRunning) {
    record.state = core::JobState::kRunning;
    record.boot_id = host.BootId();
    record.start_time = record.submit_time;
    record.started_awake = host.Clock().awake;
  } else if (state == State::kEnded) {
    record.outcome = found->result.outcome;
    record.state =
        record.outcome.exit_code == 0 ? core::JobState::kCompleted : core::JobState::kFailed;
    record.submit_time = found->result.start_time;
    record.start_time = found->result.start_time;
    record.end_time = found->result.end_time;
  } else {
    record.state = core::JobState::kUnknown;
    record.reason = core::Reason::kLost;
    record.reason_text = "nobody saw how it ended";
    record.end_time = record.submit_time;
  }
  if (spec.ok()) job.spec = *std::move(spec);
  return job;
}

}  // namespace

store::Batch RowsFromFolders(const jobs::Jobs& jobs, store::Store& store, host::Host& host) {
  store::Batch batch;
  for (const core::JobId id : jobs.Folders()) {
    if (core::Value(id) <= 0 || !absl::IsNotFound(store.Get(id).status())) continue;
    std::optional<store::NewJob> job = JobOf(jobs, id, host);
    if (!job) continue;
    batch.events.push_back(
        {host.Clock().wall, id, "recovered",
         absl::StrCat("its row was lost with the store; its folder says ",
                      core::Name(job->record.state), job->record.held ? ", held" : "",
                      ". Its name and limits are not known")});
    batch.added.push_back(*std::move(job));
  }
  return batch;
}

}  // namespace stageload::engine
