#include "daemon/options.h"

#include <CLI/CLI.hpp>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/usage.h"
#include "base/version.h"

namespace stageload {
namespace {

constexpr char kFooter[] =
    "Example:\n"
    "  stageloadd --check-config --config-file new.toml\n"
    "\n"
    "It is seldom started by hand: stageloadctl, which queues jobs and shows them, starts one "
    "where\n"
    "none runs, and `stageloadctl daemon install` has one kept running.\n"
    "Exit codes: 0 it was told to leave; 1 it could not start, or --check-config has found "
    "something\n"
    "wrong; 2 wrong usage.\n"
    "Durations: 90s, 30m, 2h (a bare number is seconds).";

Answer Wrong(const std::string& what) {
  return {.out = "",
          .err = absl::StrCat("stageloadd: ", what, "\nstageloadd: see stageloadd --help\n"),
          .exit_code = 2};
}

class CommandLine {
 public:
  CommandLine() {
    AddServing();
    AddActions();
    app_.set_version_flag("--version", absl::StrCat("stageloadd ", kVersion),
                          "print the version, and exit");
    app_.footer(kFooter);
  }

  std::variant<Options, Answer> Read(const std::vector<std::string>& words) {
    if (const std::optional<Slip> slip = FindSlip(app_, words)) return Wrong(slip->what);
    try {
      // CLI11 takes the words from the back.
      app_.parse(std::vector<std::string>(words.rbegin(), words.rend()));
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() != 0) return Wrong(WhatIsWrong(app_, error));
      std::ostringstream text;
      app_.exit(error, text, text);
      return Answer{.out = text.str(), .err = "", .exit_code = 0};
    }
    const absl::Status status = ReadValues();
    if (!status.ok()) return Wrong(std::string(status.message()));
    return options_;
  }

 private:
  void AddServing();
  void AddActions();
  absl::Status ReadValues();

  CLI::App app_{"Keeps several ML jobs on one machine from pushing each other into swap.",
                "stageloadd"};
  Options options_;
  std::optional<std::string> idle_exit_, log_level_, config_file_;
  bool service_ = false, autostarted_ = false;
  bool check_config_ = false, show_config_ = false, config_template_ = false, probe_ = false;
};

void CommandLine::AddServing() {
  app_.add_option("--idle-exit", idle_exit_, "leave after so long with nothing to do, such as 10m")
      ->type_name("DUR");
  app_.add_flag("--log-stderr", options_.log_stderr, "log to stderr, too");
  app_.add_option("--log-level", log_level_, "what is logged; over log.level of the config (info)")
      ->type_name("trace|debug|info|warn|error");
  app_.add_flag("--log-json", options_.overrides.log_json,
                "log one JSON object a line; over log.format of the config");
  app_.add_flag("--dry-run", options_.overrides.dry_run,
                "decide, log and stream as ever, but stop and suspend nobody on its own account: "
                "what would be done is told as \"would_stop\". Jobs are still admitted and "
                "started, and what a user cancels still ends");
  CLI::Option* service =
      app_.add_flag("--service", service_,
                    "for launchd and systemd, which keep it running: while another daemon has this "
                    "home, wait for its end instead of failing");
  app_.add_flag("--autostarted", autostarted_,
                "for clients that find no daemon: leave as soon as one with --service waits")
      ->excludes(service);
}

void CommandLine::AddActions() {
  std::vector<CLI::Option*> actions;
  const auto add = [&](const char* name, bool& asked, const char* help) {
    CLI::Option* added = app_.add_flag(name, asked, help);
    for (CLI::Option* other : actions) added->excludes(other);
    actions.push_back(added);
  };
  add("--check-config", check_config_,
      "say what is wrong with the config, else how many sessions it allows, and exit");
  add("--show-config", show_config_,
      "print as JSON what a daemon would go by, each key with where it comes from, and exit");
  add("--config-template", config_template_,
      "print a config with every key commented out, and exit");
  add("--probe", probe_, "print one reading of this machine as JSON, and exit");
  app_.add_option("--config-file", config_file_,
                  "with --check-config or --show-config: that file, and not the daemon's own")
      ->type_name("FILE");
}

absl::Status CommandLine::ReadValues() {
  if (config_file_ && !check_config_ && !show_config_) {
    return absl::InvalidArgumentError(
        "--config-file: goes with --check-config or --show-config; a daemon reads the config of "
        "its "
        "home, whose path `stageloadctl config path` prints");
  }
  if (config_file_ && config_file_->empty()) {
    return absl::InvalidArgumentError("--config-file: \"\" names no file");
  }
  options_.config_file = config_file_.value_or("");
  options_.action = check_config_      ? Action::kCheckConfig
                    : show_config_     ? Action::kShowConfig
                    : config_template_ ? Action::kPrintConfigTemplate
                    : probe_           ? Action::kProbe
                                       : Action::kServe;
  if (service_) options_.started_by = rpc::StartedBy::kService;
  if (autostarted_) options_.started_by = rpc::StartedBy::kAutostart;
  if (log_level_) {
    const absl::StatusOr<LogLevel> level = ParseLogLevel(*log_level_);
    if (!level.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--log-level: \"", *log_level_, "\": ", std::string(level.status().message())));
    }
    options_.overrides.log_level = *level;
  }
  if (idle_exit_) {
    const absl::StatusOr<absl::Duration> idle = ParseDuration(*idle_exit_);
    if (!idle.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("--idle-exit: ", std::string(idle.status().message())));
    }
    options_.idle_exit = *idle;
  }
  return absl::OkStatus();
}

}  // namespace

std::variant<Options, Answer> ReadOptions(const std::vector<std::string>& words) {
  return CommandLine().Read(words);
}

}  // namespace stageload
