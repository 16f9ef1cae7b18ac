// stageloadctl daemon install, uninstall: the daemon as a service of launchd or systemd.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/socket_file.h"
#include "client/ctl/autostart.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/doctor_machine.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/home_holder.h"
#include "client/ctl/installation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/tool.h"

namespace stageload::ctl {
namespace {

struct InstallOptions {
  Platform platform = kOwnPlatform;
  bool dry_run = false;
  bool json = false;
};

std::string StepsText(const std::vector<Step>& steps) {
  std::string text = "would run:\n";
  for (const Step& step : steps) {
    absl::StrAppend(&text, "  ", ShellText(step.argv),
                    step.when.empty() ? "" : absl::StrCat("  # ", step.when), "\n");
  }
  return text;
}

Json StepsJson(const std::vector<Step>& steps) {
  Json json = Json::array();
  for (const Step& step : steps) json.push_back({{"argv", step.argv}, {"when", step.when}});
  return json;
}

int ShowInstall(const Installation& installation, bool json) {
  const std::vector<Step> steps = installation.supervisor().LoadSteps();
  Json files = Json::array();
  std::string text;
  for (const ServiceFile& file : installation.files()) {
    files.push_back({{"path", file.path}, {"text", file.text}});
    absl::StrAppend(&text, "would write ", file.path, ":\n", file.text, "\n");
  }
  if (json) text = Document(Json{{"files", files}, {"commands", StepsJson(steps)}});
  return Out(json ? text : text + StepsText(steps)) ? kExitOk : kExitOther;
}

int ShowUninstall(const Installation& installation, bool json) {
  const std::vector<Step> steps = installation.supervisor().DisableSteps();
  const std::vector<std::string> missing = installation.Missing();
  Json files = Json::array();
  std::string text;
  for (const ServiceFile& file : installation.files()) {
    if (std::find(missing.begin(), missing.end(), file.path) != missing.end()) continue;
    files.push_back(file.path);
    absl::StrAppend(&text, "would remove ", file.path, "\n");
  }
  if (files.empty()) {
    text = absl::StrCat("not installed: there is no ", absl::StrJoin(missing, ", "),
                        "; were it loaded all the same, it ");
  }
  if (json) text = Document(Json{{"removes", files}, {"commands", StepsJson(steps)}});
  return Out(json ? text : text + StepsText(steps)) ? kExitOk : kExitOther;
}

std::string FilesText(const Installation& installation) {
  std::string text;
  for (const ServiceFile& file : installation.files()) absl::StrAppend(&text, file.path, "\n");
  return text;
}

bool IsOfService(const std::optional<Connection>& running) {
  return running && running->version.started_by() == v1::STARTED_BY_SERVICE;
}

// Whether the daemon that runs is what an installation now would make it, and the next login, too.
bool IsWell(const Installation& installation, const Supervised& found, const Connection& running) {
  const v1::GetVersionResponse& daemon = running.version;
  // Else an installation has written the files and then not come to load them.
  const bool by_these = installation.Written() <= absl::FromUnixNanos(daemon.start_time_ns());
  const bool by_ours = found.file.empty() || installation.IsOf(found);
  return found.loaded && found.enabled && found.twice.empty() && found.better.empty() && by_ours &&
         by_these && found.pid == daemon.pid() && ProgramChange(daemon.pid()).empty();
}

// At which the files on disk have it serve; empty where they do not tell it plainly.
std::string SocketOnDisk(const Installation& installation) {
  for (const ServiceFile& file : installation.files()) {
    if (file.socket_line.empty()) continue;
    std::ifstream stream(file.path, std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(stream), {});
    const bool plist = installation.terms().platform == Platform::kMacos;
    const std::string key = plist ? "<key>SockPathName</key>" : "\nListenStream=";
    std::size_t begin = text.find(key);
    if (begin == std::string::npos) return "";
    begin = text.find('/', begin + key.size());
    if (begin == std::string::npos) return "";
    const std::string path = text.substr(begin, text.find_first_of("\n<", begin) - begin);
    // An escape in either.
    return path.find_first_of("&%\\") == std::string::npos ? path : "";
  }
  return "";
}

// The service has moved from it: its file would be taken for that of a daemon that has crashed.
void RemoveLeftSocket(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::lstat(path.c_str(), &found) != 0) return;
  if (S_ISSOCK(found.st_mode) && found.st_uid == ::geteuid() && !SocketLives(path)) {
    ::unlink(path.c_str());
  }
}

int Install(const Invocation& invocation, const InstallOptions& options) {
  const auto daemon = FindDaemon(ProcessEnvironment());
  if (!daemon.ok()) return Fail(daemon.status());
  const auto installation = Installation::Of(options.platform, invocation.connect, *daemon);
  if (!installation.ok()) return Fail(installation.status());
  if (options.dry_run) {
    // Of another platform the program is not here.
    const absl::Status runs =
        options.platform == kOwnPlatform ? CheckProgram(nullptr) : absl::OkStatus();
    return runs.ok() ? ShowInstall(*installation, options.json) : Fail(runs);
  }
  if (auto status = installation->CheckOurs(); !status.ok()) return Fail(status);
  // Before anything is made: nothing is written where nobody could load it.
  if (auto look = installation->supervisor().Look(); !look.ok()) return Fail(look.status());
  const auto lock = installation->Lock(Installation::Folder::kMake);
  if (!lock.ok()) return Fail(lock.status());
  const auto found = installation->supervisor().Look();
  if (!found.ok()) return Fail(found.status());
  const Paths& paths = installation->terms().paths;
  const AtHome home = LookAtHome(invocation.connect, paths.lock, &*found);
  // One that does not answer may be an installed one that is stale.
  const std::optional<Connection> before = home.Answers() ? *home.running : std::nullopt;
  if (IsOfService(before) && installation->IsCurrent() && IsWell(*installation, *found, *before)) {
    return Out(absl::StrCat("installed already: ", Described(*before), "\n")) ? kExitOk
                                                                              : kExitOther;
  }
  if (home.aside && home.IsStopped()) return Fail(home.running.status());
  if (auto status = CheckStart(nullptr); !status.ok()) return Fail(status);
  const bool renewed = installation->Exists();
  const std::string old_socket = SocketOnDisk(*installation);
  if (auto status = installation->Write(); !status.ok()) return Fail(status);
  // Jobs run on, and the service's daemon finds them. One that a client starts in this moment
  // makes room for it.
  if (before && !IsOfService(before)) {
    if (auto status = StopDaemon(*before); !status.ok()) return Fail(status);
  }
  if (home.aside) {
    if (auto status = EndAside(*home.aside, paths.lock, paths.socket); !status.ok()) {
      return Fail(status);
    }
  }
  if (auto status = installation->supervisor().Load(); !status.ok()) return Fail(status);
  if (old_socket != paths.socket) RemoveLeftSocket(old_socket);
  const auto after =
      AwaitService(invocation.connect, *installation, before ? before->version.pid() : 0);
  if (!after.ok()) return Fail(after.status());
  return Out(absl::StrCat(renewed ? "renewed:\n" : "installed:\n", FilesText(*installation),
                          "running: ", Described(*after), "\n"))
             ? kExitOk
             : kExitOther;
}

// Nobody runs it any more, now or at the next login.
absl::Status TakeOut(const Installation& installation) {
  Supervisor& supervisor = installation.supervisor();
  // systemd disables no unit whose file is gone, and stops none that it cannot load: it says so too
  // where none runs.
  const absl::Status done = installation.Exists() ? supervisor.Disable() : supervisor.Unload();
  if (done.ok()) return done;
  const auto found = supervisor.Look();
  return found.ok() && !found->loaded && found->pid == 0 ? absl::OkStatus() : done;
}

int Uninstall(const Invocation& invocation, const InstallOptions& options) {
  const auto installation = Installation::Of(options.platform, invocation.connect, "");
  if (!installation.ok()) return Fail(installation.status());
  if (options.dry_run) return ShowUninstall(*installation, options.json);
  if (auto status = installation->CheckOurs(); !status.ok()) return Fail(status);
  const auto lock = installation->Lock(Installation::Folder::kLeave);
  if (!lock.ok()) return Fail(lock.status());
  const auto found = installation->supervisor().Look();
  if (!found.ok()) return Fail(found.status());
  const bool none = installation->Missing().size() == installation->files().size();
  if (none && !found->loaded && installation->StaleLinks().empty()) {
    return Out("not installed\n") ? kExitOk : kExitOther;
  }
  if (auto status = TakeOut(*installation); !status.ok()) return Fail(status);
  if (auto status = installation->Remove(); !status.ok()) return Fail(status);
  if (auto status = installation->supervisor().AfterRemoval(); !status.ok()) return Fail(status);
  return Out(absl::StrCat("uninstalled: jobs run on, and the next command starts a daemon; "
                          "removed:\n",
                          FilesText(*installation)))
             ? kExitOk
             : kExitOther;
}

void AddOptions(CLI::App& command, InstallOptions& options) {
  command.add_flag("--dry-run", options.dry_run,
                   "print each file with its path and text, and the commands, and do nothing");
  command.add_flag("--json", options.json, "of a --dry-run: one document, with the commands")
      ->needs("--dry-run");
  AddPlatform(command, options.platform);
  command.fallthrough();
}

}  // namespace

void AddInstall(CLI::App& command, Invocation& invocation) {
  CLI::App* install = command.add_subcommand(
      "install", "have launchd or systemd run it, from each login on and again when it ends");
  const auto to_install = std::make_shared<InstallOptions>();
  AddOptions(*install, *to_install);
  AddExample(*install, invocation, {"stageloadctl daemon install --dry-run"});
  install->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Install(invocation, *to_install); };
  });
  CLI::App* uninstall =
      command.add_subcommand("uninstall", "end it, and have nobody run it any more; jobs run on");
  const auto to_uninstall = std::make_shared<InstallOptions>();
  AddOptions(*uninstall, *to_uninstall);
  AddExample(*uninstall, invocation, {"stageloadctl daemon uninstall"});
  uninstall->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Uninstall(invocation, *to_uninstall); };
  });
}

}  // namespace stageload::ctl
