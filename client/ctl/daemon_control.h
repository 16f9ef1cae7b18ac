// What the `daemon` commands share: the one that runs, and its end.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_DAEMON_CONTROL_H_
#define STAGELOAD_CLIENT_CTL_DAEMON_CONTROL_H_

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/paths.h"
#include "client/ctl/connection.h"
#include "client/ctl/installation.h"
#include "client/ctl/invocation.h"

namespace stageload::ctl {

#ifdef __APPLE__
inline constexpr Platform kOwnPlatform = Platform::kMacos;
#else
inline constexpr Platform kOwnPlatform = Platform::kLinux;
#endif

// Nothing when none runs.
absl::StatusOr<std::optional<Connection>> Running(const ConnectOptions& connect,
                                                  absl::Duration within = client::kAnswerWithin);
// "stageloadd 0.2.0, pid 7, at /run/...".
std::string Described(const Connection& connection);
// "launchd", "systemd", "a client", "a user"; empty of a daemon that does not say.
std::string StarterOf(const v1::GetVersionResponse& daemon);

// Tells it to leave and waits until it has; jobs run on.
absl::Status StopDaemon(const Connection& connection);

// Whether the program of `service`, or where that is null the one that a client would start, is a
// stageloadd that runs. FailedPrecondition with what to do when not.
absl::Status CheckProgram(const Installation* service);
// The same, and whether a daemon could start by it with the config as it is: asked before one that
// runs is ended. FailedPrecondition with stageloadd's own words when not.
absl::Status CheckStart(const Installation* service);

// The service's daemon, when `installation` was loaded or restarted: another process than
// `before`. Else why it does not answer, with what it has said.
absl::StatusOr<Connection> AwaitService(const ConnectOptions& connect,
                                        const Installation& installation, int before);

// `install` and `uninstall`, in daemon_install.cc.
void AddInstall(CLI::App& command, Invocation& invocation);
// --platform, for looking at what is written elsewhere.
void AddPlatform(CLI::App& command, Platform& platform);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DAEMON_CONTROL_H_
