// stageloadd: the only place where its parts are built and wired, and where threads are made.
#include <spdlog/sinks/rotating_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/disk_error.h"
#include "base/library_log.h"
#include "base/own_program.h"
#include "base/paths.h"
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
#include "daemon/rpc/listening_socket.h"
#include "daemon/rpc/passed_socket.h"
#include "daemon/rpc/server.h"
#include "daemon/store/store.h"
#include "daemon/telemetry/hub.h"

extern char** environ;  // declared by no header of macOS

namespace stageload {
namespace {

constexpr std::size_t kLogFileBytes = 8 * 1024 * 1024;
constexpr std::size_t kLogFiles = 4;
constexpr absl::Duration kShutdownWithin = absl::Milliseconds(1500);

struct Options {
  std::optional<absl::Duration> idle_exit;
  bool log_stderr = false;
  bool dry_run = false;
  rpc::StartedBy started_by = rpc::StartedBy::kUser;
};

// That end the daemon. Blocked until it is ready for them.
sigset_t EndSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// Whether one of them has come and was not taken.
bool EndIsAsked() {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1 ||
         sigismember(&pending, SIGHUP) == 1;
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

absl::Status MakePrivateFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return DiskError(error.value(), "make " + path);
  if (chmod(path.c_str(), 0700) != 0) return DiskError(errno, "chmod 700 " + path);
  return absl::OkStatus();
}

absl::Status StartLog(const Paths& paths, const Options& options) {
  const absl::Status folder = MakePrivateFolder(paths.logs);
  if (!folder.ok()) return folder;
  try {
    std::vector<spdlog::sink_ptr> sinks = {std::make_shared<spdlog::sinks::rotating_file_sink_mt>(
        paths.logs + "/stageloadd.log", kLogFileBytes, kLogFiles)};
    if (options.log_stderr) {
      sinks.push_back(std::make_shared<spdlog::sinks::stderr_color_sink_mt>());
    }
    auto logger = std::make_shared<spdlog::logger>("stageloadd", sinks.begin(), sinks.end());
    logger->flush_on(spdlog::level::info);
    spdlog::set_default_logger(std::move(logger));
  } catch (const spdlog::spdlog_ex& error) {
    return absl::UnavailableError(absl::StrCat("open the log: ", error.what()));
  }
  return absl::OkStatus();
}

void LogEvent(const telemetry::Event& event) {
  const bool bad = event.kind == "store_failed" || event.kind == "sample_failed" ||
                   event.kind == "signal_refused" || event.kind == "store_damaged";
  const std::string job = event.job ? absl::StrCat(" job=", core::Value(*event.job)) : "";
  spdlog::log(bad ? spdlog::level::err : spdlog::level::info, "{}{} {}", event.kind, job,
              event.text);
}

absl::StatusOr<std::string> ShimPath() {
  const std::filesystem::path self = OwnProgram();
  if (self.empty()) return absl::InternalError("cannot tell which file this program is run from");
  const std::string shim = self.parent_path() / "stageload-shim";
  if (access(shim.c_str(), X_OK) == 0) return shim;
  return absl::NotFoundError(absl::StrCat("run ", shim, ": ", std::strerror(errno),
                                          "; stageload-shim belongs beside stageloadd"));
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
  engine::Engine::Options EngineOptions(const DaemonConfig& config, const Options& options);
  void StartThreads();
  void TakeSignal();

  SignalPipe signals_{{SIGTERM, SIGINT, SIGHUP, SIGALRM}};
  std::string end_;  // why it ends
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

engine::Engine::Options Daemon::EngineOptions(const DaemonConfig& config, const Options& options) {
  engine::Engine::Options out;
  out.config = config.core;
  out.keep_history = config.keep_history;
  out.config.dry_run = options.dry_run;
  out.idle_exit = options.idle_exit;
  out.on_idle = [] {
    spdlog::info("leaving: nothing was asked or run for the idle time");
    AskToEnd();
  };
  out.on_event = LogEvent;
  hooks_.emplace(jobs::EndHooks::Options{.on_end = config.on_end,
                                         .environment = ProcessVariables(),
                                         .on_failure = [](core::JobId id, const std::string& text) {
                                           spdlog::warn("hook_failed job={} {}", core::Value(id),
                                                        text);
                                         }});
  out.on_end = [this](const core::JobRecord& record) { hooks_->Post(record); };
  return out;
}

absl::Status Daemon::Start(const Paths& paths, const Options& options, std::optional<int> passed) {
  const absl::StatusOr<DaemonConfig> config = LoadConfig(paths.config);
  if (!config.ok()) return config.status();
  const absl::StatusOr<std::string> shim = ShimPath();
  if (!shim.ok()) return shim.status();
  // First, since nothing below may be touched by two daemons; the lock lies in the state folder,
  // which is made and checked with it.
  absl::StatusOr<rpc::ListeningSocket> socket = LockHome(paths, options.started_by);
  if (!socket.ok()) return socket.status();
  socket_.emplace(*std::move(socket));
  const absl::Status log = StartLog(paths, options);
  if (!log.ok()) return log;
  jobs_.emplace(paths.jobs, *shim);
  absl::StatusOr<std::unique_ptr<store::Store>> store = store::Store::Open(paths.store, [this] {
    const std::vector<core::JobId> folders = jobs_->Folders();
    return folders.empty() ? core::JobId{0} : folders.back();
  });
  if (!store.ok()) return store.status();
  store_ = *std::move(store);
  // Not before the store is open: a client that connects to a daemon which then fails to start
  // would hear that it went away, and not why.
  const absl::Status listens = passed ? socket_->TakeOver(*passed) : socket_->Listen();
  if (!listens.ok()) return listens;

  engine_ = std::make_unique<engine::Engine>(
      EngineOptions(*config, options),
      engine::Engine::Parts{host_.get(), store_.get(), &*jobs_, &hub_});
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
  if (!hinted.ok()) spdlog::debug("no hints of memory pressure: {}", std::string(hinted.message()));
  const absl::Status restored = engine_->Restore();
  if (!restored.ok()) return restored;

  rpc::Parts parts;
  parts.engine = engine_.get();
  parts.hub = &hub_;
  parts.find_process = [this](std::int32_t pid) {
    const std::lock_guard<std::mutex> lock(asked_host_mutex_);
    return asked_host_->Find(pid);
  };
  parts.on_shutdown = AskToEnd;
  parts.dry_run = options.dry_run;
  parts.started_by = options.started_by;
  parts.state_directory = paths.state;
  parts.start_time = absl::Now();
  server_ = std::make_unique<rpc::Server>(std::move(parts));
  StartThreads();
  spdlog::info("stageloadd {} pid {} listens at {}{}", kVersion, getpid(), paths.socket,
               passed ? ", passed to it" : "");
  if (options.dry_run) {
    spdlog::info(
        "dry run: what would be stopped or suspended is told and runs on; only what a user "
        "cancels or suspends is signalled");
  }
  return server_->Start(*socket_, {{exits_->descriptor(), [this] { exits_->Handle(); }},
                                   {signals_.descriptor(), [this] { TakeSignal(); }}});
}

void Daemon::StartThreads() {
  hub_thread_ = std::thread([this] { hub_.Run(); });
  engine_thread_ = std::thread([this] { engine_->Run(); });
}

std::string Daemon::Serve(const Options& options) {
  sigset_t signals = EndSignals();
  pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  if (options.started_by == rpc::StartedBy::kAutostart) {
    const itimerval each_second{{1, 0}, {1, 0}};
    setitimer(ITIMER_REAL, &each_second, nullptr);
  }
  server_->Serve();
  return end_;
}

void Daemon::TakeSignal() {
  const std::optional<int> signal = signals_.Take();
  if (signal == SIGALRM) {
    if (!socket_->NextWaits()) return;
    end_ = "makes room for the daemon that is kept running";
  } else {
    end_ = absl::StrCat("ends on signal ", signal.value_or(0));
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
  spdlog::info("stageloadd pid {} has left", getpid());
  spdlog::shutdown();
}

int CheckConfig() {
  const absl::StatusOr<Paths> paths = ResolvePaths(ProcessEnvironment());
  absl::Status status = paths.status();
  if (status.ok()) {
    const absl::StatusOr<DaemonConfig> config = LoadConfig(paths->config);
    if (config.ok()) {
      std::cout << "max_sessions = " << config->core.max_sessions << std::endl;
      return 0;
    }
    status = config.status();
  }
  std::cerr << "stageloadd: " << status.message() << std::endl;
  return 1;
}

int PrintProbe() {
  const host::Probe probe = host::TakeProbe(*host::NewLocalHost());
  std::cout << probe.json << std::endl;
  return probe.whole ? 0 : 1;
}

int Run(const Options& options) {
  sigset_t signals = EndSignals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  umask(077);

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
  if (chdir("/") != 0) spdlog::warn("chdir /: {}", std::strerror(errno));
  spdlog::info(daemon.Serve(options));
  daemon.Stop();
  return 0;
}

}  // namespace
}  // namespace stageload

int main(int argc, char** argv) {
  stageload::OpenStandardStreams();
  stageload::SilenceLibraryLog();
  CLI::App app(
      "stageloadd keeps several ML jobs on one machine from pushing each other into swap.");
  std::string idle_exit;
  stageload::Options options;
  app.add_option("--idle-exit", idle_exit, "Leave after so long with nothing to do, such as 10m");
  app.add_flag("--log-stderr", options.log_stderr, "Log to stderr too");
  app.add_flag("--dry-run", options.dry_run,
               "Decide, log and stream as ever, but stop and suspend nobody on our own account: "
               "what would be done is told as \"would_stop\". Jobs are still admitted and "
               "started, and what a user cancels still ends");
  bool service = false, autostarted = false, check_config = false, probe = false;
  app.add_flag("--check-config", check_config,
               "Say what is wrong with the config, else how many sessions it allows, and exit");
  app.add_flag("--probe", probe, "Print one reading of this machine as JSON, and exit");
  app.add_flag("--service", service,
               "For launchd and systemd, which keep it running: while another daemon has this "
               "home, wait for its end instead of failing");
  app.add_flag("--autostarted", autostarted,
               "For clients that find no daemon: leave as soon as one with --service waits")
      ->excludes("--service");
  app.set_version_flag("--version", std::string("stageloadd ") + stageload::kVersion);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (check_config) return stageload::CheckConfig();
  if (probe) return stageload::PrintProbe();
  if (service) options.started_by = stageload::rpc::StartedBy::kService;
  if (autostarted) options.started_by = stageload::rpc::StartedBy::kAutostart;
  if (!idle_exit.empty()) {
    const absl::StatusOr<absl::Duration> duration = stageload::ParseDuration(idle_exit);
    if (!duration.ok()) {
      std::cerr << "stageloadd: --idle-exit: " << duration.status().message() << std::endl;
      return 2;
    }
    options.idle_exit = *duration;
  }
  return stageload::Run(options);
}
