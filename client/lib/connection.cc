// Dials, starts a daemon if need be, and asks who it is.
#include "client/lib/connection.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <fstream>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "base/socket_file.h"
#include "base/text.h"
#include "client/lib/autostart.h"
#include "client/lib/lock_holder.h"
#include "client/lib/status.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::client {
namespace {

// A daemon that leaves because it was idle may take a connection with it.
constexpr int kConnectTries = 3;
constexpr absl::Duration kReconnectPause = absl::Milliseconds(100);

absl::StatusOr<UniqueFd> NewSocket() {
#ifdef SOCK_CLOEXEC
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
#else
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM, 0));
#endif
  if (!fd.valid()) return absl::ErrnoToStatus(errno, "make a Unix socket");
#ifndef SOCK_CLOEXEC
  (void)fcntl(fd.get(), F_SETFD, FD_CLOEXEC);
  // gRPC leaves a descriptor that it is given as it is: non-blocking is ours to set.
  (void)fcntl(fd.get(), F_SETFL, O_NONBLOCK);
#endif
#ifdef SO_NOSIGPIPE
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_NOSIGPIPE, &on, sizeof on);
#endif
  return fd;
}

// gRPC does not live through a fork without an exec: its threads are the parent's alone, and what
// the child does with its descriptors breaks the parent.
absl::Status CheckNotForked() {
  static const pid_t first = getpid();
  if (getpid() == first) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError("this process was forked from one that talks to the daemon; "
                                    "execute a program in it, or fork before the first connection"),
      "FORKED");
}

std::shared_ptr<grpc::Channel> ChannelOver(UniqueFd fd) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);  // a page of a thousand jobs may pass 4 MiB
  return grpc::CreateCustomInsecureChannelFromFd("localhost", fd.Release(), arguments);
}

absl::StatusOr<UniqueFd> DialOrStart(const Paths& paths, bool autostart) {
  absl::StatusOr<UniqueFd> fd = Dial(paths.socket);
  if (fd.ok() || !absl::IsNotFound(fd.status())) return fd;
  if (absl::Status status = CheckNotElsewhere(paths); !status.ok()) return status;
  if (!autostart) {
    return absl::UnavailableError(absl::StrCat("no daemon answers at ", paths.socket,
                                               "; start one with `stageloadctl daemon start`"));
  }
  return StartDaemon(paths, {"--idle-exit", "10m", "--autostarted"});
}

absl::StatusOr<v1::GetVersionResponse> AskVersion(const std::shared_ptr<grpc::Channel>& channel,
                                                  const ConnectOptions& options,
                                                  absl::Duration within) {
  grpc::ClientContext context;
  SetTimeout(context, within);
  std::optional<Interrupt::Call> call;
  if (options.interrupt != nullptr) call.emplace(*options.interrupt, context);
  v1::GetVersionResponse response;
  const grpc::Status status =
      v1::AdminService::NewStub(channel)->GetVersion(&context, v1::GetVersionRequest(), &response);
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return NotAnswered(options.answer_within);
  }
  // A daemon that is leaving ends its calls so.
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError("the daemon went away");
  }
  if (!status.ok()) return FromGrpc(status);
  return response;
}

// Asks once more where the first answer is late and somebody wants to know that: no thread for it.
absl::StatusOr<v1::GetVersionResponse> AwaitVersion(const std::shared_ptr<grpc::Channel>& channel,
                                                    const ConnectOptions& options) {
  if (!options.on_silence || options.answer_within <= kLateWithin) {
    return AskVersion(channel, options, options.answer_within);
  }
  absl::StatusOr<v1::GetVersionResponse> version = AskVersion(channel, options, kLateWithin);
  if (!absl::IsDeadlineExceeded(version.status())) return version;
  options.on_silence(options.answer_within);
  return AskVersion(channel, options, options.answer_within - kLateWithin);
}

// " (pid 412, nc)": of who has called listen(2), as far as the kernel tells.
std::string ListenerAt(const std::string& path) {
  const absl::StatusOr<UniqueFd> fd = Dial(path);
  if (!fd.ok()) return "";
#ifdef SO_PEERCRED
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(fd->get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.pid <= 0) return "";
  std::string name;
  std::getline(std::ifstream(absl::StrCat("/proc/", peer.pid, "/comm")), name);
  return absl::StrCat(" (pid ", peer.pid, name.empty() ? "" : ", ", name, ")");
#else
  pid_t pid = 0;
  socklen_t size = sizeof pid;
  if (getsockopt(fd->get(), SOL_LOCAL, LOCAL_PEERPID, &pid, &size) != 0 || pid <= 0) return "";
  return absl::StrCat(" (pid ", pid, ")");
#endif
}

// Each stageloadd has answered GetVersion from the first on, and is named in the lock of its home.
// The listener of a service's socket is systemd or launchd, which have no daemon there while one is
// starting.
absl::Status UnlessOurs(const Paths& paths, const absl::Status& status) {
  if (!ReasonOf(status).empty()) return status;
  const bool speaks_otherwise =
      absl::IsUnimplemented(status) ||
      absl::StrContains(std::string(status.message()), "http1");  // gRPC's word
  if (!speaks_otherwise && (!absl::IsUnavailable(status) || HolderLives(paths.lock))) return status;
  const std::string listener = ListenerAt(paths.socket);
  if (listener.empty() || absl::StrContains(listener, "(pid 1,") ||
      absl::StrContains(listener, ", systemd") || absl::StrContains(listener, ", launchd")) {
    return status;
  }
  const std::string text = absl::StrCat(
      "what listens at ", paths.socket, listener,
      " is no stageloadd: it does not speak its protocol; end it, or set another STAGELOAD_SOCKET");
  return absl::IsUnavailable(status) ? absl::UnavailableError(text)
                                     : absl::FailedPreconditionError(text);
}

}  // namespace

