// Real jobs under the real shim: they run exactly as submitted, once, and nothing but their own end
// ends them.
#include "daemon/jobs/jobs.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/job_lock.h"
#include "daemon/jobs/log.h"
#include "daemon/jobs/result_file.h"
#include "daemon/jobs/self.h"
#include "daemon/jobs/shim_path.h"
#include "daemon/jobs/spawn.h"
#include "daemon/jobs/spec_file.h"
#include "daemon/jobs/start_channel.h"
#include "tests/daemon/jobs/fixture.h"

namespace stageload::jobs {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using State = Found::State;

constexpr core::JobId kId{1};

class JobsTest : public ::testing::Test {
 protected:
  // Ends every job that waits for the file and every shim that is left.
  ~JobsTest() override {
    Release();
    for (const pid_t shim : shims_) ::waitpid(shim, nullptr, 0);
  }

  core::JobSpec Spec(std::vector<std::string> argv) const {
    core::JobSpec spec;
    spec.argv = std::move(argv);
    spec.working_directory = folder_.path();
    spec.environment = {"PATH=/usr/bin:/bin"};
    return spec;
  }
  core::JobSpec Script(const std::string& script) const { return Spec({"sh", "-c", script}); }

  // A job that runs this goes on until Release().
  static constexpr char kUntilReleased[] = "while [ -e hold ]; do sleep 0.02; done; ";
  void Hold() const { WriteFile(folder_.path() + "/hold", ""); }
  void Release() const { std::filesystem::remove(folder_.path() + "/hold"); }

  void Start(const core::JobSpec& spec, core::JobId id = kId) {
    const absl::StatusOr<pid_t> shim = jobs_.Start(id, spec);
    ASSERT_TRUE(shim.ok()) << shim.status();
    shims_.insert(*shim);
    shim_ = *shim;
  }
  bool HasEnded(core::JobId id = kId) const {
    const absl::StatusOr<Found> found = jobs_.Inspect(id);
    return found.ok() && found->state == State::kEnded;
  }
  core::Outcome Run(const core::JobSpec& spec) {
    Start(spec);
    EXPECT_TRUE(Eventually([&] { return HasEnded(); }));
    return jobs_.Inspect(kId)->result.outcome;
  }

  // All that the log holds by now.
  std::string Log(LogStream stream = LogStream::kBoth) const {
    LogReader reader(jobs_.FolderOf(kId), stream);
    std::string text;
    for (;;) {
      const absl::StatusOr<std::optional<LogPiece>> piece = reader.Next();
      EXPECT_TRUE(piece.ok()) << piece.status();
      if (!piece.ok() || !piece->has_value()) return text;
      text += (*piece)->data;
    }
  }
  Result ReadResult() const {
    const absl::StatusOr<Result> result =
        DecodeResult(Contents(jobs_.FolderOf(kId) + "/" + kResultFile));
    EXPECT_TRUE(result.ok()) << result.status();
    return result.ok() ? *result : Result{};
  }

