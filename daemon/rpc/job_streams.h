// Streams that follow one job: WaitJob and Guard.
//
// Threading: any thread.
#ifndef STAGELOAD_DAEMON_RPC_JOB_STREAMS_H_
#define STAGELOAD_DAEMON_RPC_JOB_STREAMS_H_

#include <functional>
#include <memory>
#include <utility>

#include "daemon/core/job.h"
#include "daemon/engine/engine.h"
#include "daemon/rpc/convert.h"
#include "daemon/rpc/latest_stream.h"

namespace stageload::rpc {

// Sends the job at each change until it ends or the caller goes away; then calls `gone`.
// `Response` has a field `job`.
template <typename Response>
void FollowJob(engine::Engine* engine, core::JobId id,
               const std::shared_ptr<LatestStream<Response>>& stream, std::function<void()> gone) {
  const engine::Engine::WatchToken token = engine->NewWatchToken();
  engine->Watch(token, id, [stream](const absl::StatusOr<engine::JobView>& job) {
    if (!job.ok()) return stream->End(job.status());
    Response response;
    *response.mutable_job() = ToProto(*job);
    stream->Send(std::move(response));
    if (core::IsEnd(job->record.state)) stream->End(absl::OkStatus());
  });
  stream->OnGone([engine, token, gone = std::move(gone)] {
    engine->Unwatch(token);
    if (gone) gone();
  });
}

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_JOB_STREAMS_H_