absl::StatusOr<Paths> PathsFor(const ConnectOptions& options) {
  const Environment environment = ProcessEnvironment();
  if (options.socket.empty()) return ResolvePaths(environment);
  std::string socket = options.socket;
  if (socket.front() != '/') {
    char folder[PATH_MAX];
    if (getcwd(folder, sizeof folder) == nullptr) {
      return absl::ErrnoToStatus(errno, "read the working directory");
    }
    socket = absl::StrCat(folder, "/", socket);
  }
  return ResolvePaths([&](const std::string& name) -> std::optional<std::string> {
    return name == "STAGELOAD_SOCKET" ? std::optional(socket) : environment(name);
  });
}

bool AutostartForbidden() {
  const std::string value = ProcessEnvironment()("STAGELOAD_NO_AUTOSTART").value_or("");
  return !value.empty() && value != "0";
}

absl::StatusOr<UniqueFd> Dial(const std::string& path) {
  if (absl::Status status = CheckSocketPath(path); !status.ok()) return status;
  absl::StatusOr<UniqueFd> fd = NewSocket();
  if (!fd.ok()) return fd;
  const sockaddr_un address = SocketAddress(path);
  int error = 0;
  for (int tries = 0; tries < 1000; ++tries) {
    if (connect(fd->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      return fd;
    }
    error = errno;
    if (error == ENOENT || error == ENOTDIR || (error == ECONNREFUSED && !SocketLives(path))) {
      return absl::NotFoundError(absl::StrCat("no daemon answers at ", path));
    }
    // The queue of waiting connections is full, as when a hundred clients come at once: EAGAIN on
    // Linux, ECONNREFUSED of a socket that lives on macOS.
    if (error != EAGAIN && error != ECONNREFUSED && error != EINTR) break;
    const timespec pause{0, 5'000'000};
    nanosleep(&pause, nullptr);
  }
  if (error == EAGAIN || error == ECONNREFUSED) {
    return absl::UnavailableError(absl::StrCat("the queue of connections that wait at ", path,
                                               " has been full for 5s; try again"));
  }
  return absl::ErrnoToStatus(error, absl::StrCat("connect to ", path));
}

absl::StatusOr<Connection> Connect(const ConnectOptions& options) {
  if (absl::Status status = CheckNotForked(); !status.ok()) return status;
  const absl::StatusOr<Paths> paths = PathsFor(options);
  if (!paths.ok()) return paths.status();
  for (int tries = 1;; ++tries) {
    absl::StatusOr<UniqueFd> fd = DialOrStart(*paths, options.autostart);
    if (!fd.ok()) return fd.status();
    Connection connection;
    connection.channel = ChannelOver(*std::move(fd));
    connection.socket = paths->socket;
    connection.options = options;
    absl::StatusOr<v1::GetVersionResponse> version = AwaitVersion(connection.channel, options);
    if (version.ok()) {
      if (options.on_answer) options.on_answer(*version);
      connection.version = *std::move(version);
      return connection;
    }
    if (tries == kConnectTries || !absl::IsUnavailable(version.status()) ||
        ReasonOf(version.status()) == kPeerRefused) {
      return UnlessOurs(*paths, version.status());
    }
  }
}

bool WentAway(const absl::Status& status) {
  return absl::IsUnavailable(status) && ReasonOf(status).empty();
}

bool DaemonIsGone(const absl::Status& status) {
  if (absl::IsUnavailable(status) && ReasonOf(status) == kShuttingDown) return true;
  // Who cancels a call of ours but ourselves is a server that is being taken down.
  return WentAway(status) || (absl::IsCancelled(status) && ReasonOf(status).empty());
}

bool NoneAnswers(const absl::Status& status) {
  return DaemonIsGone(status) || (absl::IsDeadlineExceeded(status) && ReasonOf(status).empty());
}

absl::Status NotAnswered(absl::Duration within) {
  return absl::DeadlineExceededError(absl::StrCat("the daemon has not answered within ",
                                                  FormatSpan(within),
                                                  "; `stageloadctl doctor` says more"));
}

absl::StatusOr<Connection> Reconnect(const Connection& lost) {
  const absl::Time give_up = absl::Now() + kReconnectWithin;
  for (;;) {
    absl::StatusOr<Connection> connection = Connect(lost.options);
    if (connection.ok() || absl::Now() > give_up) return connection;
    absl::SleepFor(kReconnectPause);
  }
}

void SetTimeout(grpc::ClientContext& context, absl::Duration timeout) {
  // Its clock counts nanoseconds, which a timeout of centuries would not fit into.
  constexpr absl::Duration kLongest = absl::Hours(24 * 365 * 10);
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(std::min(timeout, kLongest)));
}

}  // namespace stageload::client
