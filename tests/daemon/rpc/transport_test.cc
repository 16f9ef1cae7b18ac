// Clients that are counted against the daemon's threads and descriptors run in a process of their
// own: this program started anew with kClient set, since gRPC must not be forked.
#include "daemon/rpc/transport.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/client_callback.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/own_program.h"
#include "daemon/rpc/connection.h"
#include "daemon/rpc/listening_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "stageload/v1/admin_service.grpc.pb.h"
#include "tests/daemon/rpc/serving_thread.h"
#include "tests/daemon/rpc/socket_fixture.h"

extern char** environ;

namespace stageload::rpc {
namespace {

constexpr char kClient[] = "STAGELOAD_TRANSPORT_TEST_CLIENT";  // "COUNT SOCKET"
constexpr uid_t kNobody = 65534;
constexpr int kMaxMessageBytes = 4 << 20;

std::shared_ptr<grpc::Channel> NewChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);  // a connection of its own
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// A connection and one call on it at a time.
class Client {
 public:
  explicit Client(const std::string& socket)
      : channel_(NewChannel(socket)), stub_(v1::AdminService::NewStub(channel_)) {}

  grpc::Status GetVersion(v1::GetVersionResponse& response, absl::Duration within) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + within));
    return stub_->GetVersion(&context, {}, &response);
  }
  // The pid that the daemon sees, or the error's code as a negative number.
  int PidSeen() {
    v1::GetVersionResponse response;
    const auto status = GetVersion(response, absl::Seconds(30));
    return status.ok() ? response.pid() : -static_cast<int>(status.error_code());
  }
  v1::AdminService::Stub& stub() { return *stub_; }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::AdminService::Stub> stub_;
};

// What the client process does: says "y" once all its connections have seen its own pid (else "n"),
// and keeps them until its stdin ends.
int RunClients(const std::string& command) {
  const auto space = command.find(' ');
  int count = 0;
  if (space == std::string::npos || !absl::SimpleAtoi(command.substr(0, space), &count)) return 2;
  bool right = true;
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < count; ++i) {
    clients.push_back(std::make_unique<Client>(command.substr(space + 1)));
    right = clients.back()->PidSeen() == ::getpid() && right;
  }
  char byte = right ? 'y' : 'n';
  if (::write(STDOUT_FILENO, &byte, 1) != 1) return 3;
  while (::read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

class ClientProcess {
 public:
  ClientProcess(int count, const std::string& socket) {
    if (::pipe(in_) != 0 || ::pipe(out_) != 0) std::abort();
    for (const int end : {in_[0], in_[1], out_[0], out_[1]}) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in_[0], STDIN_FILENO);
    ::posix_spawn_file_actions_adddup2(&actions, out_[1], STDOUT_FILENO);
    std::string variable = absl::StrCat(kClient, "=", count, " ", socket);
    std::vector<char*> environment = {variable.data()};
    for (char** one = environ; *one != nullptr; ++one) environment.push_back(*one);
    environment.push_back(nullptr);
    std::string program = OwnProgram();
    char* const argv[] = {program.data(), nullptr};
    if (::posix_spawn(&pid_, program.c_str(), &actions, nullptr, argv, environment.data()) != 0) {
      std::abort();
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in_[0]);
    ::close(out_[1]);
  }
  ~ClientProcess() { End(SIGKILL); }
  ClientProcess(const ClientProcess&) = delete;
  ClientProcess& operator=(const ClientProcess&) = delete;

  // Waits until it has connected; whether the daemon saw its pid each time.
  bool SeesItsPid() {
    char byte = 0;
    return ::read(out_[0], &byte, 1) == 1 && byte == 'y';
  }
  // Lets it close its connections and end, or kills it.
  void End(int signal = 0) {
    if (pid_ == 0) return;
    if (signal != 0) ::kill(pid_, signal);
    ::close(in_[1]);
    ::waitpid(std::exchange(pid_, 0), nullptr, 0);
    ::close(out_[0]);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = 0;
  int in_[2];
  int out_[2];
};

// Answers GetVersion with the peer's pid at once, and Shutdown only when the call is cancelled.
class Service final : public v1::AdminService::CallbackService {
 public:
  struct Counts {
    std::atomic<int> alive = 0;
    std::atomic<int> waiting = 0;
    std::atomic<int> cancelled = 0;
  };

  Service(const Peer& peer, Counts& counts) : peer_(peer), counts_(counts) { ++counts_.alive; }
  ~Service() override { --counts_.alive; }

  grpc::ServerUnaryReactor* GetVersion(grpc::CallbackServerContext* context,
                                       const v1::GetVersionRequest*,
                                       v1::GetVersionResponse* response) override {
    response->set_pid(peer_.pid);
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Shutdown(grpc::CallbackServerContext*, const v1::ShutdownRequest*,
                                     v1::ShutdownResponse*) override {
    class Waiting final : public grpc::ServerUnaryReactor {
     public:
      explicit Waiting(Counts& counts) : counts_(counts) { ++counts_.waiting; }

     private:
      void OnCancel() override {
        ++counts_.cancelled;
        Finish(grpc::Status::CANCELLED);
      }
      void OnDone() override { delete this; }
      Counts& counts_;
    };
    return new Waiting(counts_);
  }

 private:
  const Peer peer_;
  Counts& counts_;
};

int Threads() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    int threads = 0;
    if (line.starts_with("Threads:") && absl::SimpleAtoi(line.substr(8), &threads)) return threads;
  }
  return -1;
}

