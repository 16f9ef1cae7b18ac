// stageloadctl daemon: start, stop, restart, status of the background program, whether it is
// installed as a service or not.
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/autostart.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/installation.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

int Tell(const std::string& text) { return Out(text) ? kExitOk : kExitOther; }

// What the supervisor says, when it runs this daemon by files that are not there as ours: a
// package's, or ours that somebody has removed.
std::optional<Supervised> ServiceWithoutFiles(const Installation& installation,
                                              const std::optional<Connection>& running) {
  if (!running || running->version.started_by() != v1::STARTED_BY_SERVICE) return std::nullopt;
  const auto found = installation.supervisor().Look();
  if (!found.ok() || found->pid != running->version.pid()) return std::nullopt;
  return *found;
}

// The service, when one is installed that serves where we connect.
absl::StatusOr<std::optional<Installation>> ServiceHere(const Invocation& invocation,
                                                        Platform platform) {
  absl::StatusOr<Installation> installation = Installation::Of(platform, invocation.connect, "");
  if (!installation.ok()) return installation.status();
  if (!installation->ServesHere()) {
    const auto running = Running(invocation.connect);
    if (!running.ok() || !ServiceWithoutFiles(*installation, *running)) {
      return std::optional<Installation>();
    }
  }
  return std::optional<Installation>(*std::move(installation));
}

// Ends one that is not the service's, then loads the service.
int StartService(const Invocation& invocation, const Installation& service,
                 const std::optional<Connection>& running) {
  if (auto status = service.CheckOurs(); !status.ok()) return Fail(status);
  if (auto status = CheckStart(&service); !status.ok()) return Fail(status);
  if (running) {
    if (auto status = StopDaemon(*running); !status.ok()) return Fail(status);
  }
  if (auto status = service.supervisor().Load(); !status.ok()) return Fail(status);
  const auto started = AwaitService(invocation.connect, service, 0);
  if (!started.ok()) return Fail(started.status());
  return Tell(absl::StrCat("started: ", Described(*started), "\n"));
}

int StartByHand(const Invocation& invocation) {
  const absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return Fail(paths.status());
  const absl::StatusOr<UniqueFd> answered = StartDaemon(*paths, {});
  if (!answered.ok()) return Fail(answered.status());
  const auto started = Running(invocation.connect);
  if (!started.ok()) return Fail(started.status());
  if (!*started) return Fail(absl::UnavailableError("the daemon has started and left again"));
  return Tell(absl::StrCat("started: ", Described(**started), "\n"));
}

int Start(const Invocation& invocation, Platform platform) {
  const auto service = ServiceHere(invocation, platform);
  if (!service.ok()) return Fail(service.status());
  const auto running = Running(invocation.connect);
  if (!running.ok() && !*service) return Fail(running.status());
  const std::optional<Connection> before = running.ok() ? *running : std::nullopt;
  if (before && (!*service || before->version.started_by() == v1::STARTED_BY_SERVICE)) {
    return Tell(absl::StrCat("already running: ", Described(*before), "\n"));
  }
  if (*service) return StartService(invocation, **service, before);
  if (auto status = CheckProgram(nullptr); !status.ok()) return Fail(status);
  return StartByHand(invocation);
}

// Without its socket: with it, the next connection would start it again. True when it was loaded.
absl::StatusOr<bool> StopService(const Installation& service) {
  const auto found = service.supervisor().Look();
  if (!found.ok()) return found.status();
  if (!found->loaded && found->pid == 0) return false;
  if (auto status = service.supervisor().Unload(); !status.ok()) return status;
  return true;
}

int Stop(const Invocation& invocation, Platform platform) {
  const auto service = ServiceHere(invocation, platform);
  if (!service.ok()) return Fail(service.status());
  if (*service) {
    const auto stopped = StopService(**service);
    if (!stopped.ok()) return Fail(stopped.status());
    if (*stopped) {
      return Tell(absl::StrCat("stopped: ", (*service)->supervisor().Name(),
                               " starts it again at the next login, `stageloadctl daemon start` "
                               "does at once; jobs run on\n"));
    }
  }
  const auto running = Running(invocation.connect);
  if (!running.ok()) return Fail(running.status());
  if (!*running) return Tell("not running\n");
  if (auto status = StopDaemon(**running); !status.ok()) return Fail(status);
  return Tell(absl::StrCat("stopped: pid ", (*running)->version.pid(), "; jobs run on\n"));
}

