// One registration with one daemon: the stream that it lives as long as.
//
// Threading: one thread reads; `link()` may be read by any.
#ifndef STAGELOAD_CLIENT_LIB_REGISTRATION_H_
#define STAGELOAD_CLIENT_LIB_REGISTRATION_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/lib/connection.h"
#include "client/lib/interrupt.h"
#include "client/lib/lease_call.h"
#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::client {

class Registration {
 public:
  // Blocks until the daemon has registered it, refused, or not answered for kAnswerWithin. `daemon`
  // is this daemon's number.
  static absl::StatusOr<std::unique_ptr<Registration>> Begin(const Connection& connection,
                                                             const v1::RegisterRequest& request,
                                                             std::int64_t daemon,
                                                             Interrupt& interrupt);
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();  // ends it

  const DaemonLink& link() const { return link_; }
  // Blocks until something is told; false when the stream has ended.
  bool Read(v1::RegisterResponse& response) { return reader_->Read(&response); }
  // How it ended. Once, after Read gave false.
  absl::Status Finish();

 private:
  Registration(const Connection& connection, const v1::RegisterRequest& request,
               Interrupt& interrupt);

  // False when the stream has ended instead; an error when nothing came for kAnswerWithin.
  absl::StatusOr<bool> ReadFirst(v1::RegisterResponse& first);

  DaemonLink link_;
  grpc::ClientContext context_;
  Interrupt::Call call_;
  std::unique_ptr<grpc::ClientReader<v1::RegisterResponse>> reader_;
  bool finished_ = false;
};

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_REGISTRATION_H_
