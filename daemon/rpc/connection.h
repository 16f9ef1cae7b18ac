// One accepted connection: first a bare socket, then, once its client has spoken, a grpc::Server.
//
// Threading: one thread at a time.
#ifndef STAGELOAD_DAEMON_RPC_CONNECTION_H_
#define STAGELOAD_DAEMON_RPC_CONNECTION_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>

#include <chrono>
#include <memory>
#include <vector>

#include "daemon/rpc/peer.h"

namespace stageload::rpc {

// What answers on one connection. All of it must be callback services: a sync one costs a thread
// for each connection.
struct ServiceObjects {
  std::unique_ptr<grpc::CallbackGenericService> generic;   // may be null
  std::vector<std::unique_ptr<grpc::Service>> registered;  // their methods go before `generic`
};

class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  // Owns `fd`.
  Connection(int fd, Peer peer, Clock::time_point silent_until);
  ~Connection();  // after Shutdown() if it serves
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  const Peer& peer() const { return peer_; }
  bool serving() const { return server_ != nullptr; }
  // What to poll: the socket until serving, then a duplicate of it that shows the hang-up.
  int fd() const { return fd_; }
  // When it is to be closed, if it has said nothing until then.
  Clock::time_point silent_until() const { return silent_until_; }

  // Hands the socket to gRPC. False when that cannot be done (no descriptor left).
  bool Serve(ServiceObjects services, const grpc::ResourceQuota& quota);

  // Blocks until every call has ended; those that run at `deadline` are cancelled.
  void Shutdown(std::chrono::system_clock::time_point deadline);

 private:
  const Peer peer_;
  const Clock::time_point silent_until_;
  int fd_;
  ServiceObjects services_;
  std::unique_ptr<grpc::Server> server_;  // after the services: goes before them
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_CONNECTION_H_