  TemporaryFolder folder_;
  Jobs jobs_{folder_.path() + "/jobs", STAGELOAD_SHIM};
  pid_t shim_ = 0;
  std::set<pid_t> shims_;
};

TEST_F(JobsTest, AJobHasExactlyItsSpecsEnvironment) {
  ::setenv("OF_THE_DAEMON", "secret", 1);
  core::JobSpec spec = Spec({"env", "-0"});
  for (int i = 0; i < 200; ++i) spec.environment.push_back("V" + std::to_string(i) + "=a b\n\xff");
  EXPECT_EQ(Run(spec).exit_code, 0);
  std::string expected;
  for (const std::string& variable : spec.environment) expected.append(variable).push_back('\0');
  EXPECT_EQ(Log(), expected);
}

TEST_F(JobsTest, AJobRunsInAFolderOfAnyName) {
  core::JobSpec spec = Spec({"pwd"});
  spec.working_directory = folder_.path() + "/odd  na\nme \xc3\xa9\xff 'x'";
  std::filesystem::create_directory(spec.working_directory);
  EXPECT_EQ(Run(spec).exit_code, 0);
  EXPECT_EQ(Log(), spec.working_directory + "\n");
}

TEST_F(JobsTest, AJobHasItsUmaskAndItsSoftLimits) {
  core::JobSpec spec = Script("umask; ulimit -n; ulimit -f; ulimit -Sc; touch made");
  spec.umask = 0037;
  spec.soft_limits = {{RLIMIT_NOFILE, 123}, {RLIMIT_FSIZE, 512 * 7}, {RLIMIT_CORE, 0}};
  EXPECT_EQ(Run(spec).exit_code, 0);
  EXPECT_EQ(Log(), "0037\n123\n7\n0\n");
  struct stat about {};
  ASSERT_EQ(::stat((folder_.path() + "/made").c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0640u);
}

TEST_F(JobsTest, ALimitThatTheSpecDoesNotNameIsTheOneThatTheDaemonHas) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(Run(Script("ulimit -Sn")).exit_code, 0);
  EXPECT_EQ(Log(), std::to_string(limit.rlim_cur) + "\n");
}

TEST_F(JobsTest, SmallLimitsOfTheJobDoNotKeepTheShimFromItsLog) {
  core::JobSpec spec = Script("head -c 300000 /dev/zero; head -c 9999 /dev/zero > big; echo $?");
  spec.soft_limits = {{RLIMIT_FSIZE, 4096}};
  EXPECT_EQ(Run(spec).exit_code, 0);
  EXPECT_EQ(std::filesystem::file_size(folder_.path() + "/big"), 4096u);
  EXPECT_EQ(Log(LogStream::kStdout).substr(0, 300000), std::string(300000, '\0'));
  EXPECT_EQ(ReadResult().log_dropped, Bytes(0));
}

TEST_F(JobsTest, AJobInheritsNoDescriptor) {
  const int leaked = ::dup(1);  // not closed on exec
  EXPECT_EQ(Run(Spec({"ls", "/proc/self/fd"})).exit_code, 0);
  ::close(leaked);
  EXPECT_EQ(Log(), "0\n1\n2\n3\n");  // 3 is the folder that ls reads
}

TEST_F(JobsTest, TheShimInheritsNoDescriptorNoFolderAndNoEnvironment) {
  const int leaked = ::dup(1);
  Hold();
  Start(Script("echo started; " + std::string(kUntilReleased)));
  ::close(leaked);
  ASSERT_TRUE(Eventually([&] { return !Log().empty(); }));  // it is past its start
  const std::string proc = "/proc/" + std::to_string(shim_);
  for (const auto& entry : std::filesystem::directory_iterator(proc + "/fd")) {
    const std::string file = std::filesystem::read_symlink(entry.path()).string();
    const bool expected = file == "/dev/null" || file == jobs_.FolderOf(kId) ||
                          file == jobs_.FolderOf(kId) + "/job.lock" ||
                          file.rfind(jobs_.FolderOf(kId) + "/log.", 0) == 0 ||
                          file.rfind("pipe:", 0) == 0;
    EXPECT_TRUE(expected) << file;
  }
  EXPECT_EQ(Contents(proc + "/environ"), "");
  EXPECT_TRUE(
      Eventually([&] { return std::filesystem::read_symlink(proc + "/cwd").string() == "/"; }));
}

TEST_F(JobsTest, AJobHasDefaultSignalsAndNoneBlocked) {
  ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  ::sigprocmask(SIG_BLOCK, &set, nullptr);
  const core::Outcome outcome = Run(Spec({"grep", "-E", "SigBlk|SigIgn", "/proc/self/status"}));
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::signal(SIGHUP, SIG_DFL);
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_EQ(Log(), "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
}

TEST_F(JobsTest, AJobLeadsAGroupOfItsOwnInTheShimsSession) {
  Hold();
  Start(Script("cut -d' ' -f1,5,6 /proc/$$/stat; " + std::string(kUntilReleased)));
  ASSERT_TRUE(Eventually([&] { return Log().size() > 5; }));
  Release();
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  std::istringstream figures(Log());
  int pid = 0, group = 0, session = 0;
  figures >> pid >> group >> session;
  EXPECT_EQ(group, pid);
  EXPECT_EQ(session, shim_);
}

TEST_F(JobsTest, TheExitCodeIsTheCommandsOwn) {
  const core::Outcome outcome = Run(Script("exit 7"));
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_FALSE(outcome.signal.has_value());
  EXPECT_FALSE(outcome.start_errno.has_value());
}

TEST_F(JobsTest, ASignalThatEndsTheCommandIsTold) {
  const core::Outcome outcome = Run(Script("kill -9 $$"));
  EXPECT_FALSE(outcome.exit_code.has_value());
  EXPECT_EQ(outcome.signal, SIGKILL);
}

TEST_F(JobsTest, TheResultHasTimesAndWhatTheCommandUsed) {
  const absl::Time before = absl::Now();
  Run(Script("head -c 3000000 /dev/zero | sha256sum"));
  const Result result = ReadResult();
  EXPECT_GE(result.start_time, before);
  EXPECT_GE(result.end_time, result.start_time);
  EXPECT_LE(result.end_time, absl::Now());
  EXPECT_GT(result.max_rss, KiB(100));
  EXPECT_GT(result.user_time + result.system_time, absl::ZeroDuration());
}

TEST_F(JobsTest, ACommandThatIsNotThereIs127AndSaysWhereItWasLookedFor) {
  const core::Outcome outcome = Run(Spec({"no-such-command"}));
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_EQ(outcome.start_errno, ENOENT);
  EXPECT_THAT(Log(LogStream::kStderr), HasSubstr("no-such-command"));
  EXPECT_THAT(Log(LogStream::kStderr), HasSubstr("No such file or directory"));
  EXPECT_THAT(Log(LogStream::kStderr), HasSubstr("/usr/bin:/bin"));
}

TEST_F(JobsTest, TheCommandIsLookedUpInTheJobsPathAndFolder) {
  std::filesystem::create_directory(folder_.path() + "/bin");
  WriteFile(folder_.path() + "/bin/only-here", "#!/bin/sh\necho found $0\n");
  std::filesystem::permissions(folder_.path() + "/bin/only-here", std::filesystem::perms::all);
  core::JobSpec spec = Spec({"only-here"});
  spec.environment = {"PATH=/nowhere:bin"};
  EXPECT_EQ(Run(spec).exit_code, 0);
  EXPECT_EQ(Log(), "found bin/only-here\n");
}

TEST_F(JobsTest, AFileThatIsNotExecutableIs127AsAnythingThatCannotStart) {
  WriteFile(folder_.path() + "/plain", "echo no\n");
  const core::Outcome outcome = Run(Spec({"./plain"}));
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_EQ(outcome.start_errno, EACCES);
  EXPECT_THAT(Log(), HasSubstr("Permission denied"));
}

TEST_F(JobsTest, AScriptWithoutAnInterpreterLineIsRunByTheShell) {
  WriteFile(folder_.path() + "/script", "echo \"$0 $1\"; exit 5\n");
  std::filesystem::permissions(folder_.path() + "/script", std::filesystem::perms::all);
  EXPECT_EQ(Run(Spec({"./script", "a b"})).exit_code, 5);
  EXPECT_EQ(Log(), "./script a b\n");
}

TEST_F(JobsTest, AMissingInterpreterIsToldApartFromAMissingCommand) {
  WriteFile(folder_.path() + "/script", "#!/no/such/python\n");
  std::filesystem::permissions(folder_.path() + "/script", std::filesystem::perms::all);
  EXPECT_EQ(Run(Spec({"./script"})).exit_code, 127);
  EXPECT_THAT(Log(), HasSubstr("interpreter"));
}

TEST_F(JobsTest, AFolderThatIsMissingIsAStartFailureThatNamesIt) {
  core::JobSpec spec = Script("true");
  spec.working_directory = folder_.path() + "/gone";
  const core::Outcome outcome = Run(spec);
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_EQ(outcome.start_errno, ENOENT);
  EXPECT_THAT(Log(LogStream::kStderr), HasSubstr(spec.working_directory));
}

TEST_F(JobsTest, AnEmptyCommandIsAStartFailure) {
  const core::Outcome outcome = Run(Spec({}));
  EXPECT_EQ(outcome.exit_code, 127);
  EXPECT_EQ(outcome.start_errno, EINVAL);
}

TEST_F(JobsTest, BothOutputsAreKeptInTheirOrderAndApart) {
  Start(
      Script("for i in 1 2 3; do echo out$i; until [ -e a$i ]; do sleep 0.01; done; "
             "echo err$i >&2; until [ -e b$i ]; do sleep 0.01; done; done"));
  std::string expected;
  for (const std::string i : {"1", "2", "3"}) {
    expected += "out" + i + "\n";
    ASSERT_TRUE(Eventually([&] { return Log() == expected; }));
    WriteFile(folder_.path() + "/a" + i, "");
    expected += "err" + i + "\n";
    ASSERT_TRUE(Eventually([&] { return Log() == expected; }));
    WriteFile(folder_.path() + "/b" + i, "");
  }
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_EQ(Log(LogStream::kStdout), "out1\nout2\nout3\n");
  EXPECT_EQ(Log(LogStream::kStderr), "err1\nerr2\nerr3\n");
}

TEST_F(JobsTest, AHundredMegabytesWithoutANewlineAreKeptInBoundedMemory) {
  Hold();
  Start(Script("head -c 100000000 /dev/zero; echo x >&2; " + std::string(kUntilReleased)));
  ASSERT_TRUE(Eventually([&] { return Log(LogStream::kStderr) == "x\n"; }));
  const std::string status = Contents("/proc/" + std::to_string(shim_) + "/status");
  const std::size_t peak = status.find("VmHWM:");
  ASSERT_NE(peak, std::string::npos);
  EXPECT_LT(std::stol(status.substr(peak + 6)), 64 * 1024) << "KiB";
  Release();
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_EQ(Log(LogStream::kStdout).size(), 100'000'000u);
}

TEST_F(JobsTest, ALogThatCannotBeWrittenIsCountedAndNeverBlocksTheJob) {
  // A shim that may not write files of more than 4 KiB: the kernel fails its writes with EFBIG.
  const std::string wrapper = folder_.path() + "/limited-shim";
  WriteFile(wrapper, "#!/bin/sh\nulimit -f 8\nexec '" STAGELOAD_SHIM "' \"$@\"\n");
  std::filesystem::permissions(wrapper, std::filesystem::perms::all);
  jobs_ = Jobs(folder_.path() + "/jobs", wrapper);
  EXPECT_EQ(Run(Script("head -c 1000000 /dev/zero; exit 3")).exit_code, 3);
  const Result result = ReadResult();
  EXPECT_GT(result.log_dropped, Bytes(900'000));
  EXPECT_EQ(result.log_dropped, Bytes(1'000'000) - Bytes(static_cast<int>(Log().size())));
}

TEST_F(JobsTest, TheShimOutlivesSignalsToItsGroupAndSession) {
  Hold();
  Start(Script("echo up; " + std::string(kUntilReleased) + "exit 6"));
  // Until it has left the shim's group, a signal to that group is one to the command as well.
  ASSERT_TRUE(Eventually([&] { return Log() == "up\n"; }));
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGPIPE}) {
    ASSERT_EQ(::kill(-shim_, signal), 0);
  }
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kRunning);
  Release();
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_EQ(jobs_.Inspect(kId)->result.outcome.exit_code, 6);
}

TEST_F(JobsTest, AJobOutlivesTheProcessThatStartedItAndIsFoundByAnother) {
  Hold();
  const pid_t daemon = ::fork();
  if (daemon == 0) {
    const bool ok = jobs_.Start(kId, Script(std::string(kUntilReleased) + "echo on; exit 9")).ok();
    ::kill(::getpid(), ok ? SIGKILL : SIGABRT);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(daemon, &status, 0), daemon);
  ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);

