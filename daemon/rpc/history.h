// ListHistory: its question to the store, and the page that answers it.
//
// Threading: pure functions.
#ifndef STAGELOAD_DAEMON_RPC_HISTORY_H_
#define STAGELOAD_DAEMON_RPC_HISTORY_H_

#include <vector>

#include "absl/status/statusor.h"
#include "daemon/store/store.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::rpc {

// InvalidArgument names the field, the value and what would be right.
absl::StatusOr<store::EventQuery> ToEventQuery(const v1::ListHistoryRequest& request);

// A page of at most `limit` of the rows, newest first, and where the next begins if there are more.
// It ends early when it would grow beyond what a client takes.
void FillHistory(const std::vector<store::EventRow>& rows, int limit, v1::ListHistoryResponse& out);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_HISTORY_H_
