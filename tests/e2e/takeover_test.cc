// The daemon with a listening socket that was passed to it, and with another that has its home.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

std::vector<char*> Pointers(std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (std::string& string : strings) pointers.push_back(string.data());
  pointers.push_back(nullptr);
  return pointers;
}

sockaddr_un Address(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  return address;
}

// Holds the listening socket as systemd does, and starts a daemon with it as descriptor 3.
class Takeover : public DaemonTest {
 protected:
  void SetUp() override {
    DaemonTest::SetUp();
    std::filesystem::create_directory(home());
    ASSERT_EQ(::chmod(home().c_str(), 0700), 0);
    Listen();
  }
  void TearDown() override {
    End(SIGTERM);
    if (listener_ >= 0) ::close(listener_);
    DaemonTest::TearDown();
  }

  void Listen() {
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address(paths().socket);
    ASSERT_EQ(::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(::listen(listener_, SOMAXCONN), 0);
  }
  void Start(const std::string& flag = "--service") {
    std::vector<std::string> argv = {kDaemonProgram, flag};
    // LISTEN_PID is only known in the child, where nothing may be allocated.
    std::vector<std::string> environment = Environment(
        {"LISTEN_FDS=1", "LISTEN_FDNAMES=Listeners", "LISTEN_PID=" + std::string(12, '\0')});
    char* const own_pid = environment.back().data() + sizeof("LISTEN_PID=") - 1;
    const std::vector<char*> arguments = Pointers(argv), variables = Pointers(environment);
    const std::string errors = PathOf("output/passed.err");
    pid_ = ::fork();
    if (pid_ != 0) return;
    char digits[12];
    int count = 0;
    for (pid_t rest = ::getpid(); rest > 0; rest /= 10) {
      digits[count++] = static_cast<char>('0' + rest % 10);
    }
    for (int i = 0; i < count; ++i) own_pid[i] = digits[count - 1 - i];
    ::dup2(::open(errors.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600), 2);
    ::dup2(listener_, 3);
    ::fcntl(3, F_SETFD, 0);  // of a dup2() onto itself it stays close-on-exec
    ::execve(kDaemonProgram, arguments.data(), variables.data());
    ::_exit(127);
  }
  // Its exit code as a shell has it.
  int End(int signal) {
    if (pid_ <= 0) return 0;
    ::kill(pid_, signal);
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Not DaemonPid(): a file that is being written is no failure here.
  bool HasHome(pid_t pid) const {
    return ReadFile(paths().lock).starts_with(absl::StrCat(pid, "\n"));
  }
  // Waits in the socket's queue when no daemon is there. -1 with errno when refused.
  int Dial() const {
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = Address(paths().socket);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
      ::fcntl(fd, F_SETFL, O_NONBLOCK);
      return fd;
    }
    const int failed = errno;
    ::close(fd);
    errno = failed;
    return -1;
  }

  const CtlOptions kAlone{.environment = {"STAGELOAD_NO_AUTOSTART=1"}};
  int listener_ = -1;
  pid_t pid_ = -1;
};

TEST_F(Takeover, WhoConnectedBeforeItStartedIsServed) {
  ChildProcess waits = StartCtl({"daemon", "status"}, kAlone);
  const absl::Time then = absl::Now();
  ASSERT_TRUE(Eventually([&] { return absl::Now() - then > absl::Milliseconds(300); }));
  ASSERT_TRUE(waits.Running()) << "it did not wait: " << waits.Out() << waits.Err();
  Start();
  const Result result = waits.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, HasSubstr(absl::StrCat("pid ", pid_)));
  EXPECT_EQ(DaemonPid(), pid_);
}

TEST_F(Takeover, TheSocketsFileOutlivesItAndTheNextOneTakesItOver) {
  Start();
  ASSERT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_TRUE(std::filesystem::exists(paths().socket));
  Start();
  EXPECT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
}

TEST_F(Takeover, ItsJobsAndHooksGetNeitherTheSocketNorItsVariables) {
  WriteConfig("on_end = 'env > " + PathOf("hook") + "; ls -l /proc/self/fd >> " + PathOf("hook") +
              "; touch " + PathOf("told") + "'\n");
  Start();
  const Result run = Ctl({"run", "--wait-free", "0", "--", "sh", "-c", "env; ls -l /proc/self/fd"});
  EXPECT_EQ(run.exit_code, 0) << run;
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("LISTEN_")));
  EXPECT_THAT(run.out, ::testing::Not(HasSubstr("socket:")));
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(PathOf("told")); }));
  EXPECT_THAT(ReadFile(PathOf("hook")), ::testing::Not(HasSubstr("LISTEN_")));
  EXPECT_THAT(ReadFile(PathOf("hook")), ::testing::Not(HasSubstr("socket:")));
}

