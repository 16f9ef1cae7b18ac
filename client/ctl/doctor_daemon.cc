#include "client/ctl/doctor_daemon.h"

#include <limits.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "base/version.h"
#include "client/ctl/autostart.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/errors.h"
#include "client/ctl/home_holder.h"
#include "client/ctl/tool.h"
#include "client/ctl/unique_fd.h"
#include "client/lib/autostart.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMostStops = 5;

void ReadLock(const std::string& path, DaemonFacts& facts) {
  const UniqueFd fd = OpenLock(path);
  if (!fd.valid()) return;
  facts.lock_pid = PidIn(fd);
  // Only where none answers: a daemon that starts in this very moment must find it free.
  if (facts.version) return;
  facts.lock_held = ::flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (facts.lock_held && facts.lock_pid != 0) facts.lock_state = StateOf(facts.lock_pid);
}

std::string Holder(const DaemonFacts& facts) {
  return facts.lock_pid == 0 ? "stageloadd" : absl::StrCat("stageloadd (pid ", facts.lock_pid, ")");
}

// Jobs do not end with it.
std::string EndIt(const DaemonFacts& facts, const char* signal) {
  return absl::StrCat("end it with `kill ", signal,
                      facts.lock_pid == 0 ? "PID" : absl::StrCat(facts.lock_pid),
                      "` (jobs run on), then `stageloadctl daemon start`");
}

// A restart is refused where the service could not start again.
std::string Restart(const DaemonFacts& facts) {
  return facts.service_program_gone ? "`stageloadctl daemon install`"
                                    : "`stageloadctl daemon restart`";
}

std::string LogOf(const DaemonFacts& facts) {
  return absl::StrCat(facts.paths.logs, "/stageloadd.log");
}

Finding Answers(const DaemonFacts& facts, absl::Time now) {
  const v1::GetVersionResponse& daemon = *facts.version;
  std::string text = absl::StrCat("stageloadd ", std::string(daemon.version()), ", pid ",
                                  daemon.pid(), ", answers at ", facts.paths.socket);
  const std::string starter = StarterOf(daemon);
  if (!starter.empty()) absl::StrAppend(&text, "; started by ", starter);
  if (daemon.start_time_ns() != 0) {
    const absl::Duration since = now - absl::FromUnixNanos(daemon.start_time_ns());
    absl::StrAppend(&text, " ", FormatSpan(std::max(since, absl::ZeroDuration())), " ago");
  }
  const std::string state(daemon.state_directory());
  if (!state.empty() && state != facts.paths.state) {
    return Warn(
        "daemon",
        absl::StrCat(text, "; but its home is ", state, " and yours is ", facts.paths.state),
        "set STAGELOAD_HOME and STAGELOAD_SOCKET alike for both, or neither");
  }
  if (!facts.program_change.empty()) {
    return Warn(
        "daemon", absl::StrCat(text, "; since then ", facts.program_change, ", as by an upgrade"),
        absl::StrCat(Restart(facts), " has it be the one that is installed now (jobs run on)"));
  }
  if (!facts.unit.empty() && daemon.started_by() != v1::STARTED_BY_SERVICE) {
    return Warn("daemon",
                absl::StrCat(text, "; inside systemd's unit ", facts.unit,
                             ", with whose end it may be killed, and its jobs with it"),
                "`stageloadctl daemon install`, or `stageloadctl daemon restart` from a login, "
                "which new jobs are then started by (jobs run on)");
  }
  if (daemon.dry_run()) {
    return Warn("daemon", absl::StrCat(text, "; it is a dry run, which stops nobody"),
                "to have it act: " + Restart(facts));
  }
  return Well("daemon", text);
}

