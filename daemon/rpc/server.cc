#include "daemon/rpc/server.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "daemon/rpc/connection.h"
#include "daemon/rpc/open_streams.h"
#include "daemon/rpc/services.h"
#include "daemon/rpc/transport.h"

namespace stageload::rpc {
namespace {

// For answers that are on their way when all streams have ended. More would be spent in full on
// each client that is connected, has nothing to ask, and so does not look at its socket.
constexpr absl::Duration kLastAnswers = absl::Milliseconds(200);

}  // namespace

class Server::Impl {
 public:
  explicit Impl(Parts parts) : parts_(std::move(parts)), transport_(TransportOptions()) {}

  absl::Status Start(int fd, std::vector<Transport::Source> others) {
    return transport_.Start(fd, std::move(others));
  }
  void Serve() { transport_.Serve(); }
  void EndServing() { transport_.EndServing(); }
  void Stop(absl::Duration within) {
    streams_.EndAll(
        WithReason(absl::UnavailableError("the daemon is shutting down"), kShuttingDown));
    const absl::Time deadline = absl::Now() + within;
    streams_.AwaitNone(within);
    transport_.Stop(std::clamp(deadline - absl::Now(), absl::ZeroDuration(), kLastAnswers));
  }

 private:
  Transport::Options TransportOptions() {
    Transport::Options options;
    options.services = [this](const Peer& peer) {
      return ServiceObjects{.generic = MakeServices(parts_, peer, streams_), .registered = {}};
    };
    return options;
  }

  const Parts parts_;
  OpenStreams streams_;
  Transport transport_;  // first to go
};

Server::Server(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
Server::~Server() = default;

absl::Status Server::Start(const ListeningSocket& socket, std::vector<Transport::Source> others) {
  return impl_->Start(socket.fd(), std::move(others));
}
void Server::Serve() { impl_->Serve(); }
void Server::EndServing() { impl_->EndServing(); }
void Server::Stop(absl::Duration within) { impl_->Stop(within); }

}  // namespace stageload::rpc
