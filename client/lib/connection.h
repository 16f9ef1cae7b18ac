// The way to the daemon: one connected socket, one channel over it.
//
// The socket is connected by us and handed to gRPC: that takes a millisecond off every command,
// tells "no daemon" (start one) from every other error, and needs no resolver or load balancer.
//
// Threading: Connect before threads that need the environment; a Connection may be used from any
// thread.
#ifndef STAGELOAD_CLIENT_LIB_CONNECTION_H_
#define STAGELOAD_CLIENT_LIB_CONNECTION_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/paths.h"
#include "client/lib/interrupt.h"
#include "client/lib/unique_fd.h"
#include "stageload/v1/admin_service.pb.h"

namespace stageload::client {

// How long a call that only asks or tells may take.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(30);
// How long a daemon may take to say who it is. One that says nothing is not one to wait for. But
// launchd holds the socket of one that it starts again, and may let 10 s pass between two starts
// (launchd.plist(5), ThrottleInterval).
inline constexpr absl::Duration kAnswerWithin = absl::Seconds(15);
// The same once it has said that, in calls of a library: a program does not stand still because
// the machine is deep in swap and the daemon with it.
inline constexpr absl::Duration kLateWithin = absl::Seconds(2);
// How long the next daemon is waited for when one went away.
inline constexpr absl::Duration kReconnectWithin = absl::Seconds(10);

struct ConnectOptions {
  std::string socket;     // --socket; empty is the environment's
  bool autostart = true;  // start a daemon when none answers
  // Told of each daemon that answers, as for saying that it is of another age.
  std::function<void(const v1::GetVersionResponse&)> on_answer;
  absl::Duration answer_within = kAnswerWithin;
  // Told when a daemon is there that has said nothing for kLateWithin, and is waited for; until
  // when in all.
  std::function<void(absl::Duration)> on_silence;
  Interrupt* interrupt = nullptr;  // cuts the wait for that answer short
};

struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  v1::GetVersionResponse version;  // of the daemon
  std::string socket;
  ConnectOptions options;  // with which it was made
};

// The paths with --socket put in, made absolute.
absl::StatusOr<Paths> PathsFor(const ConnectOptions& options);

// Whether the environment says STAGELOAD_NO_AUTOSTART.
bool AutostartForbidden();

// A connected, non-blocking socket. NotFound when nothing listens at `path`.
absl::StatusOr<UniqueFd> Dial(const std::string& path);

// Connects and asks for the version; starts a daemon first where that is wanted and needed.
// Unavailable when there is none.
absl::StatusOr<Connection> Connect(const ConnectOptions& options);

// Whether the daemon went away in the middle of a call, as in a crash; not when it said that it was
// leaving.
bool WentAway(const absl::Status& status);
// The same of a call that was not given up here, or that it says it is leaving.
bool DaemonIsGone(const absl::Status& status);
// The same, or one is there that does not answer.
bool NoneAnswers(const absl::Status& status);
// The status of that.
absl::Status NotAnswered(absl::Duration within);

// To the next daemon, after the one of `lost` went away: jobs live on, and so may who waits for
// them. Tries for 10 s, since several who wait may start one at once.
absl::StatusOr<Connection> Reconnect(const Connection& lost);

void SetTimeout(grpc::ClientContext& context, absl::Duration timeout = kCallTimeout);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_CONNECTION_H_
