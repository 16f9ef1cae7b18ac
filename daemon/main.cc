// stageloadd: the only place where its parts are built and wired, and where threads are made.
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "base/child_exits.h"
#include "base/file_limit.h"
#include "base/file_size_limit.h"
#include "base/library_log.h"
#include "base/own_program.h"
#include "base/paths.h"
#include "base/private_folder.h"
#include "base/signal_pipe.h"
#include "base/standard_streams.h"
#include "base/text.h"
#include "base/version.h"
#include "daemon/config.h"
#include "daemon/engine/engine.h"
#include "daemon/host/host.h"
#include "daemon/host/probe.h"
#include "daemon/jobs/end_hooks.h"
#include "daemon/jobs/exit_watcher.h"
#include "daemon/jobs/jobs.h"
#include "daemon/jobs/shim_path.h"
#include "daemon/log.h"
#include "daemon/options.h"
#include "daemon/rpc/listening_socket.h"
#include "daemon/rpc/passed_socket.h"
#include "daemon/rpc/server.h"
#include "daemon/settings.h"
#include "daemon/store/store.h"
#include "daemon/telemetry/hub.h"

extern char** environ;  // declared by no header of macOS

namespace stageload {
namespace {

constexpr absl::Duration kShutdownWithin = absl::Milliseconds(1500);
// Its own files and a few connections; with fewer it could start no job.
constexpr rlim_t kNeededFiles = 64;

// That end the daemon, or have it read its config again. Blocked until it is ready for them.
sigset_t HandledSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Whether one that ends it has come and was not taken.
bool EndIsAsked() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

// This process's environment, "NAME=value".
std::vector<std::string> ProcessVariables() {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    variables.emplace_back(*variable);
  }
  return variables;
}

// Any thread may ask for the end; it comes as a signal would.
void AskToEnd() { kill(getpid(), SIGTERM); }

// The paths by which this program can be found, and its next version after an upgrade.
absl::StatusOr<std::vector<std::string>> OwnPaths(const std::string& started_as) {
  const std::string self = OwnProgram();
  if (self.empty()) return absl::InternalError("cannot tell which file this program is run from");
  return jobs::PathsOf(self, started_as, ProcessEnvironment()("PATH").value_or(""));
}

absl::StatusOr<std::string> ShimPath(const std::vector<std::string>& programs) {
  std::string shim = jobs::ShimBeside(programs);
  if (!shim.empty()) return shim;
  const std::filesystem::path folder = std::filesystem::path(programs.front()).parent_path();
  return absl::NotFoundError(absl::StrCat("there is no ", (folder / "stageload-shim").string(),
                                          " that can be run; it belongs beside stageloadd: "
                                          "install stageload anew"));
}

// A daemon that launchd or systemd keeps running is not started in vain while another has the home:
// it waits, and one that a client has started makes room for it.
absl::StatusOr<rpc::ListeningSocket> LockHome(const Paths& paths, rpc::StartedBy started_by) {
  absl::StatusOr<rpc::ListeningSocket> socket = rpc::ListeningSocket::Lock(paths);
  if (started_by != rpc::StartedBy::kService || !absl::IsAlreadyExists(socket.status())) {
    return socket;
  }
  // The log is the other's until then.
  std::cerr << "stageloadd: waits, since " << socket.status().message() << std::endl;
  return rpc::ListeningSocket::LockWhenFree(paths, EndIsAsked);
}

// Everything that runs, in the order in which it is built; destroyed in reverse.
class Daemon {
 public:
  // Takes `passed` over, a socket that launchd or systemd has opened, if there is one.
  absl::Status Start(const Paths& paths, const Options& options, std::optional<int> passed);
  // Blocks until the daemon is to end; says why.
  std::string Serve(const Options& options);
  // Jobs run on. Callers that wait are told; all is on disk when this returns.
  void Stop();

 private:
  engine::Engine::Options EngineOptions(const Options& options);
  rpc::Parts RpcParts(const Paths& paths, const Options& options);
  void StartThreads();
  void TakeSignal();
  absl::StatusOr<std::vector<rpc::SettingChange>> ReloadConfig(const std::string& asked);