  const absl::StatusOr<Found> found = Jobs(folder_.path() + "/jobs", "").Inspect(kId);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->state, State::kRunning);
  ASSERT_TRUE(found->shim.has_value());
  EXPECT_TRUE(Exists(*found->shim));
  Release();
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_EQ(jobs_.Inspect(kId)->result.outcome.exit_code, 9);
  EXPECT_EQ(Log(), "on\n");
  EXPECT_TRUE(Eventually([&] { return !Exists(*found->shim); }));
}

TEST_F(JobsTest, ADescendantThatKeepsTheOutputsOpenDoesNotKeepTheJobFromEnding) {
  Hold();
  Start(Script("(" + std::string(kUntilReleased) + ") & echo started; exit 4"));
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_TRUE(std::filesystem::exists(folder_.path() + "/hold"));
  EXPECT_EQ(jobs_.Inspect(kId)->result.outcome.exit_code, 4);
  EXPECT_EQ(Log(), "started\n");
}

TEST_F(JobsTest, WhatThePipesHoldAtTheEndOfTheCommandIsStillLogged) {
  EXPECT_EQ(Run(Script("head -c 60000 /dev/zero; head -c 60000 /dev/zero >&2")).exit_code, 0);
  EXPECT_EQ(Log(LogStream::kStdout).size(), 60000u);
  EXPECT_EQ(Log(LogStream::kStderr).size(), 60000u);
}

