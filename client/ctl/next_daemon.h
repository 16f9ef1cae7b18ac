// Looks for the daemon that comes after one that went away, in the background: what runs under the
// guard goes on meanwhile.
//
// Threading: made and destroyed by one thread; it has a thread of its own.
#ifndef STAGELOAD_CLIENT_CTL_NEXT_DAEMON_H_
#define STAGELOAD_CLIENT_CTL_NEXT_DAEMON_H_

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "absl/time/time.h"
#include "client/ctl/connection.h"

namespace stageload::ctl {

class NextDaemon {
 public:
  // How often one is looked for that has not come for long.
  static constexpr absl::Duration kSlowPause = absl::Milliseconds(500);

  // Calls `on_found` once, on its own thread, as soon as a daemon answers. Where `options` want it,
  // one is started, but only soon after the loss: later a daemon that is not there is not wanted.
  NextDaemon(ConnectOptions options, std::function<void(Connection)> on_found);
  NextDaemon(const NextDaemon&) = delete;
  NextDaemon& operator=(const NextDaemon&) = delete;
  ~NextDaemon();  // stops looking

 private:
  void Look();
  bool Pause(absl::Duration pause);  // false when it is to stop

  ConnectOptions options_;
  std::function<void(Connection)> on_found_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_NEXT_DAEMON_H_