int RestartService(const Invocation& invocation, const Installation& service,
                   const std::optional<Connection>& running) {
  const auto found = service.supervisor().Look();
  if (!found.ok()) return Fail(found.status());
  const bool of_service = running && running->version.started_by() == v1::STARTED_BY_SERVICE;
  // Loaded twice, it is taken out of both domains and put into one.
  if (!found->loaded || !found->twice.empty() || (running && !of_service)) {
    return StartService(invocation, service, of_service ? std::nullopt : running);
  }
  if (auto status = service.supervisor().Restart(); !status.ok()) return Fail(status);
  const auto next = AwaitService(invocation.connect, service, running ? running->version.pid() : 0);
  if (!next.ok()) return Fail(next.status());
  return Tell(absl::StrCat("restarted: ", Described(*next), "\n"));
}

int Restart(const Invocation& invocation, Platform platform) {
  const auto service = ServiceHere(invocation, platform);
  if (!service.ok()) return Fail(service.status());
  const auto running = Running(invocation.connect);
  if (!running.ok() && !*service) return Fail(running.status());
  const std::optional<Connection> before = running.ok() ? *running : std::nullopt;
  const Installation* installed = *service ? &**service : nullptr;
  if (auto status = CheckStart(installed); !status.ok()) return Fail(status);
  if (*service) return RestartService(invocation, **service, before);
  if (before) {
    if (auto status = StopDaemon(*before); !status.ok()) return Fail(status);
  }
  return StartByHand(invocation);
}

// What `status` has found.
struct Found {
  std::string socket;
  std::optional<Connection> running;
  std::string program_change;  // of the one that runs
  std::string silence;         // why one that is there does not answer
  Installation installation;
  bool here = false;  // installed, for this home
  bool elsewhere = false;
  bool of_package = false;
  bool without_file = false;  // loaded by a file of ours that is gone
  bool service_program_gone = false;
  absl::StatusOr<Supervised> supervised = Supervised{};
};

absl::Duration Uptime(const v1::GetVersionResponse& daemon) {
  return absl::Now() - absl::FromUnixNanos(daemon.start_time_ns());
}

Json StatusJson(const Found& found) {
  Json files = Json::array();
  for (const ServiceFile& file : found.installation.files()) files.push_back(file.path);
  Json service{{"supervisor", found.installation.supervisor().Name()},
               {"installed", found.here},
               {"of_package", found.of_package},
               {"installed_for_another_home", found.elsewhere},
               {"files", files}};
  if ((found.here || found.of_package || found.without_file) && found.supervised.ok()) {
    service["loaded"] = found.supervised->loaded;
    service["where"] = found.supervised->where;
    service["condition"] = found.supervised->condition;
  } else if (found.here) {
    service["error"] = std::string(found.supervised.status().message());
  }
  Json json{{"running", found.running.has_value()},
            {"socket", found.socket},
            {"daemon", found.running ? ToJson(found.running->version) : Json()}};
  if (found.running) {
    json["uptime_seconds"] = absl::ToDoubleSeconds(Uptime(found.running->version));
    if (!found.program_change.empty()) json["program_change"] = found.program_change;
  }
  if (!found.silence.empty()) json["error"] = found.silence;
  json["service"] = service;
  return json;
}

std::string ServiceText(const Found& found) {
  const std::string file = found.installation.files().front().path;
  if (found.of_package && found.supervised.ok()) {
    return absl::StrCat("of a package; loaded in ", found.supervised->where, ", ",
                        found.supervised->condition);
  }
  if (found.without_file && found.supervised.ok()) {
    return absl::StrCat("loaded in ", found.supervised->where, ", ", found.supervised->condition,
                        ", but there is no ", absl::StrJoin(found.installation.Missing(), ", "),
                        " any more: `stageloadctl daemon install` writes it anew");
  }
  if (found.elsewhere) return absl::StrCat("installed for another home: ", file);
  if (!found.here) return "not installed; see `stageloadctl daemon install --help`";
  if (!found.supervised.ok()) {
    return absl::StrCat("installed: ", file, "; ",
                        std::string(found.supervised.status().message()));
  }
  return absl::StrCat(
      "installed: ", file, "; ",
      found.supervised->loaded ? absl::StrCat("loaded in ", found.supervised->where)
                               : "not loaded: `stageloadctl daemon start` does it",
      found.supervised->condition.empty() ? "" : absl::StrCat(", ", found.supervised->condition));
}

