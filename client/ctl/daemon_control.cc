#include "client/ctl/daemon_control.h"

#include <algorithm>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "client/ctl/doctor_daemon.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/home_holder.h"
#include "client/ctl/tool.h"
#include "client/lib/autostart.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

// A restart takes the old daemon's end and, at launchd, the time between two starts.
constexpr absl::Duration kServiceWithin = absl::Seconds(20);
constexpr absl::Duration kPause = absl::Milliseconds(10);

struct NextProgram {
  std::string path;
  std::string repair;  // what to do when it cannot start
};

absl::StatusOr<NextProgram> NextOf(const Installation* service) {
  if (service != nullptr) {
    if (const auto program = service->Program()) {
      return NextProgram{*program,
                         "the service has that as its program; `stageloadctl daemon install` has "
                         "it run the stageloadd that is installed now"};
    }
  }
  const auto daemon = client::FindDaemon(ProcessEnvironment());
  if (!daemon.ok()) return daemon.status();
  Programs programs;
  programs.named = ProcessEnvironment()("STAGELOAD_DAEMON").has_value();
  return NextProgram{*daemon, RepairOf(programs)};
}

absl::Status CannotStart(const std::string& why) {
  return absl::FailedPreconditionError(
      absl::StrCat("nothing was changed, since a daemon could not start now: ",
                   absl::StrReplaceAll(why, {{"\n", "; "}})));
}

absl::Status CheckIsDaemon(const NextProgram& next) {
  const auto version = VersionOf(next.path);
  if (version.ok()) return absl::OkStatus();
  return CannotStart(absl::StrCat(std::string(version.status().message()), "; ", next.repair));
}

}  // namespace

absl::StatusOr<std::optional<Connection>> Running(const ConnectOptions& options,
                                                  absl::Duration within) {
  ConnectOptions connect = options;
  connect.autostart = false;
  connect.answer_within = within;
  absl::StatusOr<Connection> connection = Connect(connect);
  if (connection.ok()) return std::optional<Connection>(*std::move(connection));
  if (SaysThereIsNone(connection.status())) return std::optional<Connection>();
  return connection.status();
}

std::string Described(const Connection& connection) {
  return absl::StrCat("stageloadd ", std::string(connection.version.version()), ", pid ",
                      connection.version.pid(), ", at ", connection.socket,
                      connection.version.dry_run() ? "; a dry run: it stops nobody" : "");
}

std::string StarterOf(const v1::GetVersionResponse& daemon) {
  switch (daemon.started_by()) {
    case v1::STARTED_BY_USER:
      return "a user";
    case v1::STARTED_BY_AUTOSTART:
      return "a client";
    case v1::STARTED_BY_SERVICE:
      return std::string(daemon.platform()) == "Darwin" ? "launchd" : "systemd";
    default:
      return "";
  }
}

absl::Status StopDaemon(const Connection& connection) {
  const absl::StatusOr<Paths> paths = PathsFor(connection.options);
  if (!paths.ok()) return paths.status();
  grpc::ClientContext context;
  SetTimeout(context);
  v1::ShutdownResponse response;
  const absl::Status status = FromGrpc(v1::AdminService::NewStub(connection.channel)
                                           ->Shutdown(&context, v1::ShutdownRequest(), &response));
  // It may have gone before its answer came through.
  if (!status.ok() && !absl::IsUnavailable(status)) return status;
  return AwaitLockFree(paths->lock, connection.version.pid());
}

absl::Status CheckProgram(const Installation* service) {
  const auto next = NextOf(service);
  return next.ok() ? CheckIsDaemon(*next) : next.status();
}

absl::Status CheckStart(const Installation* service) {
  const auto next = NextOf(service);
  if (!next.ok()) return next.status();
  if (auto status = CheckIsDaemon(*next); !status.ok()) return status;
  const auto result = RunTool({next->path, "--check-config"});
  if (!result.ok()) return result.status();
  return result->ok() ? absl::OkStatus() : CannotStart(result->output);
}

absl::StatusOr<Connection> AwaitService(const ConnectOptions& connect,
                                        const Installation& installation, int before) {
  const absl::Time begin = absl::Now();
  absl::Status failed;
  do {
    // One that waits for the home leaves the callers at its socket without an answer.
    const absl::Duration left = kServiceWithin - (absl::Now() - begin);
    auto running = Running(connect, std::max(left, absl::Seconds(1)));
    failed = running.status();
    if (running.ok() && *running) {
      const v1::GetVersionResponse& daemon = (*running)->version;
      if (daemon.started_by() == v1::STARTED_BY_SERVICE && daemon.pid() != before) {
        return **std::move(running);
      }
    }
    absl::SleepFor(kPause);
  } while (absl::Now() - begin < kServiceWithin);
  const absl::StatusOr<Supervised> found = installation.supervisor().Look();
  std::string words = installation.supervisor().LastWords();
  absl::StripAsciiWhitespace(&words);
  return absl::UnavailableError(absl::StrCat(
      "the service was started and no daemon of it answers at ", installation.terms().paths.socket,
      failed.ok() ? "" : absl::StrCat(": ", std::string(failed.message())), "; ",
      installation.supervisor().Name(),
      " says: ", found.ok() ? found->condition : std::string(found.status().message()),
      words.empty()
          ? ""
          : absl::StrCat("; the daemon said: ", absl::StrReplaceAll(words, {{"\n", "; "}}))));
}

void AddPlatform(CLI::App& command, Platform& platform) {
  static const std::map<std::string, Platform> kPlatforms = {{"macos", Platform::kMacos},
                                                             {"linux", Platform::kLinux}};
  platform = kOwnPlatform;
  command
      .add_option("--platform", platform,
                  "macos or linux: what it would be there, for --dry-run (this machine's)")
      ->transform(CLI::CheckedTransformer(kPlatforms).description(""))
      ->type_name("NAME");
}

}  // namespace stageload::ctl
