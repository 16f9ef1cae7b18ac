// One thread waits for the listener, for a pipe that ends it, for what else is given to it, and for
// every connection. A connection whose client hung up goes to the reaper.
#include "daemon/rpc/transport.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <grpcpp/resource_quota.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/rpc/connection.h"
#include "daemon/rpc/readiness.h"
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
  ~Impl();

  absl::Status Start(int listening_fd, std::vector<Source> others);
  void Serve();
  void EndServing();
  void Stop(absl::Duration within);
  int connections() const { return connections_; }
  std::int64_t refused() const { return refused_; }

 private:
  using Token = std::uint64_t;
  // Then one for each of others_, then one for each connection that ever was.
  enum : Token { kEnd, kListener, kFirstOther };

  void Visit(const Readiness::Ready& ready, Clock::time_point now);
  std::optional<absl::Duration> WaitAtMost(Clock::time_point now) const;
  void AcceptAll(Clock::time_point now);
  void AcceptOne(int fd, Clock::time_point now);
  void AcceptAgain(Clock::time_point now);
  bool Allowed(uid_t uid) const;
  // Whether the connection goes on.
  bool Speaks(Token token, Connection& connection);
  void CutOffSilent(Clock::time_point now);
  void Leave(Token token, std::chrono::system_clock::time_point deadline);

  const Options options_;
  const uid_t own_uid_ = ::geteuid();
  grpc::ResourceQuota quota_{"stageload"};
  std::atomic<int> connections_ = 0;
  std::atomic<std::int64_t> refused_ = 0;
  std::optional<Reaper> reaper_;
  int end_[2] = {-1, -1};

  // Of the thread in Serve(); of Stop() after that.
  std::optional<Readiness> readiness_;
  int listener_ = -1;
  std::vector<Source> others_;
  bool serving_ = true;
  Token next_ = kFirstOther;
  std::map<Token, std::unique_ptr<Connection>> open_;
  std::size_t silent_ = 0;  // of open_, have not spoken yet
  Clock::time_point look_for_silent_{};
  std::optional<Clock::time_point> accept_again_;  // when the listener is not waited for
};

Transport::Impl::~Impl() {
  Stop(absl::ZeroDuration());
  for (const int end : end_) {
    if (end >= 0) ::close(end);
  }
}

absl::Status Transport::Impl::Start(int listening_fd, std::vector<Source> others) {
  if (reaper_) return absl::FailedPreconditionError("the transport was started before");
  if (::pipe(end_) != 0) return absl::ErrnoToStatus(errno, "make a pipe to end the transport");
  static_cast<void>(SetFlags(end_[0]));
  static_cast<void>(SetFlags(end_[1]));
  RaiseFileLimit();
  absl::StatusOr<Readiness> readiness = Readiness::Create();
  if (!readiness.ok()) return readiness.status();
  readiness_.emplace(*std::move(readiness));
  listener_ = listening_fd;
  others_ = std::move(others);
  absl::Status added = readiness_->Add(end_[0], Readiness::Of::kInput, kEnd);
  added.Update(readiness_->Add(listener_, Readiness::Of::kInput, kListener));
  for (const Source& other : others_) {
    added.Update(readiness_->Add(other.descriptor, Readiness::Of::kInput, next_++));
  }
  if (added.ok()) reaper_.emplace([this] { --connections_; });
  return added;
}

void Transport::Impl::Serve() {
  while (serving_) {
    const std::vector<Readiness::Ready> all = readiness_->Wait(WaitAtMost(Clock::now()));
    const Clock::time_point now = Clock::now();
    for (const Readiness::Ready& ready : all) Visit(ready, now);
    if (silent_ > 0 && now >= look_for_silent_) CutOffSilent(now);
    if (accept_again_ && now >= *accept_again_) AcceptAgain(now);
  }
}

void Transport::Impl::EndServing() {
  static_cast<void>(!::write(end_[1], "", 1));  // a pipe that is full is as good
}

void Transport::Impl::Stop(absl::Duration within) {
  if (!reaper_) return;
  const auto deadline = absl::ToChronoTime(absl::Now() + within);
  while (!open_.empty()) Leave(open_.begin()->first, deadline);
  reaper_->Finish();
}