TEST_F(JobsTest, OrphansAreReapedByTheShimWhileItRuns) {
  Hold();
  Start(Script("(sh -c 'echo $$' &) ; " + std::string(kUntilReleased)));
  ASSERT_TRUE(Eventually([&] { return !Log().empty(); }));
  const int orphan = std::stoi(Log());
  EXPECT_TRUE(Eventually([&] { return !IdentityOf(orphan).has_value(); }));
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kRunning);
}

TEST_F(JobsTest, AJobIsNeverStartedTwice) {
  Hold();
  Start(Script(std::string(kUntilReleased) + "echo once"));
  const absl::Status running = jobs_.Start(kId, Script("echo twice")).status();
  EXPECT_EQ(running.code(), absl::StatusCode::kAlreadyExists) << running;
  Release();
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  const absl::Status ended = jobs_.Start(kId, Script("echo twice")).status();
  EXPECT_EQ(ended.code(), absl::StatusCode::kAlreadyExists) << ended;
  EXPECT_EQ(Log(), "once\n");
}

TEST_F(JobsTest, TheCommandIsNamedWhileItRunsAndAfterItsShimWasKilled) {
  Hold();
  Start(Script("echo $$; " + std::string(kUntilReleased)));
  ASSERT_TRUE(Eventually([&] { return !Log().empty(); }));
  const std::optional<core::ProcessIdentity> command = IdentityOf(std::stoi(Log()));
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(jobs_.Inspect(kId)->command, command);
  ::kill(shim_, SIGKILL);
  ASSERT_EQ(::waitpid(shim_, nullptr, 0), shim_);
  shims_.clear();
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kLost);
  EXPECT_EQ(jobs_.Inspect(kId)->command, command);
  Release();
  EXPECT_TRUE(Eventually([&] { return !Exists(*command); }));
}