Finding DoesNotAnswer(const DaemonFacts& facts) {
  if (!facts.lock_held) {
    return Fail(
        "daemon",
        absl::StrCat("somebody holds ", facts.paths.socket, " open, but no daemon has ",
                     facts.paths.lock, " and none has answered within ", FormatSpan(kDoctorWaits)),
        "the line about the service may say why it does not start; " + Restart(facts));
  }
  std::string text = absl::StrCat(Holder(facts), " takes connections at ", facts.paths.socket,
                                  " and has not answered within ", FormatSpan(kDoctorWaits));
  if (facts.served_twice) {
    return Fail("daemon",
                absl::StrCat(text, ": launchd has it loaded twice, and the other has the socket"),
                Restart(facts) + ", which leaves one (jobs run on)");
  }
  const bool aside = facts.service_pid != 0 && facts.lock_pid != facts.service_pid;
  if (aside && facts.lock_pid != 0 && facts.lock_state != 'T') {
    return Fail(
        "daemon",
        absl::StrCat(Holder(facts), ", which the service has not started, has ", facts.paths.lock,
                     ", and nobody reaches it: the service has the "
                     "socket ",
                     facts.paths.socket, ", and its daemon (pid ", facts.service_pid,
                     ") waits for the other to leave"),
        absl::StrCat("end it with `kill ", facts.lock_pid,
                     "`, as `stageloadctl daemon start` does (jobs run on)"));
  }
  if (facts.lock_state == 'T') {
    return Fail("daemon", absl::StrCat(text, ": it is stopped (SIGSTOP, or a debugger)"),
                absl::StrCat("let it go on with `kill -CONT ", facts.lock_pid, "`"));
  }
  return Fail("daemon", text,
              absl::StrCat("its log may say why: ", LogOf(facts), "; ", EndIt(facts, "-9 ")));
}

Finding HoldsElsewhere(const DaemonFacts& facts) {
  return Fail("daemon",
              absl::StrCat(Holder(facts), " has ", facts.paths.lock, ", but nobody listens at ",
                           facts.paths.socket,
                           ": it is just starting or ending, it has another socket (another "
                           "STAGELOAD_SOCKET or XDG_RUNTIME_DIR), or its socket was removed"),
              absl::StrCat("look again; if it stays so, ", EndIt(facts, "")));
}

Finding Dead(const DaemonFacts& facts) {
  const std::string last = facts.lock_pid == 0 ? "" : absl::StrCat(" (pid ", facts.lock_pid, ")");
  return Fail("daemon",
              absl::StrCat("none runs, and the last", last,
                           " was killed or has crashed: its "
                           "socket is still at ",
                           facts.paths.socket,
                           " and nobody listens there; its jobs run on without their budgets"),
              absl::StrCat("`stageloadctl daemon start`, which finds them again; its last words "
                           "are in ",
                           LogOf(facts)));
}

Finding NoneCanRun(const DaemonFacts& facts) {
  return Fail(
      "daemon",
      absl::StrCat("none runs, and none can: ", facts.paths.socket, " is there and no socket"),
      "move away what is there, as the line about the socket says");
}

Finding NoneRuns(const DaemonFacts& facts) {
  if (facts.may_start) {
    return Well("daemon", "none runs; the next command that needs one starts it");
  }
  return Warn("daemon",
              "none runs, and STAGELOAD_NO_AUTOSTART or --no-autostart keeps one from "
              "being started",
              "`stageloadctl daemon start`");
}

std::string OneLine(const std::string& text) { return absl::StrReplaceAll(text, {{"\n", "; "}}); }

std::string FixOfStop(const std::string& reason, std::int64_t job) {
  const std::string show = absl::StrCat("`stageloadctl show ", job, "` says more; ");
  if (absl::StartsWith(reason, "SWAP_BUDGET")) {
    return absl::StrCat(show,
                        "declare what it takes (--memory), so that it waits for room, or "
                        "give it a larger --swap-budget");
  }
  if (absl::StartsWith(reason, "SWAP_LIMIT")) {
    return absl::StrCat(show, "the machine's swap was over its --swap-limit");
  }
  return absl::StrCat(show, "declare what jobs take (--memory), so that fewer run at once");
}

}  // namespace

DaemonFacts ReadDaemon(const Paths& paths, const absl::StatusOr<Connection>& connection) {
  DaemonFacts facts;
  facts.paths = paths;
  if (connection.ok()) {
    facts.version = connection->version;
    facts.program_change = ProgramChange(connection->version.pid());
    facts.unit = UnitAround(connection->version.pid());
  } else {
    facts.silence = connection.status();
  }
  struct stat found {};
  if (::lstat(paths.socket.c_str(), &found) == 0) {
    (S_ISSOCK(found.st_mode) ? facts.socket_file : facts.in_the_way) = true;
  }
  ReadLock(paths.lock, facts);
  return facts;
}

