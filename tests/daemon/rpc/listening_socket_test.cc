#include "daemon/rpc/listening_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/daemon/rpc/socket_fixture.h"

namespace stageload::rpc {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

std::string Contents(const std::string& path) {
  std::ostringstream contents;
  contents << std::ifstream(path).rdbuf();
  return contents.str();
}

mode_t ModeOf(const std::string& path) {
  struct stat found {};
  return ::lstat(path.c_str(), &found) == 0 ? found.st_mode & 07777 : 0;
}

bool Connects(const std::string& path) { return Socket::ConnectedTo(path).fd() >= 0; }

class ListeningSocketTest : public ::testing::Test {
 protected:
  // Paths of a home below the temp folder.
  Paths HomeAt(const std::string& folder) const {
    Paths paths;
    paths.state = paths.runtime = folder;
    paths.socket = folder + "/stageloadd.sock";
    paths.lock = folder + "/stageloadd.lock";
    return paths;
  }
  Paths Home() const { return HomeAt(temp_.path() + "/home"); }
  void MakeHome(mode_t mode = 0700) const {
    fs::create_directory(Home().runtime);
    ::chmod(Home().runtime.c_str(), mode);
  }
  // Open() fails with `code` and a message that has `part` and `fix`.
  static void ExpectRefused(const Paths& paths, absl::StatusCode code, const std::string& part,
                            const std::string& fix) {
    const auto socket = ListeningSocket::Open(paths);
    EXPECT_EQ(socket.status().code(), code) << socket.status();
    EXPECT_THAT(std::string(socket.status().message()), AllOf(HasSubstr(part), HasSubstr(fix)));
    EXPECT_FALSE(Connects(paths.socket));
  }

