// One thread polls the listener, a pipe that wakes it, and every connection. A connection whose
// client hung up goes to the reaper.
#include "daemon/rpc/transport.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <optional>
#include <thread>
#include <utility>

#include "daemon/rpc/connection.h"
#include "daemon/rpc/reaper.h"

namespace stageload::rpc {
namespace {

using Clock = Connection::Clock;

constexpr rlim_t kWantedFiles = 8192;
// Of what gRPC buffers over all connections; far more than well-behaved clients ever need.
constexpr std::size_t kQuotaBytes = std::size_t{256} << 20;
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr std::chrono::milliseconds kSilenceCheck{500};

void RaiseFileLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWantedFiles) return;
  limit.rlim_cur = std::min(limit.rlim_max, kWantedFiles);
  // If it cannot be raised, accept() says so in time; that is handled there.
  static_cast<void>(::setrlimit(RLIMIT_NOFILE, &limit));
}

bool SetFlags(int fd) {
  return ::fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 &&
         ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0;
}

// Close-on-exec and non-blocking (gRPC does not see to that), or -1 with errno.
int Accept(int listener) {
#if defined(__linux__)
  return ::accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
#else
  const int fd = ::accept(listener, nullptr, nullptr);
  if (fd < 0) return fd;
  static_cast<void>(SetFlags(fd));
#if defined(SO_NOSIGPIPE)
  const int on = 1;
  static_cast<void>(::setsockopt(fd, SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof(on)));
#endif
  return fd;
#endif
}

// gRPC stays up until the process ends, so that its threads do not come and go with connections.
// The last grpc_shutdown() is never called: after a write that had to wait for its reader it would
// block for up to 10 s (gRPC 1.51, tcp_posix.cc, run_poller).
void KeepGrpcUp() {
  static const bool up = [] {
    grpc_init();
    return true;
  }();
  static_cast<void>(up);
}

}  // namespace

class Transport::Impl {
 public:
  explicit Impl(Options options) : options_(std::move(options)) {
    KeepGrpcUp();
    quota_.Resize(kQuotaBytes);
  }
  ~Impl() { Stop(absl::ZeroDuration()); }

  absl::Status Start(int listening_fd);
  void Stop(absl::Duration within);
  int connections() const { return connections_; }
  std::int64_t refused() const { return refused_; }

 private:
  enum : std::size_t { kWake, kListener, kFirstConnection };

  void Run();
  void Poll();
  // -1 for no limit, as poll() has it.
  int PollTimeout(Clock::time_point now) const;
  void AcceptAll(Clock::time_point now);
  void AcceptOne(int fd, Clock::time_point now);
  bool Allowed(uid_t uid) const;
  // Whether connection `index` is done with.
  bool Visit(std::size_t index, Clock::time_point now);
  void Leave(std::size_t index, std::chrono::system_clock::time_point deadline);

  const Options options_;
  const uid_t own_uid_ = ::geteuid();
  grpc::ResourceQuota quota_{"stageload"};
  std::atomic<int> connections_ = 0;
  std::atomic<std::int64_t> refused_ = 0;
  std::optional<Reaper> reaper_;
  int wake_[2] = {-1, -1};
  std::thread thread_;

  // Of the accepting thread; of Stop() once that has ended.
  std::vector<pollfd> polled_;  // the wake pipe, the listener, then one for each of open_
  std::vector<std::unique_ptr<Connection>> open_;
  std::size_t silent_ = 0;  // of open_, have not spoken yet
  Clock::time_point accept_again_{};
};