  SignalPipe signals_{{SIGTERM, SIGINT, SIGHUP, SIGALRM}};
  std::unique_ptr<Settings> settings_;
  bool autostarted_ = false;
  std::string end_;  // why it ends, as its log goes on behind "ends"
  std::optional<rpc::ListeningSocket> socket_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<host::Host> host_ = host::NewLocalHost();
  // For callers' questions about single processes, since the engine's host has one owner.
  std::mutex asked_host_mutex_;
  std::unique_ptr<host::Host> asked_host_ = host::NewLocalHost();
  std::optional<jobs::Jobs> jobs_;
  std::optional<jobs::EndHooks> hooks_;
  telemetry::Hub hub_{rpc::EncodeFrame};
  std::unique_ptr<engine::Engine> engine_;
  std::unique_ptr<jobs::ExitWatcher> exits_;
  std::unique_ptr<rpc::Server> server_;
  std::thread hub_thread_, engine_thread_;
};

engine::Engine::Options Daemon::EngineOptions(const Options& options) {
  const std::shared_ptr<const DaemonConfig> config = settings_->config();
  engine::Engine::Options out;
  out.config = config->core;
  out.keep_history = config->keep_history;
  out.idle_exit = options.idle_exit;
  out.on_idle = [] {
    Log(LogLevel::kInfo, "idle", "leaving: nothing was asked or run for the idle time");
    AskToEnd();
  };
  out.on_event = [](const telemetry::Event& event, const engine::Readings& readings) {
    Log(event, readings);
  };
  hooks_.emplace(jobs::EndHooks::Options{.on_end = config->on_end,
                                         .environment = ProcessVariables(),
                                         .on_failure = [](core::JobId id, const std::string& text) {
                                           Log(LogLevel::kWarn, "hook_failed", text, id);
                                         }});
  out.on_end = [this](const core::JobRecord& record) { hooks_->Post(record); };
  return out;
}

absl::Status Daemon::Start(const Paths& paths, const Options& options, std::optional<int> passed) {
  absl::StatusOr<std::unique_ptr<Settings>> settings =
      Settings::Load(paths.config, options.overrides);
  if (!settings.ok()) return settings.status();
  settings_ = *std::move(settings);
  autostarted_ = options.started_by == rpc::StartedBy::kAutostart;
  const absl::StatusOr<std::vector<std::string>> programs = OwnPaths(options.started_as);
  if (!programs.ok()) return programs.status();
  const absl::StatusOr<std::string> shim = ShimPath(*programs);
  if (!shim.ok()) return shim.status();
  // First, since nothing below may be touched by two daemons; the lock lies in the state folder,
  // which is made and checked with it.
  absl::StatusOr<rpc::ListeningSocket> socket = LockHome(paths, options.started_by);
  if (!socket.ok()) return socket.status();
  socket_.emplace(*std::move(socket));
  absl::Status log = MakePrivateFolder(paths.logs, Readable::kByOwnerOnly);
  if (log.ok()) log = OpenLog(paths.logs, settings_->config()->log, options.log_stderr);
  if (!log.ok()) return log;
  jobs_.emplace(paths.jobs, *shim);
  jobs_->FindShimBy([programs = *programs] { return jobs::ShimBeside(programs); });
  const auto highest = [this] {
    const std::vector<core::JobId> folders = jobs_->Folders();
    return folders.empty() ? core::JobId{0} : folders.back();
  };
  absl::StatusOr<std::unique_ptr<store::Store>> store =
      store::Store::Open(paths.store, highest, store::Sharing::kAlone);
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  // Not before the store is open: a client that connects to a daemon which then fails to start
  // would hear that it went away, and not why.
  const absl::Status listens = passed ? socket_->TakeOver(*passed) : socket_->Listen();
  if (!listens.ok()) return listens;

  engine_ = std::make_unique<engine::Engine>(
      EngineOptions(options), engine::Engine::Parts{host_.get(), store_.get(), &*jobs_, &hub_});
  auto exits = jobs::ExitWatcher::Create(
      [this](const core::ProcessIdentity& identity) { engine_->ProcessExited(identity); });
  if (!exits.ok()) return exits.status();
  exits_ = *std::move(exits);
  engine_->SetExitWatcher(exits_.get());
  // Not here (an older kernel, a container): the sampler does without.
  const absl::Status hinted =
      host_->OnPressure([this] { engine_->PressureHinted(); },
                        [this](int descriptor, std::function<void()> on_urgent) {
                          return exits_->WatchUrgent(descriptor, std::move(on_urgent));
                        });
  if (!hinted.ok()) {
    Log(LogLevel::kDebug, "no_hints",
        absl::StrCat("of memory pressure: ", std::string(hinted.message())));
  }
  const absl::Status restored = engine_->Restore();
  if (!restored.ok()) return restored;

  server_ = std::make_unique<rpc::Server>(RpcParts(paths, options));
  StartThreads();
  Log(LogLevel::kInfo, "listens",
      absl::StrCat("stageloadd ", kVersion, " pid ", getpid(), " at ", paths.socket,
                   socket_->IsPassed() ? ", passed to it" : ""));
  if (passed && !socket_->IsPassed()) {
    Log(LogLevel::kWarn, "socket_lost",
        "the socket that was passed to it has lost its file: it listens with one of its own, and "
        "who connects while it restarts is refused, until `stageloadctl daemon stop` and `start`");
  }
  if (options.overrides.dry_run) {
    Log(LogLevel::kInfo, "dry_run",
        "dry run: what would be stopped or suspended is told and runs on; only what a user "
        "cancels or suspends is signalled");
  }
  return server_->Start(*socket_, {{exits_->descriptor(), [this] { exits_->Handle(); }},
                                   {signals_.descriptor(), [this] { TakeSignal(); }}});
}

rpc::Parts Daemon::RpcParts(const Paths& paths, const Options& options) {
  rpc::Parts parts;
  parts.engine = engine_.get();
  parts.hub = &hub_;
  parts.find_process = [this](std::int32_t pid) {
    const std::lock_guard<std::mutex> lock(asked_host_mutex_);
    return asked_host_->Find(pid);
  };
  parts.on_shutdown = AskToEnd;
  parts.defaults = [this] { return settings_->config()->defaults; };
  parts.config = [this] { return settings_->View(); };
  parts.reload_config = [this] { return ReloadConfig("asked by a client"); };
  parts.dry_run = options.overrides.dry_run;
  parts.started_by = options.started_by;
  parts.state_directory = paths.state;
  parts.start_time = absl::Now();
  return parts;
}

void Daemon::StartThreads() {
  hub_thread_ = std::thread([this] { hub_.Run(); });
  engine_thread_ = std::thread([this] { engine_->Run(); });
}

std::string Daemon::Serve(const Options& options) {
  sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  // Somebody starts the next one when it leaves.
  if (options.started_by != rpc::StartedBy::kUser) {
    const itimerval each_second{{1, 0}, {1, 0}};
    setitimer(ITIMER_REAL, &each_second, nullptr);
  }
  server_->Serve();
  return end_;
}

// Reads the config again; `asked` is by whom.
absl::StatusOr<std::vector<rpc::SettingChange>> Daemon::ReloadConfig(const std::string& asked) {
  const auto changes = settings_->Reload([this](const DaemonConfig& config) {
    ChangeLog(config.log);
    hooks_->SetOnEnd(config.on_end);
    engine_->Reconfigure(config.core, config.keep_history);
  });
  if (changes.ok()) {
    engine_->NoteEvent("config_reloaded",
                       absl::StrCat(asked, ": ", settings_->path(), ": ", Described(*changes)));
  } else {
    engine_->NoteEvent(
        "config_refused",
        absl::StrCat(asked, ", the settings are as before: ",
                     absl::StrReplaceAll(std::string(changes.status().message()), {{"\n", "; "}})));
  }
  return changes;
}

void Daemon::TakeSignal() {
  const std::optional<int> signal = signals_.Take();
  if (signal == SIGHUP) {
    // As of other daemons. It also comes when the terminal from which this one was started is
    // closed, and that is no reason to end: others have jobs here, and reading the config once more
    // does no harm.
    (void)ReloadConfig("SIGHUP");
    return;
  }
  if (signal == SIGALRM) {
    if (autostarted_ && socket_->NextWaits()) {
      end_ = "to make room for the daemon that is kept running";
    } else if (const absl::Status reached = socket_->CheckReached(); !reached.ok()) {
      end_ = absl::StrCat("since ", std::string(reached.message()));
    } else {
      return;
    }
  } else {
    end_ = absl::StrCat("on signal ", signal.value_or(0));
  }
  server_->EndServing();
}

void Daemon::Stop() {
  engine_->Stop();  // answers everybody who waits
  server_->Stop(kShutdownWithin);
  engine_thread_.join();
  hooks_.reset();
  host_.reset();
  hub_.Stop();
  hub_thread_.join();
  Log(LogLevel::kInfo, "left", absl::StrCat("stageloadd pid ", getpid()));
  CloseLog();
}

// Of `file`, or where the daemon would look when it is empty.
absl::StatusOr<std::string> ConfigPath(const std::string& file) {
  if (!file.empty()) return file;
  const absl::StatusOr<Paths> paths = ResolvePaths(ProcessEnvironment());
  if (!paths.ok()) return paths.status();
  return paths->config;
}

int Refuse(const absl::Status& status) {
  std::cerr << "stageloadd: " << status.message() << std::endl;
  return 1;
}

// On stdout; returns the exit code.
int Print(const std::string& text, int code = 0) {
  std::cout << text << std::flush;
  if (std::cout) return code;
  const int error = errno;
  if (error != EPIPE) {
    std::cerr << "stageloadd: write to stdout: " << std::strerror(error) << std::endl;
  }
  return 1;
}

// Prints what is asked of the config in `file`, or in the daemon's own when that is empty.
int PrintConfig(const std::string& file,
                std::string (*text)(const DaemonConfig&, const std::string&)) {
  const absl::StatusOr<std::string> path = ConfigPath(file);
  if (!path.ok()) return Refuse(path.status());
  const absl::StatusOr<DaemonConfig> config =
      LoadConfig(*path, file.empty() ? IfMissing::kDefaults : IfMissing::kError);
  if (!config.ok()) return Refuse(config.status());
  return Print(text(*config, *path));
}

std::string MaxSessions(const DaemonConfig& config, const std::string&) {
  return absl::StrCat("max_sessions = ", config.core.max_sessions, "\n");
}

// What a daemon would go by, as GetConfig tells it of one that runs.
std::string SettingsDocument(const DaemonConfig& config, const std::string& path) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::array();
  for (const rpc::SettingView& setting : ViewOf(config, path, Overrides{}).settings) {
    nlohmann::ordered_json shown{{"key", setting.key}};
    if (setting.value) shown["value"] = *setting.value;
    shown["origin"] = setting.origin;
    settings.push_back(std::move(shown));
  }
  const nlohmann::ordered_json document{{"path", path}, {"settings", std::move(settings)}};
  return document.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int PrintProbe() {
  const host::Probe probe = host::TakeProbe(*host::NewLocalHost());
  return Print(probe.json + "\n", probe.whole ? 0 : 1);
}

int Run(const Options& options) {
  sigset_t signals = HandledSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  TakeFileTooLargeAsError();
  umask(077);

  if (absl::Status status = NeedFiles("stageloadd", kNeededFiles); !status.ok()) {
    return Refuse(status);
  }
  const absl::StatusOr<std::optional<int>> passed = rpc::TakePassedSocket();
  const absl::StatusOr<Paths> paths = ResolvePaths(ProcessEnvironment());
  absl::Status status = passed.status();
  if (status.ok()) status = paths.status();
  Daemon daemon;
  if (status.ok()) status = daemon.Start(*paths, options, *passed);
  if (!status.ok()) {
    std::cerr << "stageloadd: " << status.message() << std::endl;
    // Threads may run by now; nothing they do may be waited for.
    std::_Exit(absl::IsCancelled(status) ? 0 : 1);
  }
  if (chdir("/") != 0) Log(LogLevel::kWarn, "chdir", std::strerror(errno));
  Log(LogLevel::kInfo, "ends", daemon.Serve(options));
  daemon.Stop();
  return 0;
}

int Do(const Options& options) {
  switch (options.action) {
    case Action::kServe:
      return Run(options);
    case Action::kCheckConfig:
      return PrintConfig(options.config_file, MaxSessions);
    case Action::kShowConfig:
      return PrintConfig(options.config_file, SettingsDocument);
    case Action::kPrintConfigTemplate:
      return Print(ConfigTemplate());
    case Action::kProbe:
      return PrintProbe();
  }
  return 1;
}

}  // namespace
}  // namespace stageload

int main(int argc, char** argv) {
  stageload::OpenStandardStreams();
  stageload::HearOfChildren();
  stageload::SilenceLibraryLog();
  auto asked = stageload::ReadOptions({argv + (argc > 0 ? 1 : 0), argv + argc});
  if (const auto* answer = std::get_if<stageload::Answer>(&asked)) {
    std::cerr << answer->err << std::flush;
    return stageload::Print(answer->out, answer->exit_code);
  }
  auto& options = std::get<stageload::Options>(asked);
  if (argc > 0) options.started_as = argv[0];
  return stageload::Do(options);
}