TEST_F(Takeover, AFolderThatOthersMayReadIsRefusedAllTheSame) {
  ASSERT_EQ(::chmod(home().c_str(), 0755), 0);
  Start();
  int status = 0;
  ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadFile(PathOf("output/passed.err")), HasSubstr("chmod 700 " + home()));
}

// 200 clients connect, submit and connect again while the daemon is ended and started 20 times, by
// SIGTERM and SIGKILL in turn.
TEST_F(Takeover, TwoHundredClientsSeeTwentyRestartsWithoutARefusalOrALostSubmit) {
  constexpr int kClients = 200;
  constexpr int kRestarts = 20;
  std::atomic<bool> stop = false;
  std::atomic<int> connects = 0, refused = 0, broken = 0;
  std::mutex mutex;
  std::map<std::string, std::int64_t> acknowledged;  // by request id

  const auto client = [&](int number) {
    for (int turn = 0; !stop; ++turn) {
      v1::SubmitJobRequest request;
      request.set_request_id(absl::StrCat("request-", number, "-", turn));
      request.add_arguments("/bin/true");
      request.set_working_directory("/");
      request.mutable_terms()->set_held(true);
      // Until it is acknowledged: the same request is never queued twice.
      for (bool done = false; !done;) {
        const int fd = Dial();
        if (fd < 0) {
          ++refused;
          return;
        }
        ++connects;
        const auto stub = v1::JobService::NewStub(grpc::CreateInsecureChannelFromFd("daemon", fd));
        grpc::ClientContext context;
        context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
        v1::SubmitJobResponse response;
        const grpc::Status status = stub->SubmitJob(&context, request, &response);
        if (status.ok()) {
          const std::lock_guard<std::mutex> lock(mutex);
          acknowledged[request.request_id()] = response.job().id();
          done = true;
        } else if (status.error_code() == grpc::StatusCode::UNAVAILABLE ||
                   status.error_code() == grpc::StatusCode::CANCELLED) {
          ++broken;  // the daemon went away in the middle of it
        } else {
          ADD_FAILURE() << status.error_code() << " " << status.error_message();
          return;
        }
      }
    }
  };

  Start();
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) clients.emplace_back(client, i);
  for (int i = 0; i < kRestarts; ++i) {
    const std::size_t before = [&] {
      const std::lock_guard<std::mutex> lock(mutex);
      return acknowledged.size();
    }();
    if (!Eventually([&] {
          const std::lock_guard<std::mutex> lock(mutex);
          return acknowledged.size() > before + 20 && HasHome(pid_);
        })) {
      ADD_FAILURE() << "nobody is served after restart " << i;
      break;
    }
    const int signal = i % 2 == 0 ? SIGTERM : SIGKILL;
    EXPECT_EQ(End(signal), signal == SIGTERM ? 0 : 128 + SIGKILL);
    Start();
  }
  stop = true;
  for (std::thread& thread : clients) thread.join();

  std::printf("%d connects, %d calls cut off by a restart, %zu submits acknowledged\n",
              connects.load(), broken.load(), acknowledged.size());
  EXPECT_EQ(refused, 0);
  std::set<std::int64_t> ids;
  const nlohmann::json queue = CtlJson({"queue", "--all"});
  for (const nlohmann::json& job : queue.at("jobs")) {
    ids.insert(job.at("id").get<std::int64_t>());
  }
  for (const auto& [request, id] : acknowledged) {
    EXPECT_EQ(ids.erase(id), 1u) << request << " was acknowledged as job " << id << " and is lost";
  }
  EXPECT_TRUE(ids.empty()) << ids.size() << " jobs were queued that nobody was told of";
}

// ---- One home, two daemons ----

TEST_F(Takeover, AServiceWaitsForADaemonStartedByHandAndGoesOnWhenThatEnds) {
  std::filesystem::remove(paths().socket);
  StartDaemon();
  Start("--service");
  ASSERT_TRUE(Eventually(
      [&] { return ReadFile(PathOf("output/passed.err")).find("waits") != std::string::npos; }));
  EXPECT_EQ(DaemonPid(), daemon().pid());
  EXPECT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
  daemon().Signal(SIGTERM);
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  EXPECT_TRUE(Eventually([&] { return HasHome(pid_); }));
}

TEST_F(Takeover, AServiceThatWaitsEndsWithZeroWhenTold) {
  std::filesystem::remove(paths().socket);
  StartDaemon();
  Start("--service");
  ASSERT_TRUE(Eventually(
      [&] { return ReadFile(PathOf("output/passed.err")).find("waits") != std::string::npos; }));
  EXPECT_EQ(End(SIGTERM), 0);
  EXPECT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
}

