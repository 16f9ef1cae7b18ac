#include "tests/e2e/daemon_fixture.h"

#include <signal.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace stageload::e2e {

const char* const kDaemonProgram = STAGELOAD_E2E_DAEMON;
const char* const kCtlProgram = STAGELOAD_E2E_CTL;
const char* const kLoadProgram = STAGELOAD_E2E_LOAD;

namespace {

// What the programs need of this test's own environment.
constexpr const char* kPassedOn[] = {"PATH", "ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS",
                                     "UBSAN_OPTIONS"};

void PrintLogOf(const Paths& paths) {
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(paths.logs, ignored)) {
    std::cerr << "-- " << entry.path().filename().string() << "\n" << ReadFile(entry.path());
  }
}

}  // namespace

void DaemonTest::SetUp() {
  // Short: the socket's path must fit into a sockaddr_un.
  char name[] = "/tmp/sl.XXXXXX";
  ASSERT_NE(mkdtemp(name), nullptr) << "mkdtemp " << name << ": " << std::strerror(errno);
  folder_ = name;
  home_ = folder_ + "/home";
  std::filesystem::create_directory(folder_ + "/output");
}

void DaemonTest::TearDown() {
  if (folder_.empty()) return;
  if (daemon_ && daemon_->Running()) {
    daemon_->Signal(SIGTERM);
    const Result result = daemon_->Wait();
    EXPECT_EQ(result.exit_code, 0) << "the daemon, told to end: " << result;
  }
  EXPECT_TRUE(KillProcessesOf(folder_)) << "a process does not go";
  if (HasFailure()) PrintLogOf(paths());
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
  EXPECT_FALSE(error) << "remove " << folder_ << ": " << error.message();
}

Paths DaemonTest::paths() const {
  const auto paths = ResolvePaths([this](const std::string& name) -> std::optional<std::string> {
    if (name == "STAGELOAD_HOME") return home_;
    return std::nullopt;
  });
  if (!paths.ok()) {
    ADD_FAILURE() << paths.status();
    return Paths{};
  }
  return *paths;
}

void DaemonTest::WriteConfig(const std::string& toml) const {
  const std::filesystem::path config = paths().config;
  std::filesystem::create_directories(config.parent_path());
  std::filesystem::permissions(home_, std::filesystem::perms::owner_all);
  WriteFile(config, toml);
}

std::vector<std::string> DaemonTest::Environment(const Arguments& more) const {
  std::vector<std::string> environment;
  for (const char* name : kPassedOn) {
    if (const char* value = getenv(name)) environment.push_back(absl::StrCat(name, "=", value));
  }
  environment.push_back("HOME=" + folder_);
  environment.push_back("STAGELOAD_HOME=" + home_);
  environment.insert(environment.end(), more.begin(), more.end());
  return environment;
}

ChildProcess DaemonTest::StartDaemonProgram(const Arguments& flags,
                                            const Arguments& more_environment) {
  return ChildProcess({.argv = Arguments{kDaemonProgram} + flags,
                       .environment = Environment(more_environment),
                       .directory = folder_,
                       .input = "",
                       .output = absl::StrCat(folder_, "/output/", ++outputs_, ".daemon")});
}

void DaemonTest::StartDaemon(const Arguments& flags, const Arguments& more_environment) {
  daemon_.reset();
  daemon_.emplace(StartDaemonProgram(flags, more_environment));
  const bool answers = Eventually([this] {
    return !daemon_->Running() ||
           Ctl({"daemon", "status"}, {.environment = {"STAGELOAD_NO_AUTOSTART=1"}}).exit_code == 0;
  });
  ASSERT_TRUE(answers && daemon_->Running()) << "stageloadd does not answer: " << daemon_->Err();
}

void DaemonTest::KillDaemon() {
  daemon_->Signal(SIGKILL);
  EXPECT_EQ(daemon_->Wait().exit_code, 128 + SIGKILL);
}

pid_t DaemonTest::DaemonPid() const {
  pid_t pid = 0;
  std::string text = ReadFile(paths().lock);
  text.resize(std::min(text.size(), text.find('\n')));  // its socket follows
  if (!absl::SimpleAtoi(text, &pid)) ADD_FAILURE() << "no pid in the lock file: " << text;
  return pid;
}

std::vector<std::string> DaemonTest::Daemons() const {
  std::vector<std::string> daemons;
  for (const FoundProcess& process : ProcessesOf(folder_)) {
    const std::string program = process.command.substr(0, process.command.find(' '));
    if (absl::EndsWith(program, "stageloadd")) daemons.push_back(process.command);
  }
  return daemons;
}

ChildProcess DaemonTest::StartCtl(const Arguments& arguments, const CtlOptions& options) {
  return ChildProcess({.argv = Arguments{options.program} + arguments,
                       .environment = Environment(options.environment),
                       .directory = options.directory.empty() ? folder_ : options.directory,
                       .input = options.input,
                       .output = absl::StrCat(folder_, "/output/", ++outputs_, ".ctl")});
}

Result DaemonTest::Ctl(const Arguments& arguments, const CtlOptions& options) {
  return StartCtl(arguments, options).Wait();
}

nlohmann::json DaemonTest::CtlJson(Arguments arguments) {
  arguments.insert(arguments.begin() + 1, "--json");
  const Result result = Ctl(arguments);
  EXPECT_EQ(result.exit_code, 0) << result;
  nlohmann::json json = nlohmann::json::parse(result.out, nullptr, false);
  EXPECT_FALSE(json.is_discarded()) << "not JSON: " << result;
  return json;
}

std::int64_t DaemonTest::Submit(const Arguments& arguments, const CtlOptions& options) {
  const Result result = Ctl(Arguments{"submit"} + arguments, options);
  EXPECT_EQ(result.exit_code, 0) << result;
  std::int64_t id = 0;
  EXPECT_TRUE(absl::SimpleAtoi(result.out, &id)) << "no id: " << result;
  return id;
}

nlohmann::json DaemonTest::Show(std::int64_t id) { return CtlJson({"show", Id(id)}); }

std::string DaemonTest::StateOf(std::int64_t id) { return Show(id).value("state", ""); }

bool DaemonTest::Reaches(std::int64_t id, const std::string& state) {
  std::string last;
  const bool reached = Eventually([&] {
    last = StateOf(id);
    return last == state;
  });
  EXPECT_TRUE(reached) << "job " << id << " is " << last << ", not " << state << ": "
                       << Show(id).dump(2);
  return reached;
}

std::optional<nlohmann::json> DaemonTest::BlockerOf(std::int64_t id, const std::string& kind) {
  const nlohmann::json job = Show(id);
  for (const nlohmann::json& blocker : job.value("blockers", nlohmann::json::array())) {
    if (blocker.value("kind", "") == kind) {
      return std::optional<nlohmann::json>(std::in_place, blocker);
    }
  }
  return std::nullopt;
}

std::size_t DaemonTest::CountJobs() { return CtlJson({"queue", "--all"}).at("jobs").size(); }

Arguments DaemonTest::UntilExists(const std::string& file, int code) const {
  return {"sh", "-c",
          absl::StrCat("while [ ! -e '", file, "' ]; do sleep 0.02; done; exit ", code)};
}

std::string Id(std::int64_t id) { return absl::StrCat(id); }

Arguments operator+(Arguments left, const Arguments& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

}  // namespace stageload::e2e
