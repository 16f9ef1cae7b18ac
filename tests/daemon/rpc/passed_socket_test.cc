#include "daemon/rpc/passed_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "daemon/rpc/listening_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/rpc/socket_fixture.h"

namespace stageload::rpc {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class PassedSocketTest : public ::testing::Test {
 protected:
  Paths Home() const {
    Paths paths;
    paths.state = paths.runtime = temp_.path() + "/home";
    paths.socket = paths.state + "/stageloadd.sock";
    paths.lock = paths.state + "/stageloadd.lock";
    return paths;
  }
  // A socket that listens at the home's path, as systemd makes it.
  Socket Listening() const {
    fs::create_directory(Home().runtime);
    ::chmod(Home().runtime.c_str(), 0700);
    Socket socket = Socket::BoundTo(Home().socket);
    EXPECT_EQ(::listen(socket.fd(), 16), 0);
    return socket;
  }
  static void AcceptAll(const ListeningSocket& socket) {
    for (int fd; (fd = ::accept(socket.fd(), nullptr, nullptr)) >= 0;) ::close(fd);
  }
  void ExpectRefused(int fd, const std::string& what) const {
    const absl::Status status = CheckPassedSocket(fd, Home().socket);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(what));
    EXPECT_THAT(std::string(status.message()), HasSubstr("stageloadctl daemon install"));
  }

  // Passed that socket, the daemon makes one of its own in the home, and takes that away again.
  void ListensWithItsOwn(int passed) const {
    {
      auto taken = ListeningSocket::Lock(Home());
      ASSERT_TRUE(taken.ok()) << taken.status();
      const absl::Status status = taken->TakeOver(::dup(passed));
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_FALSE(taken->IsPassed());
      EXPECT_TRUE(taken->CheckReached().ok());
      AcceptAll(*taken);
      const Socket client = Socket::ConnectedTo(Home().socket);
      EXPECT_GE(client.fd(), 0);
      const int accepted = ::accept(taken->fd(), nullptr, nullptr);
      EXPECT_GE(accepted, 0);
      ::close(accepted);
    }
    EXPECT_FALSE(fs::exists(Home().socket)) << "it has made this one";
  }

  TemporaryFolder temp_;
};

TEST_F(PassedSocketTest, AListeningSocketAtTheClientsPathIsTakenAndMadeNonBlocking) {
  const Socket socket = Listening();
  EXPECT_EQ(::fcntl(socket.fd(), F_GETFL) & O_NONBLOCK, 0);
  const absl::Status status = CheckPassedSocket(socket.fd(), Home().socket);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_NE(::fcntl(socket.fd(), F_GETFL) & O_NONBLOCK, 0);
}

TEST_F(PassedSocketTest, WhatIsNoListeningUnixStreamSocketIsNamed) {
  const Socket listening = Listening();
  const int file = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ExpectRefused(file, "is no socket");
  ::close(file);
  const int inet = ::socket(AF_INET, SOCK_STREAM, 0);
  ExpectRefused(inet, "is no Unix socket");
  ::close(inet);
  const int datagrams = ::socket(AF_UNIX, SOCK_DGRAM, 0);
  ExpectRefused(datagrams, "is no stream socket");
  ::close(datagrams);
  ExpectRefused(Socket::ConnectedTo(Home().socket).fd(), "does not listen");
}

TEST_F(PassedSocketTest, ASocketAtAnotherPathThanTheClientsIsNamedWithBoth) {
  const Socket listening = Listening();
  const Socket elsewhere = Socket::BoundTo(Home().runtime + "/other.sock");
  ASSERT_EQ(::listen(elsewhere.fd(), 1), 0);
  ExpectRefused(elsewhere.fd(), Home().runtime + "/other.sock");
  ExpectRefused(elsewhere.fd(), Home().socket);
}