int OpenFiles() {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    static_cast<void>(entry);
    ++count;
  }
  return count;
}

class TransportTest : public ::testing::Test {
 protected:
  TransportTest() {
    Paths paths;
    paths.socket = temp_.path() + "/home/d.sock";
    paths.lock = temp_.path() + "/home/d.lock";
    auto opened = ListeningSocket::Open(paths);
    if (!opened.ok()) throw std::runtime_error(opened.status().ToString());
    socket_.emplace(*std::move(opened));
    path_ = paths.socket;
    options_.services = [this](const Peer& peer) {
      ServiceObjects services;
      services.registered.push_back(std::make_unique<Service>(peer, counts_));
      return services;
    };
  }

  void Start() {
    transport_.emplace(options_);
    const auto status = transport_->Start(socket_->fd());
    ASSERT_TRUE(status.ok()) << status;
    serving_.emplace(*transport_);
  }
  void Stop(absl::Duration within) {
    serving_.reset();
    transport_->Stop(within);
  }

  Socket RawClient() { return Socket::ConnectedTo(path_); }
  bool Reach(int connections) {
    return Eventually([&] { return transport_->connections() == connections; });
  }
  // How long Stop(within) takes.
  absl::Duration StopTakes(absl::Duration within) {
    const absl::Time before = absl::Now();
    Stop(within);
    return absl::Now() - before;
  }

  TemporaryFolder temp_;
  std::string path_;
  std::optional<ListeningSocket> socket_;
  Service::Counts counts_;
  Transport::Options options_;
  std::optional<Transport> transport_;
  std::optional<ServingThread<Transport>> serving_;
};

TEST_F(TransportTest, EachServiceKnowsTheProcessItTalksTo) {
  Start();
  ClientProcess other(3, path_);
  EXPECT_EQ(Client(path_).PidSeen(), ::getpid());
  EXPECT_NE(other.pid(), ::getpid());
  EXPECT_TRUE(other.SeesItsPid());
}

TEST_F(TransportTest, ManyConnectionsTakeFewThreadsAndAllGoesBackWhenTheyLeave) {
  Start();
  {
    ClientProcess warm(1, path_);
    ASSERT_TRUE(warm.SeesItsPid());
  }
  ASSERT_TRUE(Reach(0));
  const int files = OpenFiles();
  ClientProcess clients(200, path_);
  ASSERT_TRUE(clients.SeesItsPid());
  EXPECT_EQ(transport_->connections(), 200);
  EXPECT_EQ(counts_.alive, 200);
  EXPECT_LE(Threads(), 16);
  EXPECT_GE(OpenFiles(), files + 200);
  clients.End();
  ASSERT_TRUE(Reach(0));
  EXPECT_EQ(counts_.alive, 0) << "services live as long as their connection";
  EXPECT_TRUE(Eventually([&] { return OpenFiles() <= files; })) << OpenFiles() << " of " << files;
}

TEST_F(TransportTest, ConnectionsOfAKilledProcessAreGivenUp) {
  Start();
  ClientProcess clients(20, path_);
  ASSERT_TRUE(clients.SeesItsPid());
  clients.End(SIGKILL);
  EXPECT_TRUE(Reach(0));
  EXPECT_EQ(counts_.alive, 0);
}

