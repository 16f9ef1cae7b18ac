// stageloadctl config: the settings, from the file to what is in force. The daemon's program alone
// knows the keys, so it is asked for what takes knowing them.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "client/ctl/autostart.h"
#include "client/ctl/daemon_control.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/tool.h"
#include "stageload/v1/admin_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::string file;  // empty is the daemon's own
  bool force = false;
  bool origin = false;
  bool json = false;
};

absl::StatusOr<std::string> ConfigPath(const Invocation& invocation) {
  const absl::StatusOr<Paths> paths = PathsFor(invocation.connect);
  if (!paths.ok()) return paths.status();
  return paths->config;
}

// What stageloadd prints. FailedPrecondition, with its own words, for a config with mistakes.
absl::StatusOr<std::string> AskProgram(const std::vector<std::string>& flags) {
  const auto daemon = client::FindDaemon(ProcessEnvironment());
  if (!daemon.ok()) return daemon.status();
  std::vector<std::string> argv = {*daemon};
  argv.insert(argv.end(), flags.begin(), flags.end());
  const auto result = RunTool(argv);
  if (!result.ok()) return result.status();
  if (result->ok()) return result->output + "\n";
  return absl::FailedPreconditionError(
      std::string(absl::StripPrefix(result->output, "stageloadd: ")));
}

// Each of the message's lines for itself: there is one for each mistake.
int FailLineByLine(const absl::Status& status) {
  for (const auto line : absl::StrSplit(std::string(status.message()), '\n')) {
    Note(std::string(line));
  }
  return absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ? kExitOther
                                                                               : ExitCodeOf(status);
}

int Path(const Invocation& invocation, const Options&) {
  const absl::StatusOr<std::string> path = ConfigPath(invocation);
  if (!path.ok()) return Fail(path.status());
  return Out(absl::StrCat(*path, "\n")) ? kExitOk : kExitOther;
}

// The whole text or nothing; without `force` never over a file that is there.
absl::Status WriteNew(std::string path, const std::string& text, bool force) {
  std::error_code error;
  // A file that is kept elsewhere, with other dotfiles, stays there and the link with it.
  if (force && std::filesystem::is_symlink(path, error)) {
    path = std::filesystem::weakly_canonical(path, error).string();
  }
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const std::string temporary = absl::StrCat(path, ".", ::getpid());
  const int file = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  bool written = file >= 0 && WriteAll(file, text) && ::fsync(file) == 0;
  if (file >= 0 && ::close(file) != 0) written = false;
  // link(2) does not replace, rename(2) does.
  if (written) {
    written = force ? std::rename(temporary.c_str(), path.c_str()) == 0
                    : ::link(temporary.c_str(), path.c_str()) == 0;
  }
  const int failure = errno;
  if (file >= 0) (void)::unlink(temporary.c_str());
  if (written) return absl::OkStatus();
  if (failure == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " is there already, and left as it is; --force writes it anew"));
  }
  return absl::ErrnoToStatus(failure, absl::StrCat("write ", path));
}

int Init(const Invocation& invocation, const Options& options) {
  const absl::StatusOr<std::string> path = ConfigPath(invocation);
  if (!path.ok()) return Fail(path.status());
  const absl::StatusOr<std::string> text = AskProgram({"--config-template"});
  if (!text.ok()) return Fail(text.status());
  if (absl::Status status = WriteNew(*path, *text, options.force); !status.ok()) {
    return Fail(status);
  }
  return Out(absl::StrCat(*path, "\n")) ? kExitOk : kExitOther;
}

int Check(const Invocation& invocation, const Options& options) {
  absl::StatusOr<std::string> path =
      options.file.empty() ? ConfigPath(invocation) : absl::StatusOr<std::string>(options.file);
  if (!path.ok()) return Fail(path.status());
  std::error_code error;
  const auto found = std::filesystem::symlink_status(*path, error);
  // Without a file the defaults hold, but somebody who names one means it.
  if (options.file.empty() && found.type() == std::filesystem::file_type::not_found) {
    return Out(absl::StrCat(*path, ": there is none; the defaults hold\n")) ? kExitOk : kExitOther;
  }
  const absl::StatusOr<std::string> said = AskProgram({"--check-config", "--config-file", *path});
  if (!said.ok()) return FailLineByLine(said.status());
  return Out(absl::StrCat(*path, ": no mistakes\n")) ? kExitOk : kExitOther;
}

// {"path": ..., "settings": [...]}, of the daemon that runs or of the one that would be started.
absl::StatusOr<Json> Settings(const Invocation& invocation) {
  const absl::StatusOr<std::optional<Connection>> running = Running(invocation.connect);
  if (!running.ok()) return running.status();
  Json document{{"running", running->has_value()}};
  if (*running) {
    grpc::ClientContext context;
    SetTimeout(context);
    v1::GetConfigResponse response;
    const absl::Status status =
        FromGrpc(v1::AdminService::NewStub((*running)->channel)
                     ->GetConfig(&context, v1::GetConfigRequest(), &response));
    if (!status.ok()) return status;
    document.update(ToJson(response));
    return document;
  }
  const absl::StatusOr<std::string> text = AskProgram({"--show-config"});
  if (!text.ok()) return text.status();
  const Json shown = Json::parse(*text, nullptr, false);
  if (!shown.is_object() || !shown.contains("settings")) {
    return absl::InternalError(absl::StrCat("stageloadd --show-config: no JSON: ", *text));
  }
  document.update(shown);
  return document;
}