TEST_F(PassedSocketTest, APathThroughASymbolicLinkIsTheSamePath) {
  const Socket socket = Listening();
  fs::create_directory_symlink(Home().runtime, temp_.path() + "/link");
  const absl::Status status =
      CheckPassedSocket(socket.fd(), temp_.path() + "/link/stageloadd.sock");
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(PassedSocketTest, WhereItsFileIsGoneTheDaemonListensWithASocketOfItsOwn) {
  const Socket socket = Listening();
  fs::remove(Home().socket);
  ListensWithItsOwn(socket.fd());
}

// As after a daemon that listened with a socket of its own and was killed: systemd passes the
// socket whose file went to the next one too.
TEST_F(PassedSocketTest, WhereADeadSocketHasItsPlaceTheDaemonListensWithASocketOfItsOwn) {
  const Socket socket = Listening();
  fs::remove(Home().socket);
  { Socket::BoundTo(Home().socket); }  // closed, its file stays
  ListensWithItsOwn(socket.fd());
}

TEST_F(PassedSocketTest, AFileInItsPlaceIsKeptAndNamed) {
  const Socket socket = Listening();
  fs::remove(Home().socket);
  std::ofstream(Home().socket) << "precious";
  auto taken = ListeningSocket::Lock(Home());
  ASSERT_TRUE(taken.ok()) << taken.status();
  const absl::Status status = taken->TakeOver(::dup(socket.fd()));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("move it away"));
  EXPECT_TRUE(fs::is_regular_file(Home().socket));
}

// As launchd does when it loads one agent in two sessions: the later one has the path.
TEST_F(PassedSocketTest, ASocketWhosePathAnotherHasByNowIsRefusedAndThatOneLeftAlone) {
  const Socket first = Listening();
  fs::remove(Home().socket);
  const Socket second = Socket::BoundTo(Home().socket);
  ASSERT_EQ(::listen(second.fd(), 0), 0);
  // The first look leaves a connection, and with it the queue is full.
  for (const char* queue : {"empty", "full"}) {
    auto taken = ListeningSocket::Lock(Home());
    ASSERT_TRUE(taken.ok()) << taken.status();
    const absl::Status status = taken->TakeOver(::dup(first.fd()));
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << queue << " queue: " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not our socket any more"));
  }
  EXPECT_TRUE(fs::exists(Home().socket));
}

TEST_F(PassedSocketTest, ItIsSeenWhenTheFileGoesOrAnotherSocketTakesThePlace) {
  const Socket first = Listening();
  auto taken = ListeningSocket::Lock(Home());
  ASSERT_TRUE(taken.ok()) << taken.status();
  ASSERT_TRUE(taken->TakeOver(::dup(first.fd())).ok());
  EXPECT_TRUE(taken->IsPassed());
  EXPECT_TRUE(taken->CheckReached().ok());
  AcceptAll(*taken);
  ::chmod(Home().socket.c_str(), 0600);  // changed, and still the same
  EXPECT_TRUE(taken->CheckReached().ok());
  AcceptAll(*taken);
  fs::remove(Home().socket);
  EXPECT_TRUE(absl::IsNotFound(taken->CheckReached()));
  { Socket::BoundTo(Home().socket); }  // closed, its file stays
  EXPECT_TRUE(absl::IsNotFound(taken->CheckReached()));
  fs::remove(Home().socket);
  const Socket second = Socket::BoundTo(Home().socket);
  ASSERT_EQ(::listen(second.fd(), 16), 0);
  EXPECT_TRUE(absl::IsFailedPrecondition(taken->CheckReached()));
}

TEST_F(PassedSocketTest, WhileConnectionsWaitItIsTakenAndLookedAtOnceTheyAreAccepted) {
  const Socket first = Listening();
  const Socket waits = Socket::ConnectedTo(Home().socket);
  fs::remove(Home().socket);
  const Socket second = Socket::BoundTo(Home().socket);
  ASSERT_EQ(::listen(second.fd(), 16), 0);
  auto taken = ListeningSocket::Lock(Home());
  ASSERT_TRUE(taken.ok()) << taken.status();
  const absl::Status status = taken->TakeOver(::dup(first.fd()));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(taken->CheckReached().ok());
  const int accepted = ::accept(taken->fd(), nullptr, nullptr);
  EXPECT_GE(accepted, 0);
  ::close(accepted);
  EXPECT_TRUE(absl::IsFailedPrecondition(taken->CheckReached()));
}

TEST_F(PassedSocketTest, ItsFileStaysWhenTheDaemonEnds) {
  const Socket socket = Listening();
  {
    auto taken = ListeningSocket::Lock(Home());
    ASSERT_TRUE(taken.ok()) << taken.status();
    const absl::Status status = taken->TakeOver(::dup(socket.fd()));
    ASSERT_TRUE(status.ok()) << status;
    const Socket client = Socket::ConnectedTo(Home().socket);
    const int accepted = ::accept(taken->fd(), nullptr, nullptr);
    EXPECT_GE(accepted, 0);
    ::close(accepted);
  }
  EXPECT_TRUE(fs::exists(Home().socket));
  EXPECT_GE(Socket::ConnectedTo(Home().socket).fd(), 0) << "who connects must wait";
}

