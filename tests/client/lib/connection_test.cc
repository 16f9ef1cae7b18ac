// Dialling a socket that does not take a connection at once.
#include "client/lib/connection.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <thread>

#include "absl/time/clock.h"
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

}  // namespace
}  // namespace stageload::client
