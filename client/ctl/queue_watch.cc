#include "client/ctl/queue_watch.h"

#include <cstdint>
#include <set>
#include <string>

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

std::string ChangeLine(const v1::WatchJobsResponse& change) {
  const v1::Job& job = change.job();
  std::string line = absl::StrCat(absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone()),
                                  "  ", job.id());
  if (change.deleted()) return absl::StrCat(line, "  forgotten\n");
  absl::StrAppend(&line, "  ", Word(job.state()), "  ", std::string(job.name()));
  if (job.state() == v1::JOB_STATE_PENDING && !job.blockers().empty()) {
    absl::StrAppend(&line, "  ", BlockerLine(job.blockers(0)));
  } else if (const std::string reason = ReasonLine(job); !reason.empty()) {
    absl::StrAppend(&line, "  ", reason);
  } else if (job.has_exit_code()) {
    absl::StrAppend(&line, "  exit code ", job.exit_code());
  }
  return absl::StrCat(Printable(line), "\n");
}

}  // namespace

int WatchQueue(const Connection& connection, bool json) {
  bool written = true;
  std::set<std::int64_t> living;
  const absl::Status status = AskUntilAnswered(connection, [&](const Connection& current) {
    grpc::ClientContext context;
    const auto stub = v1::JobService::NewStub(current.channel);
    v1::WatchJobsRequest request;
    for (const std::int64_t id : living) request.add_known_ids(id);
    const auto reader = stub->WatchJobs(&context, request);
    v1::WatchJobsResponse change;
    while (written && reader->Read(&change)) {
      if (change.deleted() || IsEnd(change.job().state())) {
        living.erase(change.job().id());
      } else {
        living.insert(change.job().id());
      }
      written = Out(json ? Line(ToJson(change)) : ChangeLine(change));
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
