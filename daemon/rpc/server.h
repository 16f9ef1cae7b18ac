// The API on its socket. No gRPC in this header, so that main.cc need not see any.
//
// Threading: Start(), Serve() and Stop() from one thread at a time; EndServing() from any.
#ifndef STAGELOAD_DAEMON_RPC_SERVER_H_
#define STAGELOAD_DAEMON_RPC_SERVER_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/listening_socket.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/transport.h"
#include "daemon/telemetry/frame.h"
#include "daemon/telemetry/published.h"

namespace stageload::rpc {

class Server {
 public:
  explicit Server(Parts parts);
  ~Server();

  // From now on a client that connects is kept waiting; `socket` outlives the server.
  absl::Status Start(const ListeningSocket& socket, std::vector<Transport::Source> others = {});
  // Answers in gRPC's threads, and lets clients in and sees them off in this one, until
  // EndServing(), which may have come before. Then Stop().
  void Serve();
  void EndServing();
  // Tells every open stream that we shut down, then closes all connections. The engine has been
  // told to stop before, so that whoever waits for it is answered. Takes `within` only where a
  // client does not read what it is told.
  void Stop(absl::Duration within);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The hub's encoder: a frame as GetSnapshot and WatchTelemetry send it.
telemetry::Encoded EncodeFrame(const telemetry::Frame& frame);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_SERVER_H_
