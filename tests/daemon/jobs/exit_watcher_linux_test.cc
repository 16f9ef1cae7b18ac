// The exit watcher waits on Linux for what a descriptor has of urgency, too.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/exit_watcher.h"
#include "daemon/jobs/spawn.h"
#include "tests/exits_thread.h"

namespace stageload::jobs {
namespace {

// Out-of-band data is what has POLLPRI at a socket.
class UrgentSocket {
 public:
  UrgentSocket() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* generic = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(::bind(listener, generic, size), 0);
    EXPECT_EQ(::listen(listener, 1), 0);
    EXPECT_EQ(::getsockname(listener, generic, &size), 0);
    sender_ = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::connect(sender_.get(), generic, size), 0);
    receiver_ = Descriptor(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
    ::close(listener);
  }
  int descriptor() const { return receiver_.get(); }
  void Send(int flags) { EXPECT_EQ(::send(sender_.get(), "!", 1, flags), 1); }

 private:
  Descriptor sender_, receiver_;
};

class UrgencyTest : public ::testing::Test {
 protected:
  UrgencyTest() {
    watcher_ = *ExitWatcher::Create([this](const core::ProcessIdentity&) { Count(ended_); });
    thread_.emplace(*watcher_);
  }
  void Stop() { thread_.reset(); }
  void Count(int& what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    ++what;
    changed_.notify_all();
  }
  // What it is once it is `count` or more.
  int Await(const int& what, int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(30), [&] { return what >= count; });
    return what;
  }
  // Whose end is told after all that has happened so far.
  void EndAProcess(std::uint64_t start) {
    SpawnRequest request;
    request.path = "/bin/true";
    request.argv = {"true"};
    core::ProcessIdentity identity{0, start};
    ASSERT_EQ(Spawn(request, &identity.pid), 0);
    ASSERT_TRUE(watcher_->Watch(identity, [](const auto&) { return true; }).ok());
    EXPECT_EQ(Await(ended_, static_cast<int>(start)), static_cast<int>(start));
  }

  std::unique_ptr<ExitWatcher> watcher_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int ended_ = 0;
  int calls_ = 0;
  std::optional<ExitsThread> thread_;
};

TEST_F(UrgencyTest, IsToldEachTimeItComesAndNotWhileItStays) {
  UrgentSocket socket;
  ASSERT_TRUE(watcher_->WatchUrgent(socket.descriptor(), [this] { Count(calls_); }).ok());
  socket.Send(0);
  EndAProcess(1);
  EXPECT_EQ(Await(calls_, 0), 0) << "what is not urgent was told";
  socket.Send(MSG_OOB);
  EXPECT_EQ(Await(calls_, 1), 1);
  socket.Send(MSG_OOB);
  EXPECT_EQ(Await(calls_, 2), 2);
  EndAProcess(2);
  Stop();
  EXPECT_EQ(calls_, 2) << "it stays urgent, and was told again for that";
}

TEST_F(UrgencyTest, OfWhatIsNoDescriptorIsAnError) {
  const absl::Status status = watcher_->WatchUrgent(-1, [] {});
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(status.message(), ::testing::HasSubstr("watch descriptor -1: Bad file descriptor"));
}

}  // namespace
}  // namespace stageload::jobs
