#include "daemon/rpc/connection.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <climits>
#include <utility>

namespace stageload::rpc {
namespace {

constexpr int kMaxMessageBytes = 4 << 20;

}  // namespace

Connection::Connection(int fd, Peer peer, Clock::time_point silent_until)
    : peer_(peer), silent_until_(silent_until), fd_(fd) {}

Connection::~Connection() { ::close(fd_); }

bool Connection::Serve(ServiceObjects services, const grpc::ResourceQuota& quota) {
  // gRPC closes the descriptor when it likes, so only a duplicate can be watched safely.
  const int watched = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (watched < 0) return false;
  grpc::ServerBuilder builder;
  if (services.generic) builder.RegisterCallbackGenericService(services.generic.get());
  for (const auto& service : services.registered) builder.RegisterService(service.get());
  builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
  builder.SetResourceQuota(quota);
  // A peer on the same machine cannot vanish without a hang-up, and one that is stopped (Ctrl-Z, a
  // sleeping laptop) answers no ping but is well: never ping, and take any ping from a client.
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
  // A connection's share of memory: clients of ours send the same few headers, and nobody asks gRPC
  // what channels it has.
  builder.AddChannelArgument(GRPC_ARG_HTTP2_HPACK_TABLE_SIZE_DECODER, 512);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 0);
  auto server = builder.BuildAndStart();
  if (server == nullptr) {
    ::close(watched);
    return false;
  }
  services_ = std::move(services);
  server_ = std::move(server);
  grpc::AddInsecureChannelFromFd(server_.get(), std::exchange(fd_, watched));
  return true;
}

void Connection::Shutdown(std::chrono::system_clock::time_point deadline) {
  if (server_ != nullptr) server_->Shutdown(deadline);
}

}  // namespace stageload::rpc