TEST_F(TransportTest, ACallIsCancelledWhenItsClientLeaves) {
  Start();
  {
    Client client(path_);
    grpc::ClientContext context;
    v1::ShutdownRequest request;
    v1::ShutdownResponse response;
    std::promise<void> done;
    client.stub().async()->Shutdown(&context, &request, &response,
                                    [&](const grpc::Status&) { done.set_value(); });
    ASSERT_TRUE(Eventually([&] { return counts_.waiting == 1; }));
    context.TryCancel();
    done.get_future().wait();
  }
  EXPECT_TRUE(Eventually([&] { return counts_.cancelled == 1; }));
  EXPECT_TRUE(Reach(0));
}

TEST_F(TransportTest, AForeignUserIsCutOffAndCounted) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  // Let it reach the socket: what is tested is that it gets no further.
  ASSERT_EQ(::chmod(temp_.path().c_str(), 0711), 0);
  ASSERT_EQ(::chmod((temp_.path() + "/home").c_str(), 0711), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  const pid_t child = ::fork();  // before gRPC starts
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(2);
    const Socket client = RawClient();  // waits in the backlog until the transport runs
    if (client.fd() < 0) ::_exit(3);
    ::_exit(client.SeesTheEnd() ? 0 : 4);
  }
  Start();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_EQ(transport_->refused(), 1);
  EXPECT_EQ(counts_.alive, 0);
}

TEST_F(TransportTest, AnAllowedForeignUserIsServed) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  ASSERT_EQ(::chmod(temp_.path().c_str(), 0711), 0);
  ASSERT_EQ(::chmod((temp_.path() + "/home").c_str(), 0711), 0);
  ASSERT_EQ(::chmod(path_.c_str(), 0666), 0);
  options_.allowed_uids = {kNobody};
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setuid(kNobody) != 0) ::_exit(2);
    const Socket client = RawClient();
    ::_exit(client.fd() >= 0 && client.SeesTheEnd() ? 0 : 3);  // cut off by Stop()
  }
  Start();
  EXPECT_TRUE(Reach(1));
  EXPECT_EQ(transport_->refused(), 0);
  Stop(absl::ZeroDuration());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST_F(TransportTest, OneMoreThanTheMostIsClosedAndTheNextAfterADepartureServed) {
  options_.max_connections = 2;
  Start();
  std::optional<Socket> first(RawClient());
  const Socket second = RawClient();
  ASSERT_TRUE(Reach(2));
  EXPECT_TRUE(RawClient().SeesTheEnd());
  EXPECT_EQ(transport_->refused(), 1);
  first.reset();
  ASSERT_TRUE(Reach(1));
  EXPECT_EQ(Client(path_).PidSeen(), ::getpid());
}

TEST_F(TransportTest, AMessageThatIsTooLargeIsRefusedAndTheConnectionGoesOn) {
  Start();
  Client client(path_);
  // GetVersionRequest has no field of ours, so an unknown one carries the bytes.
  v1::GetVersionRequest request;
  request.GetReflection()->MutableUnknownFields(&request)->AddLengthDelimited(
      1000, std::string(kMaxMessageBytes + 1, 'x'));
  grpc::ClientContext context;
  v1::GetVersionResponse response;
  EXPECT_EQ(client.stub().GetVersion(&context, request, &response).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(client.PidSeen(), ::getpid());
  EXPECT_EQ(transport_->connections(), 1);
}

TEST_F(TransportTest, StopClosesIdleConnectionsWithinItsDeadline) {
  Start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<Client>(path_));
    ASSERT_EQ(clients.back()->PidSeen(), ::getpid());
  }
  EXPECT_LT(StopTakes(absl::Seconds(2)), absl::Seconds(3));
  EXPECT_EQ(transport_->connections(), 0);
  EXPECT_EQ(counts_.alive, 0);
}

TEST_F(TransportTest, StopCancelsAllRunningCallsAtOneDeadline) {
  Start();
  constexpr int kCalls = 10;
  struct Call {
    explicit Call(const std::string& path) : client(path) {}
    Client client;
    grpc::ClientContext context;
    v1::ShutdownRequest request;
    v1::ShutdownResponse response;
    std::promise<grpc::Status> done;
  };
  std::vector<std::unique_ptr<Call>> calls;
  for (int i = 0; i < kCalls; ++i) {
    calls.push_back(std::make_unique<Call>(path_));
    Call& call = *calls.back();
    call.client.stub().async()->Shutdown(
        &call.context, &call.request, &call.response,
        [&call](const grpc::Status& status) { call.done.set_value(status); });
  }
  ASSERT_TRUE(Eventually([&] { return counts_.waiting == kCalls; }));
  const absl::Duration taken = StopTakes(absl::Milliseconds(500));
  EXPECT_GE(taken, absl::Milliseconds(500)) << "calls must have their time";
  EXPECT_LT(taken, absl::Seconds(1.5)) << "one deadline for all";
  EXPECT_EQ(counts_.cancelled, kCalls);
  EXPECT_EQ(counts_.alive, 0);
  for (const auto& call : calls) EXPECT_FALSE(call->done.get_future().get().ok());
}

