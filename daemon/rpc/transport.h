// Serves gRPC on a listening Unix socket, with a grpc::Server for each connection, so that a
// service object knows by the kernel's word which process it talks to (no version of gRPC tells by
// itself). Measured cost over one server for all: 0.16 to 0.28 ms and 5 to 9 KiB a connection.
//
// Threading: Start(), Serve() and Stop() from one thread at a time, the others from any. Beside
// that in Serve() there is one of its own now and then, whatever the number of connections.
#ifndef STAGELOAD_DAEMON_RPC_TRANSPORT_H_
#define STAGELOAD_DAEMON_RPC_TRANSPORT_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "daemon/rpc/peer.h"

namespace stageload::rpc {

struct ServiceObjects;  // connection.h

class Transport {
 public:
  struct Options {
    std::vector<uid_t> allowed_uids;  // besides our own
    // 1,000 sessions, 1,000 subscribers and some who only ask; the next is closed at once.
    int max_connections = 2100;
    // Makes what answers on one connection, in the thread that serves: may not block. It lives as
    // long as the connection and is destroyed in another thread, after the last of its reactors is
    // done. A reactor must finish when it is cancelled: until then its connection, and with it
    // Stop(), waits.
    std::function<ServiceObjects(const Peer&)> services;
    // A client that connects and says nothing is cut off after this long.
    absl::Duration silence = absl::Seconds(20);
  };

  // Something else that the thread in Serve() waits for.
  struct Source {
    int descriptor;                  // outlives Serve()
    std::function<void()> on_input;  // takes the input; may not block
  };

  explicit Transport(Options options);
  ~Transport();  // Stop(0)

  // Once; from now on a client that connects is kept waiting. `listening_fd` is not owned, must be
  // non-blocking and outlive Stop(). Raises the soft limit of open files to 8192 where the hard one
  // allows, since a connection takes two.
  // Errors: FailedPrecondition when started before, else what the system call says.
  absl::Status Start(int listening_fd, std::vector<Source> others = {});

  // Accepts, and sees connections off, until EndServing(), which may have come before. Then Stop().
  void Serve();
  void EndServing();

  // Closes all connections, with one deadline for all: calls that are running have `within` to end,
  // then they are cancelled. Again is fine.
  void Stop(absl::Duration within);

  // Accepted and not yet closed and freed.
  int connections() const;
  // Closed at once: a foreign uid, or too many.
  std::int64_t refused() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_TRANSPORT_H_
