// Dialling a socket that does not take a connection at once.
#include "client/lib/connection.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fixture.h"

namespace stageload::client {
namespace {

UniqueFd BoundTo(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return fd;
}

class DialTest : public ::testing::Test {
 protected:
  TemporaryFolder temp_;
  const std::string path_ = temp_.path() + "/sock";
};

// A full queue is refused so on macOS; on Linux a socket that does not listen yet is.
TEST_F(DialTest, ASocketThatLivesAndRefusesIsWaitedFor) {
  const UniqueFd socket = BoundTo(path_);
  std::thread listens([&] {
    ::poll(nullptr, 0, 100);
    EXPECT_EQ(::listen(socket.get(), 1), 0);
  });
  const absl::StatusOr<UniqueFd> fd = Dial(path_);
  EXPECT_TRUE(fd.ok()) << fd.status();
  listens.join();
}

TEST_F(DialTest, AFileThatASocketHasLeftBehindIsNobodyAtOnce) {
  { const UniqueFd gone = BoundTo(path_); }
  const absl::Time begin = absl::Now();
  EXPECT_TRUE(absl::IsNotFound(Dial(path_).status()));
  EXPECT_LT(absl::Now() - begin, absl::Seconds(2));
  ::unlink(path_.c_str());
  EXPECT_TRUE(absl::IsNotFound(Dial(path_).status()));
}

// Says what it says to whoever connects, and closes.
class Stranger {
 public:
  Stranger(const std::string& path, std::string words)
      : words_(std::move(words)), socket_(BoundTo(path)) {
    EXPECT_EQ(::listen(socket_.get(), 16), 0);
    thread_ = std::thread([this] {
      for (;;) {
        const UniqueFd peer(::accept(socket_.get(), nullptr, nullptr));
        if (!peer.valid()) return;
        char heard[256];
        if (!words_.empty() && ::read(peer.get(), heard, sizeof heard) > 0) {
          (void)!::write(peer.get(), words_.data(), words_.size());
        }
      }
    });
  }
  ~Stranger() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    thread_.join();
  }

 private:
  const std::string words_;
  const UniqueFd socket_;
  std::thread thread_;
};

TEST_F(DialTest, AnotherProgramThatListensThereIsNoDaemonAndIsNamed) {
  ::signal(SIGPIPE, SIG_IGN);
  ::setenv("STAGELOAD_HOME", temp_.path().c_str(), 1);
  ConnectOptions options;
  options.socket = path_;
  options.autostart = false;
  for (const char* words : {"HTTP/1.1 400 Bad Request\r\n\r\n", ""}) {
    const Stranger stranger(path_, words);
    const absl::Status status = Connect(options).status();
    EXPECT_THAT(
        std::string(status.message()),
        ::testing::HasSubstr("what listens at " + path_ + " (pid " + std::to_string(::getpid())));
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("is no stageloadd"));
    ::unlink(path_.c_str());
  }
  // A daemon that ends and comes again holds the lock meanwhile.
  std::ofstream(temp_.path() + "/stageloadd.lock") << ::getpid() << "\n";
  const Stranger stranger(path_, "");
  EXPECT_THAT(std::string(Connect(options).status().message()),
              ::testing::HasSubstr("the daemon went away"));
  ::unsetenv("STAGELOAD_HOME");
}

}  // namespace
}  // namespace stageload::client