Finding CheckDaemon(const DaemonFacts& facts, absl::Time now) {
  if (facts.version) return Answers(facts, now);
  if (absl::IsDeadlineExceeded(facts.silence)) return DoesNotAnswer(facts);
  if (ReasonOf(facts.silence) == client::kOtherSocket) {
    return Fail("daemon", std::string(facts.silence.message()),
                "the same XDG_RUNTIME_DIR, or the same STAGELOAD_SOCKET, for both");
  }
  if (!SaysThereIsNone(facts.silence)) {
    return Fail("daemon", std::string(facts.silence.message()),
                "the lines about the socket and its folder may say why");
  }
  if (facts.lock_held) return HoldsElsewhere(facts);
  if (facts.in_the_way) return NoneCanRun(facts);
  if (facts.socket_file && !facts.socket_of_service) return Dead(facts);
  return NoneRuns(facts);
}

absl::StatusOr<std::string> VersionOf(const std::string& program) {
  const auto result = RunTool({program, "--version"}, kLookWithin);
  if (!result.ok()) return result.status();
  if (!result->ok()) {
    return absl::FailedPreconditionError(ToolFailure({program, "--version"}, *result));
  }
  const std::string said = OneLine(result->output), prefix = "stageloadd ";
  if (absl::StartsWith(said, prefix)) return said.substr(prefix.size());
  return absl::FailedPreconditionError(absl::StrCat(
      program, " is no stageloadd: asked for its version it says \"", said.substr(0, 80), "\""));
}

Programs FindPrograms() {
  Programs programs;
  programs.daemon = FindDaemon(ProcessEnvironment());
  programs.named = ProcessEnvironment()("STAGELOAD_DAEMON").has_value();
  if (!programs.daemon.ok()) {
    programs.version = programs.daemon.status();
    return programs;
  }
  programs.version = VersionOf(*programs.daemon);
  char resolved[PATH_MAX];
  if (::realpath(programs.daemon->c_str(), resolved) == nullptr) return programs;
  const std::string daemon = resolved;
  const std::string shim = daemon.substr(0, daemon.rfind('/') + 1) + "stageload-shim";
  if (::access(shim.c_str(), X_OK) != 0) programs.shim = shim;
  return programs;
}

std::string RepairOf(const Programs& programs) {
  return programs.named
             ? "STAGELOAD_DAEMON names it: unset that, or set it to the path of stageloadd"
             : "install stageload anew";
}

Finding CheckPrograms(const Programs& programs) {
  constexpr char kCheck[] = "programs";
  if (!programs.daemon.ok()) {
    return Fail(kCheck, "there is no stageloadd beside this program, nor in PATH",
                "install it there, or set STAGELOAD_DAEMON to its path");
  }
  if (!programs.version.ok()) {
    return Fail(kCheck, OneLine(std::string(programs.version.status().message())),
                RepairOf(programs));
  }
  if (!programs.shim.empty()) {
    return Fail(kCheck, absl::StrCat("there is no ", programs.shim, ": no job could be started"),
                RepairOf(programs));
  }
  const std::string text = absl::StrCat("stageloadd ", *programs.version, " at ", *programs.daemon);
  if (*programs.version == kVersion) return Well(kCheck, text);
  return Warn(kCheck, absl::StrCat(text, ", while this is stageloadctl ", kVersion),
              "install both of one version, or name the right one by STAGELOAD_DAEMON");
}

Finding CheckVersions(const v1::GetVersionResponse& running, const Programs& programs) {
  constexpr char kCheck[] = "version";
  const std::string theirs(running.version());
  const std::string text =
      absl::StrCat("the daemon is ", theirs, " (API level ", running.api_level(),
                   "), this program ", kVersion, " (API level ", kApiLevel, ")");
  const bool other_waits = programs.version.ok() && *programs.version != theirs;
  const std::string restart =
      other_waits ? absl::StrCat("`stageloadctl daemon restart` has it be ", *programs.version,
                                 " (jobs run on)")
                  : "install stageload anew, then `stageloadctl daemon restart` (jobs run on)";
  if (running.api_level() > kApiLevel) {
    return Fail(kCheck, absl::StrCat(text, ": this program is too old for it"),
                absl::StrCat("install the stageloadctl of ", theirs,
                             other_waits ? ", or go back: " + restart : ""));
  }
  if (running.api_level() < kApiLevel) {
    return Fail(kCheck, absl::StrCat(text, ": the daemon is too old"), restart);
  }
  if (theirs != kVersion || other_waits) return Warn(kCheck, text, restart);
  return Well(kCheck, text);
}

