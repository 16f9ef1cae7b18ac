// `top`'s side of the daemon: frames, graphs of the past and events come in, actions go out, and
// the next daemon is looked for when one goes away. Nothing here makes the screen wait.
//
// Threading: made, used and destroyed by one thread; it has threads of its own, which end by
// themselves after it is gone.
#ifndef STAGELOAD_CLIENT_CTL_TOP_FEED_H_
#define STAGELOAD_CLIENT_CTL_TOP_FEED_H_

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "client/ctl/connection.h"
#include "client/ctl/top_model.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

struct DaemonCame {
  v1::GetVersionResponse version;
};
struct DaemonWent {
  std::string why;
};
struct LiveFrame {
  v1::Frame frame;
};
// Of the time before.
struct PastTold {
  std::optional<TimedPoint> point;
  std::vector<v1::Event> events;
};
struct ActionDone {
  Action action;
  absl::Status status;
  v1::Job job;  // where it is OK
};
struct SignalCame {
  int number;
};
using TopEvent = std::variant<DaemonCame, DaemonWent, LiveFrame, PastTold, ActionDone, SignalCame>;

// What happened since the screen was drawn. `fd` can be read while there is something.
//
// Threading: Push from any thread, the rest from one.
class TopMailbox {
 public:
  TopMailbox();
  bool ok() const { return read_.valid(); }
  int fd() const { return read_.get(); }
  void Push(TopEvent event);
  std::deque<TopEvent> TakeAll();

 private:
  UniqueFd read_;
  UniqueFd write_;
  std::mutex mutex_;
  std::deque<TopEvent> events_;
};

class TopFeed {
 public:
  // From the daemon of `connection`, at most one frame in `interval`.
  TopFeed(Connection connection, absl::Duration interval, std::shared_ptr<TopMailbox> mailbox);
  TopFeed(const TopFeed&) = delete;
  TopFeed& operator=(const TopFeed&) = delete;
  ~TopFeed();

  // Asks the daemon; ActionDone follows.
  void Act(const Action& action);

 private:
  class State;
  std::shared_ptr<State> state_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_FEED_H_
