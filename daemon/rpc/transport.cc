#include "daemon/rpc/transport.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace stageload::rpc {
namespace {

constexpr int kMaxMessageBytes = 4 * 1024 * 1024;
constexpr rlim_t kDescriptors = 8192;     // two for each connection, and the rest
constexpr int kNoDescriptorRestMs = 100;  // before accepting again after EMFILE
constexpr std::chrono::milliseconds kReapWithin{100};
constexpr std::size_t kWave = 16;             // connections gone before memory is given back
constexpr int kKeepaliveMs = 20 * 60 * 1000;  // asks a silent client for a sign of life

// One connection: its server, the services in it, and a second descriptor to see it hang up by.
struct Connection {
  // A client that reads the hang-up must not wait for us to notice it too, so gRPC owns the first.
  int watched = -1;
  std::vector<std::unique_ptr<grpc::Service>> services;  // outlive the server
  std::unique_ptr<grpc::Server> server;

  ~Connection() {
    server.reset();
    if (watched >= 0) close(watched);
  }
};

bool SetFlags(int fd) {
  return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kDescriptors) return;
  limit.rlim_cur = std::min(kDescriptors, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // fails at worst; the cap then comes from accept()
}

std::chrono::system_clock::time_point After(std::chrono::milliseconds duration) {
  return std::chrono::system_clock::now() + duration;
}

}  // namespace