TEST_F(Takeover, ADaemonThatAClientHasStartedMakesRoomForTheServiceAndItsJobsRunOn) {
  ::close(std::exchange(listener_, -1));
  std::filesystem::remove(paths().socket);
  const std::int64_t id = Submit(Arguments{"--wait-free", "0", "--"} + UntilExists(PathOf("go")));
  ASSERT_TRUE(Reaches(id, "RUNNING"));
  const pid_t first = DaemonPid();
  ChildProcess service = StartDaemonProgram({"--service"});
  EXPECT_TRUE(Eventually([&] { return HasHome(service.pid()); }));
  EXPECT_TRUE(Eventually([&] { return Ctl({"daemon", "status"}, kAlone).exit_code == 0; }));
  EXPECT_NE(first, service.pid());
  EXPECT_EQ(Daemons().size(), 1u);
  EXPECT_EQ(StateOf(id), "RUNNING");
  Touch(PathOf("go"));
  EXPECT_TRUE(Reaches(id, "COMPLETED"));
  service.Signal(SIGTERM);
  EXPECT_EQ(service.Wait().exit_code, 0);
}

// ---- The path, and another socket there ----

// As launchd does when it loads the agent in two sessions.
TEST_F(Takeover, WhereAnotherSocketTakesThePathTheDaemonThatHasThatOneServes) {
  Start();
  ASSERT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
  const pid_t first = std::exchange(pid_, -1);
  const int passed_first = std::exchange(listener_, -1);
  std::filesystem::remove(paths().socket);
  Listen();
  Start();
  int status = 0;
  EXPECT_EQ(::waitpid(first, &status, 0), first);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  const Result answer = Ctl({"daemon", "status"}, kAlone);
  EXPECT_EQ(answer.exit_code, 0) << answer;
  EXPECT_THAT(answer.out, HasSubstr(absl::StrCat("pid ", pid_)));
  // Started again with the socket that it had, it finds no place to serve.
  EXPECT_EQ(End(SIGTERM), 0);
  const int passed_second = std::exchange(listener_, passed_first);
  Start();
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = -1;
  EXPECT_EQ(WEXITSTATUS(status), 1);
  EXPECT_THAT(ReadFile(PathOf("output/passed.err")), HasSubstr("is not our socket any more"));
  ::close(std::exchange(listener_, passed_second));
  Start();
  EXPECT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
}

TEST_F(Takeover, WhenTheSocketsFileIsRemovedItEndsAndTheNextOneServesThere) {
  Start();
  ASSERT_EQ(Ctl({"daemon", "status"}, kAlone).exit_code, 0);
  std::filesystem::remove(paths().socket);
  int status = 0;
  EXPECT_EQ(::waitpid(pid_, &status, 0), pid_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  Start();
  EXPECT_TRUE(Eventually([&] { return HasHome(pid_) && std::filesystem::exists(paths().socket); }));
  const Result answer = Ctl({"daemon", "status"}, kAlone);
  EXPECT_EQ(answer.exit_code, 0) << answer;
  const std::string log = ReadFile(home() + "/log/stageloadd.log");
  EXPECT_THAT(log, HasSubstr("the socket's file " + paths().socket + " is gone"));
  EXPECT_THAT(log, HasSubstr("socket_lost"));
}

// ---- The real thing ----

TEST_F(Takeover, SystemdSocketActivatePassesItsSocketOn) {
  const std::string activate = "/usr/bin/systemd-socket-activate";
  if (::access(activate.c_str(), X_OK) != 0) GTEST_SKIP() << "no " << activate;
  ::close(std::exchange(listener_, -1));
  std::filesystem::remove(paths().socket);
  ChildProcess systemd({.argv = {activate, "-l", paths().socket, "-E", "STAGELOAD_HOME=" + home(),
                                 "-E", "HOME=" + folder(), kDaemonProgram, "--service"},
                        .environment = Environment(),
                        .directory = folder(),
                        .input = "",
                        .output = PathOf("output/activate")});
  ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(paths().socket); }));
  const Result status = Ctl({"daemon", "status"}, kAlone);
  EXPECT_EQ(status.exit_code, 0) << status << systemd.Err();
  EXPECT_EQ(DaemonPid(), systemd.pid());  // it becomes the daemon
  systemd.Signal(SIGTERM);
  EXPECT_EQ(systemd.Wait().exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(paths().socket));
}

}  // namespace
}  // namespace stageload::e2e