  TemporaryFolder temp_;
};

TEST_F(ListeningSocketTest, MakesMissingFoldersForTheOwnerAlone) {
  const Paths paths = HomeAt(temp_.path() + "/a/b/home");
  const auto socket = ListeningSocket::Open(paths);
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(ModeOf(temp_.path() + "/a"), 0700u);
  EXPECT_EQ(ModeOf(temp_.path() + "/a/b"), 0700u);
  EXPECT_EQ(ModeOf(paths.runtime), 0700u);
}

TEST_F(ListeningSocketTest, ListensNonBlockingWithASocketForTheOwnerAlone) {
  const mode_t before = ::umask(0);
  const auto socket = ListeningSocket::Open(Home());
  EXPECT_EQ(::umask(before), 0u) << "the umask must be as it was";
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(ModeOf(Home().socket), 0600u);
  EXPECT_NE(::fcntl(socket->fd(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(::accept(socket->fd(), nullptr, nullptr), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(Connects(Home().socket));
  const int accepted = ::accept(socket->fd(), nullptr, nullptr);
  EXPECT_GE(accepted, 0);
  ::close(accepted);
}

TEST_F(ListeningSocketTest, TheLockHoldsOurPidAndSocketAndIsForTheOwnerAlone) {
  const auto socket = ListeningSocket::Open(Home());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Contents(Home().lock), absl::StrCat(::getpid(), "\n", Home().socket, "\n"));
  EXPECT_EQ(ModeOf(Home().lock), 0600u);
}

TEST_F(ListeningSocketTest, ALongerPidOfADaemonBeforeIsNotLeftInTheLock) {
  MakeHome();
  std::ofstream(Home().lock) << "123456789012\nmore\n";
  const auto socket = ListeningSocket::Open(Home());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(Contents(Home().lock), absl::StrCat(::getpid(), "\n", Home().socket, "\n"));
}

TEST_F(ListeningSocketTest, ASecondDaemonIsToldThePidOfTheFirst) {
  const auto first = ListeningSocket::Open(Home());
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = ListeningSocket::Open(Home());
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_EQ(second.status().message(), absl::StrCat("another stageloadd (pid ", ::getpid(),
                                                    ") runs on this home: ", Home().lock));
  EXPECT_TRUE(Connects(Home().socket)) << "the first must go on";
}

TEST_F(ListeningSocketTest, ASecondSocketOnTheSameHomeIsHeldBackByTheLock) {
  const auto first = ListeningSocket::Open(Home());
  Paths other = Home();
  other.socket = Home().runtime + "/other.sock";
  EXPECT_TRUE(absl::IsAlreadyExists(ListeningSocket::Open(other).status()));
  EXPECT_FALSE(fs::exists(other.socket));
}

TEST_F(ListeningSocketTest, AHolderThatHasNotWrittenItsPidYetIsCalledUnknown) {
  MakeHome();
  const int holder = ::open(Home().lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(holder, LOCK_EX), 0);
  ExpectRefused(Home(), absl::StatusCode::kAlreadyExists, "(pid unknown)", Home().lock);
  ::close(holder);
}

// As a shim that is about to be executed has the lock of a daemon that was killed.
TEST_F(ListeningSocketTest, ALockThatAChildOfADeadDaemonStillHasIsWaitedFor) {
  MakeHome();
  const pid_t dead = ::fork();
  if (dead == 0) ::_exit(0);
  ASSERT_EQ(::waitpid(dead, nullptr, 0), dead);
  std::ofstream(Home().lock) << dead << "\n" << Home().socket << "\n";
  const int held = ::open(Home().lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::poll(nullptr, 0, 200);
    ::_exit(0);
  }
  ::close(held);
  const auto socket = ListeningSocket::Lock(Home());
  EXPECT_TRUE(socket.ok()) << socket.status();
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

TEST_F(ListeningSocketTest, TheEndRemovesTheSocketAndFreesTheLock) {
  {
    const auto socket = ListeningSocket::Open(Home());
    ASSERT_TRUE(socket.ok()) << socket.status();
  }
  EXPECT_FALSE(fs::exists(Home().socket));
  EXPECT_TRUE(ListeningSocket::Open(Home()).ok());
}

TEST_F(ListeningSocketTest, TheEndLeavesASocketThatIsNotOursAnyMore) {
  const std::string kept = Home().runtime + "/kept.sock";
  {
    const auto socket = ListeningSocket::Open(Home());
    ASSERT_TRUE(socket.ok()) << socket.status();
    fs::rename(Home().socket, kept);  // so that its inode is not used again
    std::ofstream(Home().socket) << "another's";
  }
  EXPECT_EQ(Contents(Home().socket), "another's");
}

TEST_F(ListeningSocketTest, AMovedSocketIsClosedOnce) {
  auto socket = ListeningSocket::Open(Home());
  ASSERT_TRUE(socket.ok()) << socket.status();
  auto moved = std::make_unique<ListeningSocket>(*std::move(socket));
  EXPECT_TRUE(Connects(Home().socket));
  auto elsewhere = ListeningSocket::Open(HomeAt(temp_.path() + "/elsewhere"));
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  *elsewhere = std::move(*moved);
  moved.reset();
  EXPECT_FALSE(fs::exists(temp_.path() + "/elsewhere/stageloadd.sock"));
  EXPECT_TRUE(Connects(Home().socket));
}

TEST_F(ListeningSocketTest, ALeftOverSocketIsReplaced) {
  MakeHome();
  { Socket::BoundTo(Home().socket); }  // closed, its file stays
  ASSERT_TRUE(fs::exists(Home().socket));
  const auto socket = ListeningSocket::Open(Home());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(Connects(Home().socket));
}

TEST_F(ListeningSocketTest, ASocketThatSomebodyListensAtIsNotTaken) {
  const auto first = ListeningSocket::Open(HomeAt(temp_.path() + "/first"));
  ASSERT_TRUE(first.ok()) << first.status();
  Paths paths = HomeAt(temp_.path() + "/second");
  paths.socket = temp_.path() + "/first/stageloadd.sock";
  const auto second = ListeningSocket::Open(paths);
  EXPECT_TRUE(absl::IsAlreadyExists(second.status()));
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(paths.socket), HasSubstr("STAGELOAD_SOCKET")));
  EXPECT_TRUE(Connects(paths.socket));
}

// As one whose queue is full on macOS; where there is none to listen, Linux refuses alike.
TEST_F(ListeningSocketTest, ASocketThatLivesAndRefusesConnectionsIsNotTaken) {
  MakeHome();
  const Socket lives = Socket::BoundTo(Home().socket);
  ASSERT_FALSE(Connects(Home().socket));
  const auto socket = ListeningSocket::Open(Home());
  EXPECT_TRUE(absl::IsAlreadyExists(socket.status())) << socket.status();
  ASSERT_EQ(::listen(lives.fd(), 1), 0);
  EXPECT_TRUE(Connects(Home().socket)) << "its file was removed";
}

TEST_F(ListeningSocketTest, ASocketWithAFullQueueIsNotTaken) {
  MakeHome();
  const Socket full = Socket::BoundTo(Home().socket);
  ASSERT_EQ(::listen(full.fd(), 0), 0);
  const Socket waits = Socket::ConnectedTo(Home().socket);
  ASSERT_GE(waits.fd(), 0);
  EXPECT_TRUE(absl::IsAlreadyExists(ListeningSocket::Open(Home()).status()));
  EXPECT_TRUE(fs::exists(Home().socket));
}

TEST_F(ListeningSocketTest, AFileInTheWayOfTheSocketIsKept) {
  MakeHome();
  std::ofstream(Home().socket) << "precious";
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, Home().socket, "move it away");
  EXPECT_EQ(Contents(Home().socket), "precious");
}

TEST_F(ListeningSocketTest, ATooLongSocketPathIsRefusedBeforeAnythingIsMade) {
  const Paths paths = HomeAt(temp_.path() + "/" + std::string(120, 'x'));
  ExpectRefused(paths, absl::StatusCode::kInvalidArgument, "103", "STAGELOAD_SOCKET");
  EXPECT_FALSE(fs::exists(paths.runtime));
}

TEST_F(ListeningSocketTest, AHomeThatIsAFileIsNamed) {
  std::ofstream(Home().runtime) << "a file";
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, Home().runtime + " is not a folder",
                "STAGELOAD_HOME");
}

TEST_F(ListeningSocketTest, AHomeBelowAFileIsNamedByTheFile) {
  std::ofstream(temp_.path() + "/file") << "a file";
  ExpectRefused(HomeAt(temp_.path() + "/file/home"), absl::StatusCode::kFailedPrecondition,
                temp_.path() + "/file is not a folder", "STAGELOAD_HOME");
}

TEST_F(ListeningSocketTest, AHomeThatOthersMayReadOrWriteIsRefusedWithTheFix) {
  for (const auto& [mode, text] : {std::pair(0755, "0755"), {0770, "0770"}, {0701, "0701"}}) {
    MakeHome(static_cast<mode_t>(mode));
    ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, absl::StrCat("has mode ", text),
                  "chmod 700 " + Home().runtime);
  }
}