class Transport::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {
    // Held for our life, so that gRPC's threads survive a moment without any connection.
    grpc_init();
    quota_ = std::make_unique<grpc::ResourceQuota>("stageloadd");
  }
  ~Impl() {
    Stop(absl::ZeroDuration());
    quota_.reset();
    grpc_shutdown();
  }

  absl::Status Start(int listening_fd) {
    RaiseDescriptorLimit();
    listener_ = listening_fd;
    if (pipe(wake_) != 0) {
      return absl::ResourceExhaustedError(absl::StrCat("make a pipe: ", std::strerror(errno)));
    }
    SetFlags(wake_[0]);
    SetFlags(wake_[1]);
    running_ = true;
    accepter_ = std::thread([this] { AcceptLoop(); });
    reaper_ = std::thread([this] { ReapLoop(); });
    return absl::OkStatus();
  }

  void Stop(absl::Duration within) {
    if (!std::exchange(running_, false)) return;
    stopping_ = true;
    const char byte = 0;
    while (write(wake_[1], &byte, 1) < 0 && errno == EINTR) {
    }
    accepter_.join();
    CloseAll(within);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      reap_more_.notify_all();
    }
    reaper_.join();
    close(wake_[0]);
    close(wake_[1]);
  }

  int connections() const { return count_; }

 private:
  // ---- The accepter's thread ----

  void AcceptLoop() {
    while (!stopping_) {
      std::vector<pollfd> polled = {{wake_[0], POLLIN, 0}, {resting_ ? -1 : listener_, POLLIN, 0}};
      for (const auto& connection : connections_) polled.push_back({connection->watched, 0, 0});
      const int ready = poll(polled.data(), static_cast<nfds_t>(polled.size()),
                             resting_ ? kNoDescriptorRestMs : -1);
      resting_ = false;
      if (ready < 0 && errno != EINTR) resting_ = true;  // out of memory: not faster than this
      if (ready <= 0) continue;
      SendToReaper(polled);
      if ((polled[1].revents & POLLIN) != 0) AcceptAll();
    }
  }

  // Those whose peer has hung up, or that gRPC has shut down.
  void SendToReaper(const std::vector<pollfd>& polled) {
    std::vector<std::unique_ptr<Connection>> staying;
    std::deque<std::unique_ptr<Connection>> gone;
    for (std::size_t i = 0; i < connections_.size(); ++i) {
      if (polled[i + 2].revents != 0) {
        gone.push_back(std::move(connections_[i]));
      } else {
        staying.push_back(std::move(connections_[i]));
      }
    }
    connections_ = std::move(staying);
    if (gone.empty()) return;
    count_ -= static_cast<int>(gone.size());
    const std::lock_guard<std::mutex> lock(mutex_);
    std::move(gone.begin(), gone.end(), std::back_inserter(to_reap_));
    reap_more_.notify_one();
  }

  void AcceptAll() {
    while (true) {
      const int fd = accept(listener_, nullptr, nullptr);
      if (fd >= 0) {
        Admit(fd);
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      resting_ = errno != EAGAIN && errno != EWOULDBLOCK;  // EMFILE, ENFILE, ENOBUFS, ENOMEM
      return;
    }
  }

  void Admit(int fd) {
    const absl::StatusOr<Peer> peer = PeerOf(fd);
    const bool welcome = peer.ok() && IsAllowed(peer->uid) && SetFlags(fd) &&
                         static_cast<int>(connections_.size()) < options_.max_connections;
    const int watched = welcome ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (watched < 0) {
      close(fd);
      return;
    }
    auto connection = std::make_unique<Connection>();
    connection->watched = watched;
    connection->services = options_.services(*peer);
    connection->server = BuildServer(connection->services);
    if (connection->server == nullptr) {
      close(fd);
      return;
    }
    grpc::AddInsecureChannelFromFd(connection->server.get(), fd);  // owns and closes it
    connections_.push_back(std::move(connection));
    ++count_;
  }

  bool IsAllowed(uid_t uid) const {
    return uid == geteuid() || std::find(options_.allowed_uids.begin(), options_.allowed_uids.end(),
                                         uid) != options_.allowed_uids.end();
  }

  std::unique_ptr<grpc::Server> BuildServer(
      const std::vector<std::unique_ptr<grpc::Service>>& services) {
    grpc::ServerBuilder builder;
    for (const auto& service : services) builder.RegisterService(service.get());
    builder.SetResourceQuota(*quota_);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
    return builder.BuildAndStart();
  }

  // ---- The reaper's thread ----

  void ReapLoop() {
    std::size_t reaped = 0;
    while (true) {
      std::deque<std::unique_ptr<Connection>> gone;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        reap_more_.wait(lock, [this] { return stopping_ || !to_reap_.empty(); });
        gone = std::exchange(to_reap_, {});
        if (gone.empty()) return;
      }
      // One deadline for all: the first may use it up, the others then end at once.
      Shutdown(gone, kReapWithin);
      reaped += gone.size();
      gone.clear();
      if (reaped >= kWave) {
        reaped = 0;
        GiveMemoryBack();
      }
    }
  }

  template <typename Connections>
  static void Shutdown(Connections& connections, std::chrono::milliseconds within) {
    const auto deadline = After(within);
    for (const auto& connection : connections) connection->server->Shutdown(deadline);
  }

  // glibc keeps what a wave of connections took (measured: 64 MB after four of 1,000, 25 after
  // this).
  static void GiveMemoryBack() {
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
  }

  // ---- Stop() ----

  void CloseAll(absl::Duration within) {
    Shutdown(connections_, std::chrono::milliseconds(absl::ToInt64Milliseconds(within)));
    connections_.clear();
    count_ = 0;
  }

  const Options options_;
  std::unique_ptr<grpc::ResourceQuota> quota_;
  int listener_ = -1;
  int wake_[2] = {-1, -1};
  bool running_ = false;
  bool resting_ = false;  // the accepter's: the listener is left alone for a moment
  std::atomic<bool> stopping_ = false;
  std::atomic<int> count_ = 0;
  std::vector<std::unique_ptr<Connection>> connections_;  // the accepter's, then Stop()'s
  std::mutex mutex_;
  std::condition_variable reap_more_;
  std::deque<std::unique_ptr<Connection>> to_reap_;
  std::thread accepter_;
  std::thread reaper_;
};

Transport::Transport(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Transport::~Transport() = default;

absl::Status Transport::Start(int listening_fd) { return impl_->Start(listening_fd); }
void Transport::Stop(absl::Duration within) { impl_->Stop(within); }
int Transport::connections() const { return impl_->connections(); }

}  // namespace stageload::rpc