TEST_F(PassedSocketTest, TheFoldersAreCheckedAllTheSame) {
  const Socket socket = Listening();
  ::chmod(Home().runtime.c_str(), 0755);
  EXPECT_TRUE(absl::IsFailedPrecondition(ListeningSocket::Lock(Home()).status()));
}

// ---- The lock, waited for ----

TEST_F(PassedSocketTest, OneThatWaitsForTheHomeIsSeenByItsHolderAndGetsIt) {
  auto first = ListeningSocket::Lock(Home());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(first->NextWaits());
  absl::StatusOr<ListeningSocket> second = absl::UnknownError("");
  std::thread waits([&] { second = ListeningSocket::LockWhenFree(Home(), [] { return false; }); });
  EXPECT_TRUE(Eventually([&] { return first->NextWaits(); }));
  first = absl::UnknownError("gone");
  waits.join();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_FALSE(second->NextWaits());
  EXPECT_TRUE(absl::IsAlreadyExists(ListeningSocket::Lock(Home()).status()));
}

TEST_F(PassedSocketTest, OneThatIsToldToEndWaitsNoLonger) {
  const auto first = ListeningSocket::Lock(Home());
  ASSERT_TRUE(first.ok()) << first.status();
  int asked = 0;
  const auto second = ListeningSocket::LockWhenFree(Home(), [&] { return ++asked == 2; });
  EXPECT_TRUE(absl::IsCancelled(second.status())) << second.status();
  EXPECT_FALSE(first->NextWaits());
}

// ---- systemd's protocol; in a child, since it is about descriptor 3 ----

#ifdef __linux__
bool InChild(const std::function<bool()>& holds) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void Announce(const std::string& pid, const char* count) {
  ::setenv("LISTEN_PID", pid.c_str(), 1);
  ::setenv("LISTEN_FDS", count, 1);
  ::setenv("LISTEN_FDNAMES", "Listeners", 1);
}

bool NothingIsLeftInTheEnvironment() {
  return ::getenv("LISTEN_PID") == nullptr && ::getenv("LISTEN_FDS") == nullptr &&
         ::getenv("LISTEN_FDNAMES") == nullptr;
}

TEST_F(PassedSocketTest, DescriptorThreeIsTakenCloseOnExecAndTheEnvironmentCleared) {
  const Socket socket = Listening();
  EXPECT_TRUE(InChild([&] {
    ::dup2(socket.fd(), 3);
    Announce(absl::StrCat(::getpid()), "1");
    const auto taken = TakePassedSocket();
    return taken.ok() && *taken == 3 && (::fcntl(3, F_GETFD) & FD_CLOEXEC) != 0 &&
           NothingIsLeftInTheEnvironment();
  }));
}

TEST_F(PassedSocketTest, WhatIsMeantForAnotherProcessIsLeftAloneAndNotHandedOn) {
  for (const char* pid : {"1", "", "x"}) {
    EXPECT_TRUE(InChild([&] {
      Announce(pid, "1");
      const auto taken = TakePassedSocket();
      return taken.ok() && !taken->has_value() && NothingIsLeftInTheEnvironment();
    })) << pid;
  }
}

TEST_F(PassedSocketTest, NoneAndNoVariablesAreNothing) {
  EXPECT_TRUE(InChild([] {
    Announce(absl::StrCat(::getpid()), "0");
    const auto none = TakePassedSocket();
    const auto unset = TakePassedSocket();
    return none.ok() && !none->has_value() && unset.ok() && !unset->has_value();
  }));
}

TEST_F(PassedSocketTest, SeveralSocketsOrAClosedOneAreRefused) {
  for (const char* count : {"2", "-1", "many"}) {
    EXPECT_TRUE(InChild([&] {
      Announce(absl::StrCat(::getpid()), count);
      return absl::IsFailedPrecondition(TakePassedSocket().status());
    })) << count;
  }
  EXPECT_TRUE(InChild([] {
    ::close(3);
    Announce(absl::StrCat(::getpid()), "1");
    return absl::IsFailedPrecondition(TakePassedSocket().status());
  }));
}
#endif

}  // namespace
}  // namespace stageload::rpc