TEST_F(ListeningSocketTest, TheFolderOfTheLockIsCheckedToo) {
  Paths paths = Home();
  paths.lock = temp_.path() + "/state/stageloadd.lock";
  fs::create_directory(temp_.path() + "/state");
  ::chmod((temp_.path() + "/state").c_str(), 0777);
  ExpectRefused(paths, absl::StatusCode::kFailedPrecondition, "0777",
                "chmod 700 " + temp_.path() + "/state");
}

TEST_F(ListeningSocketTest, TheUsersOwnHomeMayBeReadableButNotWritableByOthers) {
  MakeHome(0755);
  EXPECT_TRUE(ListeningSocket::Open(Home(), Home().runtime).ok());
  MakeHome(0775);
  const auto socket = ListeningSocket::Open(Home(), Home().runtime);
  EXPECT_TRUE(absl::IsFailedPrecondition(socket.status())) << socket.status();
  EXPECT_THAT(std::string(socket.status().message()), HasSubstr("chmod go-w " + Home().runtime));
}

TEST_F(ListeningSocketTest, AHomeThatIsASymbolicLinkIsRefused) {
  fs::create_directory(temp_.path() + "/real");
  ::chmod((temp_.path() + "/real").c_str(), 0700);
  fs::create_symlink(temp_.path() + "/real", Home().runtime);
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition,
                Home().runtime + " is a symbolic link", "STAGELOAD_HOME");
}

