// The API over a real socket and a real channel; the test calls as a client would.
#ifndef STAGELOAD_TESTS_DAEMON_RPC_API_FIXTURE_H_
#define STAGELOAD_TESTS_DAEMON_RPC_API_FIXTURE_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/rpc/listening_socket.h"
#include "daemon/rpc/server.h"
#include "gtest/gtest.h"
#include "stageload/v1/error.pb.h"
#include "tests/daemon/rpc/serving_thread.h"
#include "tests/daemon/rpc/socket_fixture.h"

namespace stageload::rpc {

// A call's context with a deadline that only a hang exceeds.
class Context : public grpc::ClientContext {
 public:
  Context() { set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30)); }
};

inline v1::ErrorInfo ErrorInfoOf(const grpc::Status& status) {
  v1::ErrorStatus details;
  v1::ErrorInfo info;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  for (const v1::ErrorDetail& detail : details.details()) {
    if (std::string(detail.type_url()) == "type.googleapis.com/google.rpc.ErrorInfo") {
      EXPECT_TRUE(info.ParseFromString(std::string(detail.value())));
    }
  }
  return info;
}
inline std::string ReasonOnWire(const grpc::Status& status) {
  return std::string(ErrorInfoOf(status).reason());
}

// A server with given parts on a socket of its own.
class Api {
 public:
  explicit Api(Parts parts) : server_(std::move(parts)) {
    Paths paths;
    paths.socket = path_ = folder_.path() + "/home/d.sock";
    paths.lock = folder_.path() + "/home/d.lock";
    auto socket = ListeningSocket::Open(paths);
    EXPECT_TRUE(socket.ok()) << socket.status();
    socket_.emplace(*std::move(socket));
    const absl::Status started = server_.Start(*socket_);
    EXPECT_TRUE(started.ok()) << started;
    serving_.emplace(server_);
  }

  // A connection of its own each time.
  std::shared_ptr<grpc::Channel> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel("unix:" + path_, grpc::InsecureChannelCredentials(),
                                     arguments);
  }
  const std::string& path() const { return path_; }
  void Stop(absl::Duration within) {
    serving_.reset();
    server_.Stop(within);
  }

 private:
  TemporaryFolder folder_;
  std::string path_;
  std::optional<ListeningSocket> socket_;
  Server server_;
  std::optional<ServingThread<Server>> serving_;  // first to go
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_TESTS_DAEMON_RPC_API_FIXTURE_H_
