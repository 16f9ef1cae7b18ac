// What `top` knows and what its keys do to that: frames, graphs, events, the order of the rows, the
// row that is chosen, a question that is asked. It does not know the daemon or the terminal.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_TOP_MODEL_H_
#define STAGELOAD_CLIENT_CTL_TOP_MODEL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "client/ctl/top_history.h"
#include "stageload/v1/admin_service.pb.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

// A character that was typed, or one of these.
using Key = int;
inline constexpr Key kKeyUp = 0x1000;
inline constexpr Key kKeyDown = 0x1001;
inline constexpr Key kKeyPageUp = 0x1002;
inline constexpr Key kKeyPageDown = 0x1003;
inline constexpr Key kKeyHome = 0x1004;
inline constexpr Key kKeyEnd = 0x1005;
inline constexpr Key kKeyEscape = 27;

enum class SortBy { kId, kState, kName, kFootprint, kDeclared, kCharge, kProcesses, kStart };
inline constexpr int kSortColumns = 8;

// A row: a client (lease 0, not waiting), or a request that waits.
struct RowKey {
  std::int64_t job = 0;
  std::int64_t lease = 0;
  bool waiting = false;
  friend bool operator==(const RowKey&, const RowKey&) = default;
};

enum class Verb { kSuspend, kResume, kCancel, kHold, kRelease };
struct Action {
  Verb verb;
  std::int64_t job;
  friend bool operator==(const Action&, const Action&) = default;
};

struct Message {
  std::string text;
  bool failed = false;
  absl::Time until = absl::InfiniteFuture();  // shown until then, or until the next key
};

class TopModel {
 public:
  // `interval`: from one frame to the next, at most, while there is a daemon.
  explicit TopModel(absl::Duration interval = absl::Seconds(1))
      : interval_(interval), history_(interval) {}
  TopModel(const TopModel&) = delete;
  TopModel& operator=(const TopModel&) = delete;

  // From the daemon.
  void Connected(v1::GetVersionResponse daemon);
  void Lost(std::string why, absl::Time now);
  void Live(v1::Frame frame);
  void Past(const TimedPoint& point) { history_.Add(point); }
  void AddEvents(const std::vector<v1::Event>& events);
  void Asked(const Action& action, absl::Time now);
  // To what was asked.
  void Answered(const Action& action, const v1::Job& job, absl::Time now);
  void Failed(const Action& action, const std::string& why);

  // What is to be asked of the daemon, if the key says so.
  std::optional<Action> Press(Key key);
  bool quit() const { return quit_; }
  // How many rows the screen has room for: a page.
  void SetPage(std::size_t rows) { page_ = rows; }
  void Tick(absl::Time now);  // takes away what was shown for long enough

  // What is shown. Null before the first frame.
  const v1::Frame* frame() const { return shown_ ? &*shown_ : nullptr; }
  const v1::GetVersionResponse& daemon() const { return daemon_; }
  struct Loss {
    std::string why;
    absl::Time since;
  };
  const std::optional<Loss>& loss() const { return loss_; }
  // How long ago the newest frame was, once that is longer than a daemon that answers takes for the
  // next one. Nothing while it is lost.
  std::optional<absl::Duration> Silence(absl::Time now) const;
  // The time of what is shown: now, or the newest frame's while no other comes.
  absl::Time ShownTime(absl::Time now) const;
  // Of the frame, sorted.
  const std::vector<const v1::ClientSample*>& clients() const { return clients_; }
  const TopHistory& history() const { return history_; }
  std::optional<double> swap_growth() const { return swap_rate_.BytesPerSecond(); }
  const std::deque<v1::Event>& events() const { return events_; }  // newest first
  SortBy sort_by() const { return sort_by_; }
  bool reversed() const { return reversed_; }
  bool paused() const { return paused_; }
  bool help() const { return help_; }
  absl::Duration graph_span() const;
  const std::optional<Message>& message() const { return message_; }
  // "asked to suspend job 3: no answer yet"; empty while the answers come soon enough.
  std::string Unanswered(absl::Time now) const;
  std::string question() const;  // empty when none is asked
  // The place of the chosen row: clients first, then what waits. Nothing when there is no row.
  std::optional<std::size_t> chosen() const;

 private:
  const v1::Frame* Newest() const;
  void Forget(const Action& action);
  std::size_t RowCount() const;
  RowKey KeyAt(std::size_t row) const;
  std::string NameAt(std::size_t row) const;
  void Show(v1::Frame frame);
  void Sort();
  void Choose(std::size_t row);
  void FindChosen();
  void Move(std::ptrdiff_t rows);
  void SetSort(SortBy by);
  std::optional<Action> Ask(Verb verb);
  std::optional<Action> Answer(Key key);
  std::optional<Action> HoldOrRelease();

  const absl::Duration interval_;
  v1::GetVersionResponse daemon_;
  std::optional<Loss> loss_;
  std::optional<v1::Frame> shown_;
  std::optional<v1::Frame> next_;  // what came while the screen is paused
  std::vector<const v1::ClientSample*> clients_;
  TopHistory history_;
  SwapRate swap_rate_;
  std::deque<v1::Event> events_;
  SortBy sort_by_ = SortBy::kFootprint;
  bool reversed_ = false;
  bool paused_ = false;
  bool help_ = false;
  bool quit_ = false;
  std::size_t zoom_ = 1;
  std::size_t page_ = 10;
  RowKey chosen_;
  std::size_t chosen_row_ = 0;
  struct Question {
    Action action;
    std::string text;
  };
  std::optional<Question> question_;
  struct Request {
    Action action;
    absl::Time since;
  };
  std::deque<Request> unanswered_;  // oldest first
  std::optional<Message> message_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_MODEL_H_