TEST_F(JobsTest, WhatOutlivesTheCommandIsNamedAndWhatHasEndedIsNot) {
  Hold();
  Start(Script("exec 2>&-; setsid sh -c 'echo $$ >&3; exec 3>&-; " + std::string(kUntilReleased) +
               "' 3>&1 > /dev/null & setsid true & sleep 0.2; exit 4"));
  ASSERT_TRUE(Eventually([&] { return HasEnded(); }));
  const std::optional<core::ProcessIdentity> left = IdentityOf(std::stoi(Log()));
  ASSERT_TRUE(left.has_value());
  EXPECT_THAT(jobs_.Inspect(kId)->left, ElementsAre(*left));
  Release();
  EXPECT_TRUE(Eventually([&] { return !Exists(*left); }));
}

TEST_F(JobsTest, ACommandThatCouldNotBeStartedIsNotNamed) {
  EXPECT_EQ(Run(Spec({"no-such-command"})).exit_code, 127);
  EXPECT_FALSE(jobs_.Inspect(kId)->command.has_value());
}

TEST_F(JobsTest, ALineOfTheLockThatWasNotWrittenToItsEndNamesNobody) {
  std::filesystem::create_directories(jobs_.FolderOf(kId));
  const std::string lock = jobs_.FolderOf(kId) + "/job.lock";
  const std::string boot = " " + BootId() + "\n";
  WriteFile(lock, "10 100" + boot + "11 1");
  EXPECT_EQ(jobs_.Inspect(kId)->shim, (core::ProcessIdentity{10, 100}));
  EXPECT_FALSE(jobs_.Inspect(kId)->command.has_value());
  WriteFile(lock, "10 100" + boot + "11 110" + boot + "12 120" + boot + "13 1");
  EXPECT_EQ(jobs_.Inspect(kId)->command, (core::ProcessIdentity{11, 110}));
  EXPECT_THAT(jobs_.Inspect(kId)->left, ElementsAre(core::ProcessIdentity{12, 120}));
}

