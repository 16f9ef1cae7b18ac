// stageloadctl daemon: start, stop, restart, status of the background program, whether it is
// installed as a service or not.
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/text.h"
#include "client/ctl/autostart.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/home_holder.h"
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

// What `start` and `restart` find before they change anything.
struct Scene {
  Paths paths;
  std::optional<Installation> service;   // when one is installed that serves where we connect
  std::optional<Supervised> supervised;  // where that is installed by files of ours
  AtHome home;
};

absl::StatusOr<Scene> LookAround(const Invocation& invocation, Platform platform) {
  absl::StatusOr<Installation> installation = Installation::Of(platform, invocation.connect, "");
  if (!installation.ok()) return installation.status();
  Scene scene;
  scene.paths = installation->terms().paths;
  const bool installed = installation->ServesHere();
  if (installed) {
    const auto found = installation->supervisor().Look();
    if (found.ok()) scene.supervised = *found;
  }
  scene.home = LookAtHome(invocation.connect, scene.paths.lock,
                          scene.supervised ? &*scene.supervised : nullptr);
  const bool of_package = !installed && scene.home.running.ok() &&
                          ServiceWithoutFiles(*installation, *scene.home.running);
  if (installed || of_package) scene.service = *std::move(installation);
  return scene;
}

// One that has the home and does not answer.
absl::Status MakeRoom(const Scene& scene) {
  if (!scene.home.aside) return absl::OkStatus();
  return EndAside(*scene.home.aside, scene.paths.lock, scene.paths.socket);
}

