// systemctl --user.
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/ctl/supervisor.h"
#include "client/ctl/tool.h"

namespace stageload::ctl {
namespace {

using Argv = std::vector<std::string>;

Argv Systemctl(const Argv& arguments) {
  Argv argv = {"systemctl", "--user"};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  return argv;
}

Argv OfBoth(const Argv& verb) {
  Argv arguments = verb;
  arguments.insert(arguments.end(), {kServiceUnit, kSocketUnit});
  return Systemctl(arguments);
}

std::string Advice(const std::string& said) {
  if (absl::StrContains(said, "connect to bus") || absl::StrContains(said, "XDG_RUNTIME_DIR")) {
    return absl::StrCat(
        "; systemd runs nothing for you in this login: log in as yourself (not with su or sudo), "
        "or set XDG_RUNTIME_DIR=/run/user/",
        geteuid(),
        " and, on a server, run `loginctl "
        "enable-linger`");
  }
  return absl::StrCat("; `systemctl --user status ", kServiceUnit, "` and `journalctl --user -u ",
                      kServiceUnit, "` say more");
}

absl::Status Run(const Argv& argv) {
  const auto result = RunTool(argv);
  if (!result.ok()) return result.status();
  if (result->ok()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(ToolFailure(argv, *result), Advice(result->output)));
}

absl::Status RunAll(const std::vector<Argv>& commands) {
  for (const Argv& argv : commands) {
    if (auto status = Run(argv); !status.ok()) return status;
  }
  return absl::OkStatus();
}

// The value of a line "KEY=VALUE" of `systemctl show`; empty when there is none.
std::string Property(const std::string& text, const std::string& key) {
  for (const std::string& line : std::vector<std::string>(absl::StrSplit(text, '\n'))) {
    if (absl::StartsWith(line, key + "=")) return line.substr(key.size() + 1);
  }
  return "";
}

// Of a unit whose file is gone nothing is told.
bool IsEnabled(const std::string& shown) {
  const std::string state = Property(shown, "UnitFileState");
  return state.empty() || state == "enabled";
}

class Systemd : public Supervisor {
 public:
  const char* Name() const override { return "systemd"; }

  absl::StatusOr<Supervised> Look() override {
    const auto socket = Show(kSocketUnit, {"ActiveState", "UnitFileState"});
    if (!socket.ok()) return socket.status();
    const auto service = Show(kServiceUnit, {"ActiveState", "SubState", "MainPID", "Result",
                                             "NRestarts", "UnitFileState", "FragmentPath"});
    if (!service.ok()) return service.status();
    Supervised found{Property(*socket, "ActiveState") == "active", "user", 0, ""};
    (void)absl::SimpleAtoi(Property(*service, "MainPID"), &found.pid);
    found.condition =
        absl::StrCat(Property(*service, "ActiveState"), " (", Property(*service, "SubState"), ")");
    const std::string result = Property(*service, "Result");
    if (result != "success" && !result.empty()) absl::StrAppend(&found.condition, ", ", result);
    const std::string restarts = Property(*service, "NRestarts");
    if (restarts != "0" && !restarts.empty()) {
      absl::StrAppend(&found.condition, ", restarted ", restarts, " times");
    }
    found.file = Property(*service, "FragmentPath");
    found.enabled = IsEnabled(*socket) && IsEnabled(*service);
    return found;
  }

  absl::Status Load() override {
    if (auto status = Run(Systemctl({"daemon-reload"})); !status.ok()) return status;
    // A socket cannot be bound anew under a service that has the old one.
    return RunAll({OfBoth({"stop"}), OfBoth({"enable"}), Systemctl({"start", kSocketUnit}),
                   Systemctl({"start", kServiceUnit})});
  }
  absl::Status Unload() override { return Run(OfBoth({"stop"})); }
  absl::Status Disable() override { return Run(OfBoth({"disable", "--now"})); }
  absl::Status AfterRemoval() override { return Run(Systemctl({"daemon-reload"})); }
  absl::Status Restart() override { return Run(Systemctl({"restart", kServiceUnit})); }

  std::string LastWords() override {
    const auto result =
        RunTool({"journalctl", "--user", "-u", kServiceUnit, "-n", "3", "-o", "cat", "--no-pager"});
    return result.ok() && result->ok() ? result->output : "";
  }

  std::vector<Step> LoadSteps() const override {
    return {{Systemctl({"daemon-reload"}), ""},
            {OfBoth({"stop"}), ""},
            {OfBoth({"enable"}), ""},
            {Systemctl({"start", kSocketUnit}), ""},
            {Systemctl({"start", kServiceUnit}), ""}};
  }
  std::vector<Step> DisableSteps() const override {
    return {{OfBoth({"disable", "--now"}), ""},
            {Systemctl({"daemon-reload"}), "when the files are gone"}};
  }

 private:
  static absl::StatusOr<std::string> Show(const std::string& unit, const Argv& properties) {
    Argv arguments = {"show", unit};
    for (const std::string& property : properties) {
      arguments.insert(arguments.end(), {"-p", property});
    }
    const Argv argv = Systemctl(arguments);
    const auto result = RunTool(argv, kLookWithin);
    if (!result.ok()) return result.status();
    if (result->ok()) return result->output;
    return absl::FailedPreconditionError(
        absl::StrCat(ToolFailure(argv, *result), Advice(result->output)));
  }
};

}  // namespace

std::optional<std::string> SystemdUnitFolder() {
  const auto result = RunTool(Systemctl({"show", "-p", "UnitPath"}), kLookWithin);
  if (!result.ok() || !result->ok()) return std::nullopt;
  // Its first folder, beside the one that is asked for (lookup_paths_init() in systemd's
  // src/libsystemd/sd-path/path-lookup.c). Blanks separate them and may be in them.
  const std::string folders = Property(result->output, "UnitPath");
  const std::size_t end = folders.find("/systemd/user.control ");
  if (end == std::string::npos || !absl::StartsWith(folders, "/")) return std::nullopt;
  return folders.substr(0, end) + "/systemd/user";
}

std::unique_ptr<Supervisor> NewSystemd() { return std::make_unique<Systemd>(); }

}  // namespace stageload::ctl