Finding CheckConfigFile(const std::string& path, bool exists, const absl::Status& status) {
  if (!status.ok()) {
    return Fail("config", OneLine(std::string(status.message())),
                absl::StrCat("put ", path, " right; no daemon starts until then"));
  }
  return Well("config", exists ? absl::StrCat(path, " is valid")
                               : absl::StrCat("no ", path, ": the defaults hold"));
}

namespace {

// Of the last day, newest first.
absl::StatusOr<std::vector<v1::Event>> ReadEvents(const Connection& connection, absl::Time now,
                                                  std::initializer_list<const char*> kinds) {
  v1::ListHistoryRequest request;
  request.set_since_ns(absl::ToUnixNanos(now - absl::Hours(24)));
  request.set_page_size(1000);
  for (const char* kind : kinds) request.add_kinds(kind);
  grpc::ClientContext context;
  SetTimeout(context, kDoctorWaits);
  v1::ListHistoryResponse response;
  const grpc::Status status =
      v1::TelemetryService::NewStub(connection.channel)->ListHistory(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return std::vector<v1::Event>(response.events().begin(), response.events().end());
}

}  // namespace

absl::StatusOr<std::vector<v1::Event>> ReadStoreEvents(const Connection& connection,
                                                       absl::Time now) {
  return ReadEvents(connection, now, {"store_failed", "store_works", "store_damaged"});
}

Finding CheckStore(const absl::StatusOr<std::vector<v1::Event>>& events, absl::Time now) {
  constexpr char kCheck[] = "store";
  if (!events.ok()) {
    return Fail(kCheck,
                absl::StrCat("the daemon cannot read it: ", std::string(events.status().message())),
                "`stageloadctl daemon restart` sets a damaged one aside and goes on with what can "
                "be read of it (jobs run on)");
  }
  const auto ago = [now](const v1::Event& event) {
    return FormatSpan(std::max(now - absl::FromUnixNanos(event.time_ns()), absl::ZeroDuration()));
  };
  for (const v1::Event& event : *events) {
    const std::string text(event.text());
    if (event.kind() == "store_works") break;  // whatever was before
    if (event.kind() == "store_failed") {
      return Fail(
          kCheck,
          absl::StrCat("the daemon has not been able to write it for ", ago(event), ": ", text),
          "submits are refused until it can, which it tries again by itself; the line "
          "about state_disk may say why");
    }
  }
  for (const v1::Event& event : *events) {
    if (event.kind() != "store_damaged") continue;
    const std::string text(event.text());
    return Warn(kCheck, absl::StrCat(ago(event), " ago: ", text),
                absl::StrCat(absl::StrContains(text, " kept as ")
                                 ? "what is kept can be removed when nothing is missed; "
                                 : "",
                             "find out who changed the file, or whether its disk is sound"));
  }
  return Well(kCheck, "the daemon reads and writes it, and had no damage to mend in the last day");
}

absl::StatusOr<std::vector<v1::Event>> ReadStops(const Connection& connection, absl::Time now) {
  const auto events = ReadEvents(connection, now, {"stopping", "would_stop", "stuck"});
  if (!events.ok()) return events.status();
  std::vector<v1::Event> stops;
  for (const v1::Event& event : *events) {
    // What a user has asked for.
    if (!absl::StartsWith(std::string(event.text()), "CANCELLED")) stops.push_back(event);
  }
  std::reverse(stops.begin(), stops.end());
  return stops;
}

Findings CheckStops(const std::vector<v1::Event>& stops, absl::Time now) {
  Findings findings;
  if (stops.empty()) return {Well("stops", "none in the last day")};
  const std::size_t shown = std::min(stops.size(), kMostStops);
  findings.push_back(
      Well("stops", absl::StrCat(stops.size(), " in the last day",
                                 shown < stops.size()
                                     ? absl::StrCat(", the newest ", shown,
                                                    " of them here; `stageloadctl history --kind "
                                                    "stopping --since 1d` has all")
                                     : "")));
  for (std::size_t i = stops.size() - shown; i < stops.size(); ++i) {
    const v1::Event& event = stops[i];
    const std::string reason(event.text());
    const absl::Duration ago = now - absl::FromUnixNanos(event.time_ns());
    std::string text =
        absl::StrCat("job ", event.job_id(), ", ", FormatSpan(std::max(ago, absl::ZeroDuration())),
                     " ago: ", reason);
    findings.push_back(absl::StartsWith(reason, "TIMEOUT")
                           ? Well("stop", text)
                           : Warn("stop", text, FixOfStop(reason, event.job_id())));
  }
  return findings;
}

}  // namespace stageload::ctl
