// ReadLogs: a job's output, piece by piece, as fast as the caller takes it and no faster.
//
// Threading: see log_stream.cc.
#ifndef STAGELOAD_DAEMON_RPC_LOG_STREAM_H_
#define STAGELOAD_DAEMON_RPC_LOG_STREAM_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "daemon/core/ids.h"
#include "daemon/engine/engine.h"
#include "daemon/jobs/log.h"
#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/typed_call.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::rpc {

struct LogQuery {
  jobs::LogStream stream = jobs::LogStream::kBoth;
  bool follow = false;
  std::optional<std::int64_t> tail_lines;
};
// InvalidArgument names the field.
absl::StatusOr<LogQuery> ToLogQuery(const v1::ReadLogsRequest& request);

// `streams` outlives the call.
void StreamLog(StreamCall<v1::ReadLogsResponse> call, engine::Engine* engine, OpenStreams& streams,
               core::JobId id, const LogQuery& query);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_LOG_STREAM_H_