TEST_F(ListeningSocketTest, ASymbolicLinkOfOursAboveTheHomeIsFollowedAndItsTargetChecked) {
  fs::create_directory(temp_.path() + "/real");
  ::chmod((temp_.path() + "/real").c_str(), 0755);
  fs::create_symlink("./real/../real", temp_.path() + "/link");
  EXPECT_TRUE(ListeningSocket::Open(HomeAt(temp_.path() + "/link/home")).ok());
  ::chmod((temp_.path() + "/real").c_str(), 0775);
  ExpectRefused(HomeAt(temp_.path() + "/link/home"), absl::StatusCode::kFailedPrecondition,
                temp_.path() + "/real has mode 0775", "chmod go-w " + temp_.path() + "/real");
}

TEST_F(ListeningSocketTest, SymbolicLinksThatGoInCirclesAreRefused) {
  fs::create_symlink(temp_.path() + "/two", temp_.path() + "/one");
  fs::create_symlink(temp_.path() + "/one", temp_.path() + "/two");
  ExpectRefused(HomeAt(temp_.path() + "/one/home"), absl::StatusCode::kFailedPrecondition,
                "symbolic links", temp_.path());
}

TEST_F(ListeningSocketTest, AFolderAboveThatOthersCanWriteIsRefusedUnlessSticky) {
  const std::string above = temp_.path() + "/above";
  fs::create_directory(above);
  ::chmod(above.c_str(), 0777);
  ExpectRefused(HomeAt(above + "/home"), absl::StatusCode::kFailedPrecondition,
                above + " has mode 0777", "chmod go-w " + above);
  ::chmod(above.c_str(), 01777);
  EXPECT_TRUE(ListeningSocket::Open(HomeAt(above + "/home")).ok());
}

TEST_F(ListeningSocketTest, AForeignFolderIsRefusedAsHomeAndAboveIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  MakeHome();
  ASSERT_EQ(::chown(Home().runtime.c_str(), kNobody, kNobody), 0);
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition,
                Home().runtime + " belongs to uid 65534", "of your own");
  ExpectRefused(HomeAt(Home().runtime + "/below"), absl::StatusCode::kFailedPrecondition,
                Home().runtime + " belongs to uid 65534", "of your own");
}

TEST_F(ListeningSocketTest, AForeignSymbolicLinkAboveTheHomeIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a link away";
  fs::create_directory(temp_.path() + "/real");
  fs::create_symlink(temp_.path() + "/real", temp_.path() + "/link");
  ASSERT_EQ(::lchown((temp_.path() + "/link").c_str(), kNobody, kNobody), 0);
  ExpectRefused(HomeAt(temp_.path() + "/link/home"), absl::StatusCode::kFailedPrecondition,
                temp_.path() + "/link is a symbolic link of uid 65534", "of your own");
}

TEST_F(ListeningSocketTest, ALockThatIsNoPlainFileIsRefused) {
  MakeHome();
  fs::create_directory(Home().lock);
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, Home().lock, "not a plain file");
  fs::remove(Home().lock);
  fs::create_symlink(temp_.path() + "/elsewhere", Home().lock);
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, Home().lock, "not a plain file");
  EXPECT_FALSE(fs::exists(temp_.path() + "/elsewhere"));
  fs::remove(Home().lock);
  ASSERT_EQ(::mkfifo(Home().lock.c_str(), 0600), 0);
  ExpectRefused(Home(), absl::StatusCode::kFailedPrecondition, Home().lock, "not a plain file");
}

TEST_F(ListeningSocketTest, HomeThatIsLockedButDoesNotListenYetTakesNoConnection) {
  auto socket = ListeningSocket::Lock(Home());
  ASSERT_TRUE(socket.ok()) << socket.status();
  EXPECT_TRUE(absl::IsAlreadyExists(ListeningSocket::Open(Home()).status()));
  EXPECT_EQ(Socket::ConnectedTo(Home().socket).fd(), -1);
  ASSERT_TRUE(socket->Listen().ok());
  EXPECT_GE(Socket::ConnectedTo(Home().socket).fd(), 0);
}

}  // namespace
}  // namespace stageload::rpc
