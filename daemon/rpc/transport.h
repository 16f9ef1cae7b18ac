// Connections: our own accept loop and a grpc::Server for each, so that a handler knows who calls
// it by the kernel's word (no version of gRPC says so by itself). Measured cost over one server for
// all: 0.16 to 0.28 ms and 5 to 9 KiB a connection.
//
// Threading: Start() and Stop() from one thread; connections() from any. Makes two threads.
#ifndef STAGELOAD_DAEMON_RPC_TRANSPORT_H_
#define STAGELOAD_DAEMON_RPC_TRANSPORT_H_

#include <grpcpp/impl/codegen/service_type.h>
#include <sys/types.h>

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/peer.h"

namespace stageload::rpc {

class Transport {
 public:
  struct Options {
    std::vector<uid_t> allowed_uids;  // besides our own
    // 1,000 sessions, 1,000 subscribers and some who only ask; the next is closed at once.
    int max_connections = 2100;
    // The service objects of one connection; they live as long as it.
    std::function<std::vector<std::unique_ptr<grpc::Service>>(const Peer&)> services;
  };

  explicit Transport(Options options);
  ~Transport();

  absl::Status Start(int listening_fd);  // not owned
  // Accepts no more and closes all connections; calls in progress have until then.
  void Stop(absl::Duration within);
  int connections() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_TRANSPORT_H_
