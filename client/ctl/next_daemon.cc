// Connects until it succeeds.
#include "client/ctl/next_daemon.h"

#include <utility>

#include "absl/time/clock.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);
// A daemon that cannot start is not started ten times a second.
constexpr int kStarts = 3;

}  // namespace

NextDaemon::NextDaemon(ConnectOptions options, std::function<void(Connection)> on_found)
    : options_(std::move(options)), on_found_(std::move(on_found)) {
  options_.on_silence = nullptr;  // who has work to do is not held up
  thread_ = std::thread([this] { Look(); });
}

NextDaemon::~NextDaemon() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void NextDaemon::Look() {
  const absl::Time soon = absl::Now() + kReconnectWithin;
  int starts = 0;
  bool early = true;
  do {
    early = absl::Now() < soon;
    options_.autostart = options_.autostart && early && ++starts <= kStarts;
    absl::StatusOr<Connection> connection = Connect(options_);
    if (connection.ok()) return on_found_(*std::move(connection));
  } while (Pause(early ? kPause : kSlowPause));
}

bool NextDaemon::Pause(absl::Duration pause) {
  std::unique_lock lock(mutex_);
  return !wake_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return stop_; });
}

}  // namespace stageload::ctl