void Transport::Impl::Visit(const Readiness::Ready& ready, Clock::time_point now) {
  if (ready.token == kEnd) {
    serving_ = false;
  } else if (ready.token == kListener) {
    AcceptAll(now);
  } else if (ready.token < kFirstOther + others_.size()) {
    others_[static_cast<std::size_t>(ready.token - kFirstOther)].on_input();
  } else if (const auto found = open_.find(ready.token); found != open_.end()) {
    if (ready.hung_up || !Speaks(ready.token, *found->second)) {
      Leave(ready.token, std::chrono::system_clock::now());
    }
  }
}

std::optional<absl::Duration> Transport::Impl::WaitAtMost(Clock::time_point now) const {
  std::optional<Clock::time_point> until = accept_again_;
  if (silent_ > 0) until = std::min(until.value_or(look_for_silent_), look_for_silent_);
  if (!until) return std::nullopt;
  return absl::FromChrono(std::max(*until - now, Clock::duration::zero()));
}

void Transport::Impl::AcceptAll(Clock::time_point now) {
  while (true) {
    const int fd = Accept(listener_);
    if (fd >= 0) {
      AcceptOne(fd, now);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      // Out of descriptors or memory: the listener keeps its input, so asking again at once would
      // only burn the CPU.
      readiness_->Remove(listener_);
      accept_again_ = now + kAcceptPause;
      return;
    }
  }
}

void Transport::Impl::AcceptAgain(Clock::time_point now) {
  accept_again_.reset();
  if (readiness_->Add(listener_, Readiness::Of::kInput, kListener).ok()) return;
  accept_again_ = now + kAcceptPause;
}

void Transport::Impl::AcceptOne(int fd, Clock::time_point now) {
  const auto peer = PeerOf(fd);
  if (!peer.ok() || !Allowed(peer->uid) || connections_ >= options_.max_connections ||
      !readiness_->Add(fd, Readiness::Of::kInput, next_).ok()) {
    ++refused_;
    ::close(fd);
    return;
  }
  ++connections_;
  if (silent_++ == 0) look_for_silent_ = now + kSilenceCheck;
  open_.emplace(next_++, std::make_unique<Connection>(
                             fd, *peer, now + absl::ToChronoMilliseconds(options_.silence)));
}

bool Transport::Impl::Allowed(uid_t uid) const {
  const auto& allowed = options_.allowed_uids;
  return uid == own_uid_ || std::find(allowed.begin(), allowed.end(), uid) != allowed.end();
}

bool Transport::Impl::Speaks(Token token, Connection& connection) {
  // In HTTP/2 the client speaks first (RFC 9113, 3.4); until then it costs no server.
  readiness_->Remove(connection.fd());
  if (!connection.Serve(options_.services(connection.peer()), quota_)) return false;
  --silent_;
  return readiness_->Add(connection.fd(), Readiness::Of::kHangUp, token).ok();
}

void Transport::Impl::CutOffSilent(Clock::time_point now) {
  look_for_silent_ = now + kSilenceCheck;
  for (auto next = open_.begin(); next != open_.end();) {
    const auto [token, connection] = std::pair(next->first, next->second.get());
    ++next;
    if (!connection->serving() && now >= connection->silent_until()) {
      Leave(token, std::chrono::system_clock::now());
    }
  }
}

void Transport::Impl::Leave(Token token, std::chrono::system_clock::time_point deadline) {
  const auto found = open_.find(token);
  if (!found->second->serving()) --silent_;
  readiness_->Remove(found->second->fd());
  reaper_->Take(std::move(found->second), deadline);
  open_.erase(found);
}

Transport::Transport(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Transport::~Transport() = default;
absl::Status Transport::Start(int listening_fd, std::vector<Source> others) {
  return impl_->Start(listening_fd, std::move(others));
}
void Transport::Serve() { impl_->Serve(); }
void Transport::EndServing() { impl_->EndServing(); }
void Transport::Stop(absl::Duration within) { impl_->Stop(within); }
int Transport::connections() const { return impl_->connections(); }
std::int64_t Transport::refused() const { return impl_->refused(); }

}  // namespace stageload::rpc