std::string StatusText(const Found& found) {
  std::string text = found.running ? absl::StrCat("running: ", Described(*found.running), "\n")
                     : found.silence.empty() ? "not running\n"
                                             : absl::StrCat("silent: ", found.silence, "\n");
  if (found.running) {
    const std::string starter = StarterOf(found.running->version);
    absl::StrAppend(&text, "up:      ", FormatSpan(Uptime(found.running->version)),
                    starter.empty() ? "" : absl::StrCat(", started by ", starter), "\n");
    if (!found.program_change.empty()) {
      absl::StrAppend(&text, "program: ", found.program_change,
                      " since it started, as by an upgrade: `stageloadctl daemon ",
                      found.service_program_gone ? "install" : "restart", "` (jobs run on)\n");
    }
  }
  absl::StrAppend(&text, "service: ", ServiceText(found), "\n",
                  "log:     ", found.installation.terms().paths.logs, "/stageloadd.log\n");
  return text;
}

int Status(const Invocation& invocation, Platform platform, bool json) {
  absl::StatusOr<Installation> installation = Installation::Of(platform, invocation.connect, "");
  if (!installation.ok()) return Fail(installation.status());
  Found found{installation->terms().paths.socket, {}, "", "", *std::move(installation)};
  found.here = found.installation.ServesHere();
  found.elsewhere = !found.here && found.installation.Exists();
  auto running = Running(invocation.connect);
  if (!running.ok() && !absl::IsDeadlineExceeded(running.status())) return Fail(running.status());
  if (running.ok()) {
    found.running = *std::move(running);
    if (found.running) found.program_change = ProgramChange(found.running->version.pid());
  } else {
    found.silence = absl::StrCat("nobody answers at ", found.socket);
  }
  if (found.here) found.supervised = found.installation.supervisor().Look();
  if (!found.here) {
    const auto loaded = ServiceWithoutFiles(found.installation, found.running);
    found.without_file = loaded && !found.elsewhere && found.installation.IsOf(*loaded);
    found.of_package = loaded && !found.installation.IsOf(*loaded);
    if (loaded) found.supervised = *loaded;
  }
  found.service_program_gone = (found.here || found.of_package) && found.installation.ProgramGone();
  if (!Out(json ? Document(StatusJson(found)) : StatusText(found))) return kExitOther;
  return found.running ? kExitOk : kExitNoDaemon;
}

using Command = int (*)(const Invocation&, Platform);

void Add(CLI::App& command, Invocation& invocation, const char* name, const char* what,
         Command run) {
  CLI::App* added = command.add_subcommand(name, what);
  const auto platform = std::make_shared<Platform>();
  AddPlatform(*added, *platform);
  added->get_option("--platform")->group("");
  AddExample(*added, invocation, {absl::StrCat("stageloadctl daemon ", name)});
  added->fallthrough()->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return run(invocation, *platform); };
  });
}

}  // namespace

void AddDaemon(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "daemon", "start, stop or look at the background program; have launchd or systemd run it");
  command->require_subcommand(1);
  command->fallthrough();
  Add(*command, invocation, "start", "start it and wait until it answers", Start);
  Add(*command, invocation, "stop", "end it; jobs run on", Stop);
  Add(*command, invocation, "restart",
      "end it and start it again, as after an upgrade; jobs run on", Restart);
  AddInstall(*command, invocation);
  CLI::App* status = command->add_subcommand(
      "status",
      "whether it runs, who started it, whether it is installed; exits 69 when not running");
  const auto json = std::make_shared<bool>(false);
  status->add_flag("--json", *json,
                   "one document: {\"running\": ..., \"socket\": ..., \"daemon\": ..., "
                   "\"service\": ...}");
  const auto platform = std::make_shared<Platform>();
  AddPlatform(*status, *platform);
  status->get_option("--platform")->group("");
  AddExample(*status, invocation, {"stageloadctl daemon status --json | jq .running"});
  AddExample(*command, invocation, {"stageloadctl daemon status"});
  status->fallthrough()->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Status(invocation, *platform, *json); };
  });
}

}  // namespace stageload::ctl