std::string SettingsText(const Json& document, bool origin) {
  std::vector<Column> columns = {{.title = "KEY"}, {.title = "VALUE", .wrap = !origin}};
  if (origin) columns.push_back({.title = "ORIGIN", .wrap = true});
  Table table(std::move(columns));
  for (const Json& setting : document["settings"]) {
    std::vector<Cell> row = {setting["key"].get<std::string>(),
                             setting.value("value", std::string("-"))};
    if (origin) row.emplace_back(setting["origin"].get<std::string>());
    table.Add(std::move(row));
  }
  return table.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
}

// A file that was edited after the daemon has read it is what people wonder about.
void TellStale(const Json& document) {
  if (!document.value("running", false)) {
    return Note("no daemon runs; this is what one would be started with");
  }
  const std::string path = document["path"].get<std::string>();
  std::error_code error;
  const auto written = std::filesystem::last_write_time(path, error);
  if (error) return;
  // The two clocks have no beginning in common, so by how long ago it was.
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  const absl::Time read = absl::FromUnixNanos(document["load_time_ns"].get<std::int64_t>());
  if (absl::Seconds(age.count()) >= absl::Now() - read) return;
  Note(absl::StrCat(path,
                    " was changed after the daemon has read it; `stageloadctl config reload` "
                    "has it read again"));
}

int Show(const Invocation& invocation, const Options& options) {
  const absl::StatusOr<Json> document = Settings(invocation);
  if (!document.ok()) return FailLineByLine(document.status());
  if (!options.json) TellStale(*document);
  const std::string text =
      options.json ? Document(*document) : SettingsText(*document, options.origin);
  return Out(text) ? kExitOk : kExitOther;
}

std::string ChangesText(const v1::ReloadConfigResponse& response) {
  std::string text;
  for (const v1::SettingChange& change : response.changes()) {
    absl::StrAppend(
        &text, std::string(change.key()), ": ",
        change.has_old_value() ? std::string(change.old_value()) : "not set", " -> ",
        change.has_new_value() ? std::string(change.new_value()) : "not set",
        change.needs_restart() ? " (at the next start: `stageloadctl daemon restart`)" : "", "\n");
  }
  return text.empty() ? "nothing has changed\n" : text;
}

int Reload(const Invocation& invocation, const Options& options) {
  const absl::StatusOr<std::optional<Connection>> running = Running(invocation.connect);
  if (!running.ok()) return Fail(running.status());
  if (!*running) {
    Note("no daemon runs; the next one reads the config when it starts");
    return kExitNoDaemon;
  }
  grpc::ClientContext context;
  SetTimeout(context);
  v1::ReloadConfigResponse response;
  const absl::Status status =
      FromGrpc(v1::AdminService::NewStub((*running)->channel)
                   ->ReloadConfig(&context, v1::ReloadConfigRequest(), &response));
  if (!status.ok()) {
    const int code = FailLineByLine(status);
    if (absl::IsInvalidArgument(status)) Note("the daemon goes on with the settings it has");
    return code;
  }
  return Out(options.json ? Document(ToJson(response)) : ChangesText(response)) ? kExitOk
                                                                                : kExitOther;
}

using Command = int (*)(const Invocation&, const Options&);

CLI::App* Add(CLI::App& command, Invocation& invocation, const char* name, const std::string& what,
              const std::shared_ptr<Options>& options, Command run) {
  CLI::App* added = command.add_subcommand(name, what);
  AddExample(*added, invocation, {absl::StrCat("stageloadctl config ", name)});
  added->fallthrough()->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return run(invocation, *options); };
  });
  return added;
}

}  // namespace

void AddConfig(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "config", "the settings: write a file to start from, check it, show what is in force");
  command->require_subcommand(1);
  command->fallthrough();
  const auto options = std::make_shared<Options>();
  Add(*command, invocation, "init",
      "write a config file with every key commented out, its default and what it does; prints "
      "where it is",
      options, Init)
      ->add_flag("--force", options->force, "also over a file that is there");
  Add(*command, invocation, "check",
      "say all that is wrong with the config file; exits 1 when there is something", options, Check)
      ->add_option("file", options->file, "this one (the daemon's own)")
      ->type_name("FILE");
  CLI::App* show = Add(*command, invocation, "show",
                       "what is in force in the daemon; without one, what would be", options, Show);
  show->add_flag("--origin", options->origin, "with file and line of each, or \"default\"");
  show->add_flag("--json", options->json,
                 "one document: {\"running\": ..., \"path\": ..., \"settings\": [...]}");
  Add(*command, invocation, "path", "where the config file is, or would be", options, Path);
  Add(*command, invocation, "reload",
      "have the daemon read the file again, as on SIGHUP; says what has changed. With a mistake in "
      "it the old settings stay",
      options, Reload)
      ->add_flag("--json", options->json, "one document: {\"path\": ..., \"changes\": [...]}");
  AddExample(*command, invocation, {"stageloadctl config show --origin"});
}

}  // namespace stageload::ctl