TEST_F(JobsTest, ACommandOfAnotherBootIsNobody) {
  std::filesystem::create_directories(jobs_.FolderOf(kId));
  WriteFile(jobs_.FolderOf(kId) + "/job.lock", "10 100 other\n11 110 other\n12 120 other\n");
  const absl::StatusOr<Found> found = jobs_.Inspect(kId);
  EXPECT_EQ(found->state, State::kLost);
  EXPECT_FALSE(found->command.has_value());
  EXPECT_THAT(found->left, ::testing::IsEmpty());
}

TEST_F(JobsTest, AJobWhoseShimWasKilledIsLostAndNotStartedAgain) {
  Hold();
  Start(Script(kUntilReleased));
  ::kill(shim_, SIGKILL);
  ASSERT_EQ(::waitpid(shim_, nullptr, 0), shim_);
  shims_.clear();
  // A child that the shim was just making holds the lock too, until it has become the command.
  ASSERT_TRUE(Eventually([&] { return jobs_.Inspect(kId)->state == State::kLost; }));
  const absl::StatusOr<Found> found = jobs_.Inspect(kId);
  ASSERT_TRUE(found->shim.has_value());
  EXPECT_EQ(found->shim->pid, shim_);
  EXPECT_EQ(jobs_.Start(kId, Script("true")).status().code(), absl::StatusCode::kAlreadyExists);
}

// The shim on its own, with the test in the daemon's place.
class ShimTest : public JobsTest {
 protected:
  ShimTest() {
    std::filesystem::create_directories(jobs_.FolderOf(kId));
    absl::StatusOr<DescriptorPair> pair = MakeSocketPair();
    ours_ = std::move(pair->first);
    theirs_ = *AboveStandard(std::move(pair->second));
  }
  void StartShim() {
    pid_t pid = 0;
    ASSERT_EQ(Spawn({.path = STAGELOAD_SHIM,
                     .argv = {STAGELOAD_SHIM, jobs_.FolderOf(kId)},
                     .environment = {},
                     .descriptors = {{theirs_.get(), kStartChannel}},
                     .place = SpawnRequest::Place::kOwnSession},
                    &pid),
              0);
    shims_.insert(pid);
    theirs_.Close();
  }
  std::string Line() const {
    std::string line;
    char byte = 0;
    while (::read(ours_.get(), &byte, 1) == 1 && byte != '\n') line.push_back(byte);
    return line;
  }
  void WriteSpec(const core::JobSpec& spec) const {
    WriteFile(jobs_.FolderOf(kId) + "/" + kSpecFile, EncodeSpec(spec));
  }

  Descriptor ours_;
  Descriptor theirs_;
};

TEST_F(ShimTest, RunsNothingWhenTheDaemonIsGoneBeforeItSaysGoAndCanBeStartedAgain) {
  WriteSpec(Script("echo first"));
  StartShim();
  ASSERT_EQ(Line(), kLocked);
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kRunning);
  ours_.Close();
  ASSERT_TRUE(Eventually([&] { return jobs_.Inspect(kId)->state == State::kNeverStarted; }));
  EXPECT_EQ(Run(Script("echo second")).exit_code, 0);
  EXPECT_EQ(Log(), "second\n");
}

