// How long a call may go without an answer before it is cancelled, where a deadline of gRPC's would
// be the whole stream's: a daemon can be there and not answer, as on a machine deep in swap.
//
// Threading: made and destroyed by one thread, answered by any; a thread of its own waits
// meanwhile.
#ifndef STAGELOAD_CLIENT_LIB_PATIENCE_H_
#define STAGELOAD_CLIENT_LIB_PATIENCE_H_

#include <grpcpp/client_context.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include "absl/time/time.h"

namespace stageload::client {

class Patience {
 public:
  // The context must outlive it.
  Patience(grpc::ClientContext& context, absl::Duration within);
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;
  ~Patience();  // as if it was answered

  void Answered();
  bool ran_out() const;  // and the call was cancelled

 private:
  void Wait(absl::Duration within);

  grpc::ClientContext& context_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  bool ran_out_ = false;
  std::thread thread_;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_PATIENCE_H_