TEST_F(TransportTest, AClientThatNeverSpeaksBlocksNeitherOthersNorStop) {
  Start();
  const Socket silent = RawClient();
  ASSERT_TRUE(Reach(1));
  EXPECT_EQ(Client(path_).PidSeen(), ::getpid());
  EXPECT_LT(StopTakes(absl::Seconds(20)), absl::Seconds(5)) << "there is nothing to wait for";
  EXPECT_TRUE(silent.SeesTheEnd());
}

TEST_F(TransportTest, AClientThatSpeaksAndThenIgnoresUsIsCutOffAtTheDeadline) {
  Start();
  const Socket deaf = RawClient();
  // The connection preface and an empty SETTINGS frame, RFC 9113, 3.4 and 6.5.
  const std::string preface("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  ASSERT_EQ(::write(deaf.fd(), preface.data(), preface.size()), 33);
  ASSERT_TRUE(Eventually([&] { return counts_.alive == 1; }));
  EXPECT_LT(StopTakes(absl::Milliseconds(300)), absl::Seconds(1.3));
  EXPECT_TRUE(deaf.SeesTheEnd());
}

TEST_F(TransportTest, AClientThatStaysSilentTooLongIsCutOff) {
  options_.silence = absl::Milliseconds(1);
  Start();
  const Socket silent = RawClient();
  EXPECT_TRUE(silent.SeesTheEnd());
  EXPECT_TRUE(Reach(0));
}

TEST_F(TransportTest, GarbageClosesOnlyTheConnectionItCameOn) {
  Start();
  Client good(path_);
  ASSERT_EQ(good.PidSeen(), ::getpid());
  const Socket bad = RawClient();
  const std::string garbage = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  ASSERT_EQ(::write(bad.fd(), garbage.data(), garbage.size()),
            static_cast<ssize_t>(garbage.size()));
  EXPECT_TRUE(bad.SeesTheEnd());
  EXPECT_TRUE(Reach(1));
  EXPECT_EQ(good.PidSeen(), ::getpid());
}

TEST_F(TransportTest, WithoutDescriptorsItWaitsWithoutSpinningAndThenGoesOn) {
  Start();
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_GE(before.rlim_cur, std::min<rlim_t>(before.rlim_max, 8192)) << "Start() raises it";
  const Socket first = RawClient();
  const Socket second = RawClient();
  ASSERT_TRUE(Reach(2));
  // Connects while descriptors are left, and is accepted when there are none.
  const int spare = ::socket(AF_UNIX, SOCK_STREAM, 0);
  const rlimit none{static_cast<rlim_t>(spare + 1), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(::connect(spare, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  const std::clock_t cpu = std::clock();
  ::poll(nullptr, 0, 300);  // what is measured is what happens in a time, not that it happened
  const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  EXPECT_LT(used, 0.15) << "seconds of CPU in 0.3 s";
  EXPECT_EQ(transport_->connections(), 2);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(Reach(3));
  ::close(spare);
}

TEST_F(TransportTest, StopWorksWithoutStartTwiceAndWithoutConnections) {
  Transport never(options_);
  never.Stop(absl::ZeroDuration());
  Start();
  EXPECT_FALSE(transport_->Start(socket_->fd()).ok());
  EXPECT_LT(StopTakes(absl::Seconds(10)), absl::Seconds(3));
  transport_->Stop(absl::ZeroDuration());
}

TEST_F(TransportTest, TheEndOfTheTransportStopsIt) {
  Start();
  Client client(path_);
  ASSERT_EQ(client.PidSeen(), ::getpid());
  serving_.reset();
  transport_.reset();
  EXPECT_EQ(counts_.alive, 0);
}

}  // namespace

int RunClientsIfAsked() {
  const char* command = std::getenv(kClient);
  return command == nullptr ? -1 : RunClients(command);
}

}  // namespace stageload::rpc

int main(int argc, char** argv) {
  if (const int code = stageload::rpc::RunClientsIfAsked(); code >= 0) return code;
  ::testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