TEST_F(ShimTest, ASecondShimOnOneFolderRefuses) {
  std::filesystem::remove_all(jobs_.FolderOf(kId));
  Hold();
  Start(Script(kUntilReleased));
  StartShim();
  EXPECT_THAT(Line(),
              ::testing::StartsWith(kTaken + std::string("a shim has taken this job's lock")));
  EXPECT_EQ(jobs_.Inspect(kId)->shim->pid, shim_);
}

TEST_F(ShimTest, ADamagedSpecIsRefusedAndTheLockIsNotTaken) {
  WriteFile(jobs_.FolderOf(kId) + "/" + kSpecFile, "nonsense");
  StartShim();
  EXPECT_THAT(Line(), ::testing::StartsWith(kFailed));
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kNeverStarted);
}

TEST_F(JobsTest, AShimThatCannotBeRunIsUnavailableAndNamed) {
  WriteFile(folder_.path() + "/shim", "");
  jobs_ = Jobs(folder_.path() + "/jobs", folder_.path() + "/shim");
  const absl::Status status = jobs_.Start(kId, Script("true")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.path() + "/shim"));
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kNeverStarted);
}

TEST_F(JobsTest, WithoutAFileToOpenAJobIsNotStartedAndMayBeLater) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few{32, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> taken;
  for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) taken.push_back(fd);
  // One after the other of what a start opens cannot be had. They are looked at when there are
  // files again: UndefinedBehaviorSanitizer wants some for its checks.
  std::vector<absl::Status> told;
  for (int free = 0; free < 3; ++free) {
    told.push_back(jobs_.Start(kId, Script("exit 3")).status());
    ::close(taken.back());
    taken.pop_back();
  }
  for (const int fd : taken) ::close(fd);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  for (const absl::Status& status : told) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("Too many open files"));
  }
  EXPECT_EQ(Run(Script("exit 3")).exit_code, 3);
}

TEST_F(JobsTest, AShimThatIsGoneIsToldWithWhatToDoAndLookedForAgainAtEachStart) {
  jobs_ = Jobs(folder_.path() + "/jobs", "/Cellar/1/bin/stageload-shim");
  std::string found;
  jobs_.FindShimBy([&] { return found; });
  const absl::Status status = jobs_.Start(kId, Script("true")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("/Cellar/1/bin/stageload-shim is gone since stageload was upgraded"),
                    HasSubstr("stageloadctl daemon restart")));
  EXPECT_EQ(jobs_.Inspect(kId)->state, State::kNeverStarted);
  found = STAGELOAD_SHIM;
  EXPECT_EQ(Run(Script("exit 3")).exit_code, 3);
}

TEST(ShimPath, IsFoundByTheLinksThatLedToTheDaemonWhenItsFolderIsGone) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const fs::path root = folder.path();
  const auto install = [&](const std::string& version) {
    const fs::path bin = root / "Cellar/stageload" / version / "bin";
    fs::create_directories(bin);
    for (const char* name : {"stageloadd", "stageload-shim"}) {
      std::ofstream(bin / name) << version;
      fs::permissions(bin / name, fs::perms::owner_all);
    }
    return bin;
  };
  const auto link = [&](const fs::path& target, const fs::path& name) {
    fs::create_directories(name.parent_path());
    fs::remove(name);
    fs::create_symlink(target, name);
  };
  const fs::path first = install("1");
  const std::string daemon = (first / "stageloadd").string();
  link(first.parent_path(), root / "opt/stageload");
  link(first / "stageloadd", root / "local/stageloadd");
  std::ofstream(root / "stageloadd") << "another";
  const std::vector<std::string> paths = PathsOf(
      daemon, "stageloadd", absl::StrCat("bin:", root.string(), ":", root.string(), "/local"));
  EXPECT_THAT(paths, ElementsAre(daemon, (root / "opt/stageload/bin/stageloadd").string(),
                                 (root / "local/stageloadd").string()));
  EXPECT_EQ(PathsOf(daemon, (root / "local/stageloadd").string(), "").back(),
            (root / "local/stageloadd").string())
      << "as it was started";
  EXPECT_EQ(ShimBeside(paths), (first / "stageload-shim").string());

  const fs::path second = install("2");
  fs::remove_all(first.parent_path());
  EXPECT_EQ(ShimBeside(paths), "");
  link(second / "stageloadd", root / "local/stageloadd");
  EXPECT_EQ(ShimBeside(paths), (second / "stageload-shim").string());
  link(second.parent_path(), root / "opt/stageload");
  EXPECT_EQ(ShimBeside(paths), (root / "opt/stageload/bin/stageload-shim").string());
}