// Ends `other`, which is not the service's, then loads the service.
int StartService(const Invocation& invocation, const Scene& scene,
                 const std::optional<Connection>& other) {
  const Installation& service = *scene.service;
  if (auto status = service.CheckOurs(); !status.ok()) return Fail(status);
  if (auto status = CheckStart(&service); !status.ok()) return Fail(status);
  if (other) {
    if (auto status = StopDaemon(*other); !status.ok()) return Fail(status);
  }
  if (auto status = MakeRoom(scene); !status.ok()) return Fail(status);
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
  const auto scene = LookAround(invocation, platform);
  if (!scene.ok()) return Fail(scene.status());
  const auto& running = scene->home.running;
  if (!running.ok() && !scene->service) return Fail(running.status());
  const std::optional<Connection> before = running.ok() ? *running : std::nullopt;
  if (before && (!scene->service || before->version.started_by() == v1::STARTED_BY_SERVICE)) {
    return Tell(absl::StrCat("already running: ", Described(*before), "\n"));
  }
  if (scene->service) return StartService(invocation, *scene, before);
  if (auto status = CheckProgram(nullptr); !status.ok()) return Fail(status);
  if (auto status = MakeRoom(*scene); !status.ok()) return Fail(status);
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

// One that is there and answers, or does not; `told` where the service has been stopped already.
int StopOthers(const Paths& paths, const AtHome& home, bool told) {
  const absl::Status& status = home.running.status();
  const bool silent = status.ok() || absl::IsDeadlineExceeded(status) || home.IsStopped();
  if (silent && home.aside) {
    const absl::Status ended = EndAside(*home.aside, paths.lock, paths.socket);
    return ended.ok() ? kExitOk : Fail(ended);
  }
  if (told) return kExitOk;
  if (!status.ok()) return Fail(status);
  if (!*home.running) return Tell("not running\n");
  const absl::Status stopped = StopDaemon(**home.running);
  if (!stopped.ok()) return Fail(stopped);
  return Tell(absl::StrCat("stopped: pid ", (*home.running)->version.pid(), "; jobs run on\n"));
}

int Stop(const Invocation& invocation, Platform platform) {
  const auto installation = Installation::Of(platform, invocation.connect, "");
  if (!installation.ok()) return Fail(installation.status());
  const Paths& paths = installation->terms().paths;
  AtHome home;
  bool of_service = installation->ServesHere();
  if (!of_service) {
    home = LookAtHome(invocation.connect, paths.lock, nullptr);
    of_service = home.running.ok() && ServiceWithoutFiles(*installation, *home.running);
  }
  bool told = false;
  if (of_service) {
    const auto stopped = StopService(*installation);
    if (!stopped.ok()) return Fail(stopped.status());
    told = *stopped;
    if (told && !Out(absl::StrCat("stopped: ", installation->supervisor().Name(),
                                  " starts it again at the next login, `stageloadctl daemon "
                                  "start` does at once; jobs run on\n"))) {
      return kExitOther;
    }
    home = LookAtHome(invocation.connect, paths.lock, nullptr);
  }
  return StopOthers(paths, home, told);
}

int RestartService(const Invocation& invocation, const Scene& scene) {
  const Installation& service = *scene.service;
  const auto found = service.supervisor().Look();
  if (!found.ok()) return Fail(found.status());
  const std::optional<Connection> running =
      scene.home.running.ok() ? *scene.home.running : std::nullopt;
  const bool of_service = running && running->version.started_by() == v1::STARTED_BY_SERVICE;
  // Loaded twice, it is taken out of both domains and put into one.
  if (!found->loaded || !found->twice.empty() || (running && !of_service) || scene.home.aside) {
    return StartService(invocation, scene, of_service ? std::nullopt : running);
  }
  if (auto status = service.supervisor().Restart(); !status.ok()) return Fail(status);
  const auto next = AwaitService(invocation.connect, service, running ? running->version.pid() : 0);
  if (!next.ok()) return Fail(next.status());
  return Tell(absl::StrCat("restarted: ", Described(*next), "\n"));
}

int Restart(const Invocation& invocation, Platform platform) {
  const auto scene = LookAround(invocation, platform);
  if (!scene.ok()) return Fail(scene.status());
  const auto& running = scene->home.running;
  // One that hangs is ended.
  const bool hangs = absl::IsDeadlineExceeded(running.status()) && scene->home.aside;
  if (!running.ok() && !scene->service && !hangs) return Fail(running.status());
  const Installation* installed = scene->service ? &*scene->service : nullptr;
  if (auto status = CheckStart(installed); !status.ok()) return Fail(status);
  if (scene->service) return RestartService(invocation, *scene);
  if (scene->home.Answers()) {
    if (auto status = StopDaemon(**running); !status.ok()) return Fail(status);
  }
  if (auto status = MakeRoom(*scene); !status.ok()) return Fail(status);
  return StartByHand(invocation);
}

// What `status` has found.
struct Found {
  std::string socket;
  std::optional<Connection> running;
  std::string program_change;  // of the one that runs
  std::string silence;         // why one that is there does not answer, and what to do
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
  const std::vector<std::string> missing = found.installation.Missing();
  if (!found.here && missing.size() < found.installation.files().size()) {
    return absl::StrCat("half installed: there is no ", absl::StrJoin(missing, ", "),
                        ": `stageloadctl daemon install` writes it anew");
  }
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

// Of a daemon that is there and does not answer, or of who holds the socket and does not; else
// empty.
std::string SilenceOf(const AtHome& home, const Paths& paths) {
  const bool hangs = absl::IsDeadlineExceeded(home.running.status());
  if (!home.silent) return hangs ? absl::StrCat("nobody answers at ", paths.socket) : "";
  if (home.IsStopped()) return std::string(home.running.status().message());
  if (!home.running.ok() && !hangs) return "";
  return absl::StrCat("stageloadd, pid ", home.silent->pid, ", has ", paths.lock,
                      home.aside && !hangs
                          ? ", and nobody reaches it: it is just starting or ending, or its socket "
                            "was removed from "
                          : ", but does not answer at ",
                      paths.socket,
                      ": `stageloadctl daemon restart` ends it and starts one that does, "
                      "`stageloadctl daemon stop` only ends it (jobs run on)");
}

int Status(const Invocation& invocation, Platform platform, bool json) {
  absl::StatusOr<Installation> installation = Installation::Of(platform, invocation.connect, "");
  if (!installation.ok()) return Fail(installation.status());
  Found found{installation->terms().paths.socket, {}, "", "", *std::move(installation)};
  found.here = found.installation.ServesHere();
  found.elsewhere = !found.here && found.installation.Exists();
  if (found.here) found.supervised = found.installation.supervisor().Look();
  const Paths& paths = found.installation.terms().paths;
  const bool told = found.here && found.supervised.ok();
  AtHome home = LookAtHome(invocation.connect, paths.lock, told ? &*found.supervised : nullptr);
  found.silence = SilenceOf(home, paths);
  if (!home.running.ok() && found.silence.empty()) return Fail(home.running.status());
  if (home.Answers()) {
    found.running = **std::move(home.running);
    found.program_change = ProgramChange(found.running->version.pid());
  }
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