absl::Status Transport::Impl::Start(int listening_fd) {
  if (reaper_) return absl::FailedPreconditionError("the transport was started before");
  if (::pipe(wake_) != 0) return absl::ErrnoToStatus(errno, "make a pipe to wake the transport");
  static_cast<void>(SetFlags(wake_[0]));
  static_cast<void>(SetFlags(wake_[1]));
  RaiseFileLimit();
  polled_ = {{wake_[0], POLLIN, 0}, {listening_fd, POLLIN, 0}};
  reaper_.emplace([this] { --connections_; });
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void Transport::Impl::Stop(absl::Duration within) {
  if (!thread_.joinable()) return;
  const auto deadline = absl::ToChronoTime(absl::Now() + within);
  static_cast<void>(!::write(wake_[1], "", 1));  // an empty pipe takes one byte
  thread_.join();
  while (!open_.empty()) Leave(open_.size() - 1, deadline);
  reaper_->Finish();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void Transport::Impl::Run() {
  while (polled_[kWake].revents == 0) Poll();
}

void Transport::Impl::Poll() {
  const Clock::time_point before = Clock::now();
  polled_[kListener].events = before < accept_again_ ? short{0} : short{POLLIN};
  if (::poll(polled_.data(), static_cast<nfds_t>(polled_.size()), PollTimeout(before)) < 0) {
    // EINTR, or a lack of memory: what revents say is from before.
    for (pollfd& one : polled_) one.revents = 0;
    if (errno != EINTR) std::this_thread::sleep_for(kAcceptPause);
    return;
  }
  if (polled_[kWake].revents != 0) return;
  const Clock::time_point now = Clock::now();
  // Backwards: the last one takes the place of one that leaves.
  for (std::size_t index = open_.size(); index-- > 0;) {
    if (Visit(index, now)) Leave(index, std::chrono::system_clock::now());
  }
  if ((polled_[kListener].revents & POLLIN) != 0) AcceptAll(now);
}

int Transport::Impl::PollTimeout(Clock::time_point now) const {
  std::optional<Clock::duration> wait;
  if (now < accept_again_) wait = accept_again_ - now;
  if (silent_ > 0) wait = std::min<Clock::duration>(wait.value_or(kSilenceCheck), kSilenceCheck);
  if (!wait) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(*wait).count());
}

void Transport::Impl::AcceptAll(Clock::time_point now) {
  while (true) {
    const int fd = Accept(polled_[kListener].fd);
    if (fd >= 0) {
      AcceptOne(fd, now);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Out of descriptors or memory: the listener stays readable, so asking again at once would
      // only burn the CPU.
      accept_again_ = now + kAcceptPause;
      return;
    }
  }
}

void Transport::Impl::AcceptOne(int fd, Clock::time_point now) {
  const auto peer = PeerOf(fd);
  if (!peer.ok() || !Allowed(peer->uid) || connections_ >= options_.max_connections) {
    ++refused_;
    ::close(fd);
    return;
  }
  ++connections_;
  ++silent_;
  open_.push_back(
      std::make_unique<Connection>(fd, *peer, now + absl::ToChronoMilliseconds(options_.silence)));
  polled_.push_back({fd, POLLIN, 0});
}

bool Transport::Impl::Allowed(uid_t uid) const {
  const auto& allowed = options_.allowed_uids;
  return uid == own_uid_ || std::find(allowed.begin(), allowed.end(), uid) != allowed.end();
}

bool Transport::Impl::Visit(std::size_t index, Clock::time_point now) {
  Connection& connection = *open_[index];
  pollfd& polled = polled_[kFirstConnection + index];
  if ((polled.revents & (POLLHUP | POLLERR | POLLNVAL)) != 0) return true;
  if (connection.serving()) return false;
  // In HTTP/2 the client speaks first (RFC 9113, 3.4); until then it costs no server.
  if ((polled.revents & POLLIN) == 0) return now >= connection.silent_until();
  if (!connection.Serve(options_.services(connection.peer()), quota_)) return true;
  --silent_;
  polled = {connection.fd(), 0, 0};  // POLLHUP comes unasked
  return false;
}

void Transport::Impl::Leave(std::size_t index, std::chrono::system_clock::time_point deadline) {
  if (!open_[index]->serving()) --silent_;
  reaper_->Take(std::move(open_[index]), deadline);
  open_[index] = std::move(open_.back());
  open_.pop_back();
  polled_[kFirstConnection + index] = polled_.back();
  polled_.pop_back();
}

Transport::Transport(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Transport::~Transport() = default;
absl::Status Transport::Start(int listening_fd) { return impl_->Start(listening_fd); }
void Transport::Stop(absl::Duration within) { impl_->Stop(within); }
int Transport::connections() const { return impl_->connections(); }
std::int64_t Transport::refused() const { return impl_->refused(); }

}  // namespace stageload::rpc