TEST_F(JobsTest, AShimThatEndsAtOnceIsUnavailableAndLeavesNoZombie) {
  jobs_ = Jobs(folder_.path() + "/jobs", "/bin/false");
  const absl::Status status = jobs_.Start(kId, Script("true")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("ended before it took the job's lock"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(JobsTest, AShimThatHangsIsGivenUpRunsNothingAndIsReapedLater) {
  Hold();
  const std::string slow = folder_.path() + "/slow-shim";
  WriteFile(slow, "#!/bin/sh\nPATH=/usr/bin:/bin\ncd '" + folder_.path() + "'\n" + kUntilReleased +
                      "\nexec '" STAGELOAD_SHIM "' \"$@\"\n");
  std::filesystem::permissions(slow, std::filesystem::perms::all);
  Jobs impatient(folder_.path() + "/jobs", slow, absl::Milliseconds(50));
  const absl::Status status = impatient.Start(kId, Script("echo never")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("in 50ms"));

  Release();  // it becomes the shim now, finds nobody that says go, and withdraws
  siginfo_t about{};
  ASSERT_EQ(::waitid(P_ALL, 0, &about, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(impatient.Inspect(kId)->state, State::kNeverStarted);
  EXPECT_EQ(Log(), "");

  Start(Script("echo now"));
  EXPECT_TRUE(Eventually([&] { return HasEnded(); }));
  EXPECT_EQ(Log(), "now\n");
  impatient.Start(kId, Script("")).IgnoreError();  // refused, but reaps what was given up
  EXPECT_EQ(::waitpid(about.si_pid, nullptr, WNOHANG), -1);
}

TEST_F(JobsTest, AFolderThatCannotBeMadeIsUnavailableAndNamed) {
  WriteFile(folder_.path() + "/file", "");
  jobs_ = Jobs(folder_.path() + "/file", STAGELOAD_SHIM);
  const absl::Status status = jobs_.Start(kId, Script("true")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(folder_.path() + "/file"));
}

TEST_F(JobsTest, AJobThatNeverWasIsNeverStarted) {
  EXPECT_EQ(jobs_.Inspect(core::JobId{99})->state, State::kNeverStarted);
}

TEST_F(JobsTest, ADamagedResultIsAnErrorThatNamesTheFile) {
  std::filesystem::create_directories(jobs_.FolderOf(kId));
  WriteFile(jobs_.FolderOf(kId) + "/result", "exit_code=zero\n");
  const absl::Status status = jobs_.Inspect(kId).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(jobs_.FolderOf(kId) + "/result"));
}

TEST_F(JobsTest, WhatAJobLeavesIsForTheUserAloneAndTheSpecCanBeForgotten) {
  EXPECT_EQ(Run(Script("echo x")).exit_code, 0);
  const std::string job = jobs_.FolderOf(kId);
  for (const auto& [path, mode] :
       std::vector<std::pair<std::string, mode_t>>{{folder_.path() + "/jobs", 0700},
                                                   {job, 0700},
                                                   {job + "/spec", 0600},
                                                   {job + "/job.lock", 0600},
                                                   {job + "/log.0", 0600},
                                                   {job + "/result", 0600}}) {
    struct stat about {};
    ASSERT_EQ(::stat(path.c_str(), &about), 0) << path;
    EXPECT_EQ(about.st_mode & 0777, mode) << path;
  }
  EXPECT_TRUE(jobs_.DropSpec(kId).ok());
  EXPECT_FALSE(std::filesystem::exists(job + "/spec"));
  EXPECT_TRUE(jobs_.DropSpec(kId).ok());
  EXPECT_EQ(Log(), "x\n");
}

}  // namespace
}  // namespace stageload::jobs
