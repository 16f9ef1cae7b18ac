// stageloadctl daemon: start, stop, status of the background program.
#include <fcntl.h>
#include <sys/file.h>
#include <time.h>

#include <cerrno>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/autostart.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kStopTimeout = absl::Seconds(30);

// Of the daemon that runs; Unavailable when none does.
absl::StatusOr<Connection> ConnectToRunning(const Invocation& invocation) {
  ConnectOptions connect = invocation.connect;
  connect.autostart = false;
  return Connect(connect);
}

bool NotRunning(const absl::StatusOr<Connection>& connection) {
  return !connection.ok() && ExitCodeOf(connection.status()) == kExitNoDaemon;
}

std::string Described(const Connection& connection) {
  return absl::StrCat("stageloadd ", std::string(connection.version.version()), ", pid ",
                      connection.version.pid(), ", at ", connection.socket,
                      connection.version.dry_run() ? "; a dry run: it stops nobody" : "");
}

Json DaemonJson(bool running, const absl::StatusOr<Connection>& connection,
                const std::string& socket) {
  return Json{{"running", running},
              {"socket", socket},
              {"daemon", running ? ToJson(connection->version) : Json()}};
}

int Start(const Invocation& invocation) {
  absl::StatusOr<Connection> connection = ConnectToRunning(invocation);
  if (connection.ok()) {
    return Out(absl::StrCat("already running: ", Described(*connection), "\n")) ? kExitOk
                                                                                : kExitOther;
  }
  if (!NotRunning(connection)) return Fail(connection.status());
  const absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return Fail(paths.status());
  const absl::StatusOr<UniqueFd> answered = StartDaemon(*paths, {});
  if (!answered.ok()) return Fail(answered.status());
  connection = ConnectToRunning(invocation);
  if (!connection.ok()) return Fail(connection.status());
  return Out(absl::StrCat("started: ", Described(*connection), "\n")) ? kExitOk : kExitOther;
}

// A daemon holds its lock until its last write is done.
absl::Status AwaitLockFree(const std::string& lock, int pid) {
  const absl::Time begin = absl::Now();
  while (absl::Now() - begin < kStopTimeout) {
    {
      const UniqueFd fd(open(lock.c_str(), O_RDONLY | O_CLOEXEC));
      if (!fd.valid() && errno == ENOENT) return absl::OkStatus();
      if (fd.valid() && flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return absl::OkStatus();
    }
    const timespec pause{0, 10'000'000};
    nanosleep(&pause, nullptr);
  }
  return absl::DeadlineExceededError(absl::StrCat("the daemon (pid ", pid, ") still holds ", lock,
                                                  " after ", FormatSpan(kStopTimeout)));
}

int Stop(const Invocation& invocation) {
  const absl::StatusOr<Connection> connection = ConnectToRunning(invocation);
  if (NotRunning(connection)) return Out("not running\n") ? kExitOk : kExitOther;
  if (!connection.ok()) return Fail(connection.status());
  const absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return Fail(paths.status());
  grpc::ClientContext context;
  SetTimeout(context);
  v1::ShutdownResponse response;
  const absl::Status status = FromGrpc(v1::AdminService::NewStub(connection->channel)
                                           ->Shutdown(&context, v1::ShutdownRequest(), &response));
  // It may have gone before its answer came through.
  if (!status.ok() && !absl::IsUnavailable(status)) return Fail(status);
  const int pid = connection->version.pid();
  if (absl::Status free = AwaitLockFree(paths->lock, pid); !free.ok()) return Fail(free);
  return Out(absl::StrCat("stopped: pid ", pid, "; jobs run on\n")) ? kExitOk : kExitOther;
}

int Status(const Invocation& invocation, bool json) {
  const absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return Fail(paths.status());
  const absl::StatusOr<Connection> connection = ConnectToRunning(invocation);
  if (!connection.ok() && !NotRunning(connection)) return Fail(connection.status());
  const bool running = connection.ok();
  const std::string text = json      ? Document(DaemonJson(running, connection, paths->socket))
                           : running ? absl::StrCat("running: ", Described(*connection), "\n")
                                     : "not running\n";
  if (!Out(text)) return kExitOther;
  return running ? kExitOk : kExitNoDaemon;
}

}  // namespace

void AddDaemon(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("daemon", "start, stop or look at the background program");
  command->require_subcommand(1);
  command->fallthrough();
  CLI::App* start = command->add_subcommand("start", "start it and wait until it answers");
  start->fallthrough()->callback(
      [&invocation] { invocation.action = [&invocation] { return Start(invocation); }; });
  CLI::App* stop = command->add_subcommand("stop", "end it; jobs run on");
  stop->fallthrough()->callback(
      [&invocation] { invocation.action = [&invocation] { return Stop(invocation); }; });
  CLI::App* status = command->add_subcommand("status", "whether it runs; exits 69 when not");
  const auto json = std::make_shared<bool>(false);
  status->add_flag("--json", *json,
                   "one document: {\"running\": ..., \"socket\": ..., \"daemon\": ...}");
  status->fallthrough()->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Status(invocation, *json); };
  });
}

}  // namespace stageload::ctl
