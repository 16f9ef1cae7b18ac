#include "client/ctl/queue_watch.h"

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/ctl/call.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "stageload/v1/job_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

// Without the time.
std::string ChangeText(const v1::WatchJobsResponse& change) {
  const v1::Job& job = change.job();
  std::string line = absl::StrCat(job.id());
  if (change.deleted()) return absl::StrCat(line, "  forgotten");
  absl::StrAppend(&line, "  ", Word(job.state()), "  ", std::string(job.name()));
  if (job.state() == v1::JOB_STATE_PENDING && !job.blockers().empty()) {
    absl::StrAppend(&line, "  ", BlockerLine(job.blockers(0)));
  } else if (const std::string reason = ReasonLine(job); !reason.empty()) {
    absl::StrAppend(&line, "  ", reason);
  } else if (job.has_exit_code()) {
    absl::StrAppend(&line, "  exit code ", job.exit_code());
  }
  return Printable(line);
}

std::string ChangeLine(const std::string& text) {
  return absl::StrCat(absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone()), "  ", text,
                      "\n");
}

}  // namespace

int WatchQueue(const Connection& connection, bool json) {
  bool written = true;
  std::map<std::int64_t, std::string> living;  // and what was said last of each
  const absl::Status status = AskUntilAnswered(connection, [&](const Connection& current) {
    grpc::ClientContext context;
    const auto stub = v1::JobService::NewStub(current.channel);
    v1::WatchJobsRequest request;
    for (const auto& [id, said] : living) request.add_known_ids(id);
    const auto reader = stub->WatchJobs(&context, request);
    v1::WatchJobsResponse change;
    while (written && reader->Read(&change)) {
      const std::int64_t id = change.job().id();
      std::string text = json ? Line(ToJson(change)) : ChangeText(change);
      // Not all that changes in a job is shown.
      const auto said = living.find(id);
      if (said != living.end() && said->second == text) continue;
      written = Out(json ? text : ChangeLine(text));
      if (change.deleted() || IsEnd(change.job().state())) {
        living.erase(id);
      } else {
        living[id] = std::move(text);
      }
    }
    if (!written) {
      context.TryCancel();
      return absl::OkStatus();
    }
    return FromGrpc(reader->Finish());
  });
  if (!written) return kExitOther;
  return Fail(status);
}

}  // namespace stageload::ctl
