#include "client/ctl/doctor_service.h"

#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/ctl/installation.h"

namespace stageload::ctl {
namespace {

constexpr char kCheck[] = "service";
constexpr char kInstall[] = "`stageloadctl daemon install`, which writes and loads it anew";

std::string Message(const absl::Status& status) { return std::string(status.message()); }

bool IsThere(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0;
}

std::string UntoldRuntimeFolder(Platform platform, const ConnectOptions& connect) {
  const Environment environment = ProcessEnvironment();
  const auto set = [&](const char* name) { return !environment(name).value_or("").empty(); };
  if (platform != Platform::kLinux || !connect.socket.empty() || set("XDG_RUNTIME_DIR") ||
      set("STAGELOAD_HOME") || set("STAGELOAD_SOCKET")) {
    return "";
  }
  const std::string folder = absl::StrCat("/run/user/", ::geteuid());
  return IsThere(folder) ? folder : "";
}

Finding NotInstalled(const ServiceFacts& facts) {
  if (facts.state.ok() && facts.state->loaded) {
    return Fail(kCheck,
                absl::StrCat(facts.supervisor, " has it loaded (", facts.state->where,
                             "), but its file is gone: ", absl::StrJoin(facts.missing, ", ")),
                "`stageloadctl daemon install` to have it, `stageloadctl daemon uninstall` to be "
                "rid of it");
  }
  if (!facts.brewed.empty()) {
    return Well(kCheck, absl::StrCat("Homebrew has it run: ", facts.brewed));
  }
  return Well(kCheck, absl::StrCat("not installed: ", facts.supervisor,
                                   " runs no daemon, commands start one; `stageloadctl daemon "
                                   "install` changes that"));
}

Finding Loaded(const ServiceFacts& facts, v1::StartedBy started_by) {
  const Supervised& state = *facts.state;
  const std::string text =
      absl::StrCat(facts.supervisor, " has it loaded in ", state.where, ": ", state.condition);
  if (!state.twice.empty()) {
    return Fail(kCheck,
                absl::StrCat(text,
                             ": two daemons contend for one home, and commands may reach the "
                             "one that waits"),
                "`stageloadctl daemon restart`, which leaves one (jobs run on)");
  }
  if (state.pid == 0) {
    return Fail(kCheck,
                absl::StrCat(text, ", but no daemon of it runs",
                             facts.last_words.empty() ? "" : "; it has said: ", facts.last_words),
                "`stageloadctl daemon restart`; the lines about config, folders and disk may say "
                "why it ended");
  }
  if (started_by != v1::STARTED_BY_UNSPECIFIED && started_by != v1::STARTED_BY_SERVICE) {
    return Warn(kCheck,
                absl::StrCat(text, ", pid ", state.pid, ", but the daemon that answers is another"),
                "`stageloadctl daemon start` gives the home back to it (jobs run on)");
  }
  if (started_by == v1::STARTED_BY_UNSPECIFIED && facts.home_pid != state.pid) {
    return Warn(
        kCheck,
        absl::StrCat(text, ", pid ", state.pid,
                     facts.home_pid == 0
                         ? ", but it has not taken the home, and does not answer"
                         : absl::StrCat(", but it waits: pid ", facts.home_pid, " has the home")),
        facts.home_pid == 0 ? "`stageloadctl daemon restart`, which says what it has said; "
                              "the lines about config, folders and disk may say why"
                            : "`stageloadctl daemon start` gives the home to it (jobs run "
                              "on)");
  }
  if (!state.enabled) {
    return Warn(kCheck,
                absl::StrCat(text, ", pid ", state.pid,
                             ", but it was disabled, and no login loads "
                             "it again"),
                kInstall);
  }
  return Well(kCheck,
              absl::StrCat(text, ", pid ", state.pid, "; ", absl::StrJoin(facts.found, ", ")));
}

}  // namespace

ServiceFacts ReadService(Platform platform, const ConnectOptions& connect,
                         const std::string& daemon) {
  ServiceFacts facts;
  const auto installation = Installation::Of(platform, connect, daemon);
  facts.told = installation.status();
  if (!installation.ok()) return facts;
  Supervisor& supervisor = installation->supervisor();
  facts.supervisor = supervisor.Name();
  for (const ServiceFile& file : installation->files()) {
    (IsThere(file.path) ? facts.found : facts.missing).push_back(file.path);
  }
  facts.serves_here = installation->ServesHere();
  facts.runtime_folder = UntoldRuntimeFolder(platform, connect);
  facts.program_gone = installation->ProgramGone();
  facts.current = installation->IsCurrent();
  facts.ours = installation->CheckOurs();
  facts.brewed = installation->BrewedFile();
  facts.state = supervisor.Look();
  if (facts.state.ok() && facts.state->loaded && facts.state->pid == 0) {
    std::string words = supervisor.LastWords();
    absl::StripAsciiWhitespace(&words);
    facts.last_words = absl::StrReplaceAll(words, {{"\n", "; "}});
  }
  return facts;
}

Finding CheckService(const ServiceFacts& facts, v1::StartedBy started_by) {
  if (!facts.told.ok()) {
    return Warn(kCheck, Message(facts.told), "until then it cannot be installed as a service");
  }
  if (facts.found.empty()) return NotInstalled(facts);
  // Says the fix itself.
  if (!facts.ours.ok()) {
    return Fail(kCheck, Message(facts.ours), "then `stageloadctl daemon install` again");
  }
  if (!facts.missing.empty()) {
    return Fail(kCheck,
                absl::StrCat("half installed: there is no ", absl::StrJoin(facts.missing, ", ")),
                kInstall);
  }
  if (!facts.serves_here && !facts.runtime_folder.empty()) {
    return Warn(kCheck,
                absl::StrCat("installed, with its socket in ", facts.runtime_folder,
                             ", which is not looked for here: XDG_RUNTIME_DIR is not set, as in "
                             "cron or after su: ",
                             absl::StrJoin(facts.found, ", ")),
                absl::StrCat("export XDG_RUNTIME_DIR=", facts.runtime_folder));
  }
  if (!facts.serves_here) {
    return Warn(kCheck,
                absl::StrCat("installed for another home than this one: ",
                             absl::StrJoin(facts.found, ", ")),
                "`stageloadctl daemon install` has it serve this one instead");
  }
  if (!facts.current) {
    return Warn(kCheck,
                absl::StrCat("not as this version would write it, in text or mode: ",
                             absl::StrJoin(facts.found, ", ")),
                kInstall);
  }
  if (!facts.state.ok()) {
    return Warn(kCheck, absl::StrCat("installed, but: ", Message(facts.state.status())),
                "until then commands start a daemon");
  }
  if (!facts.state->loaded) {
    return Warn(kCheck,
                absl::StrCat("installed, but not loaded by ", facts.supervisor, " (stopped?)"),
                "`stageloadctl daemon start`");
  }
  return Loaded(facts, started_by);
}

}  // namespace stageload::ctl
