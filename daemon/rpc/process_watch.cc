#include "daemon/rpc/process_watch.h"

#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "daemon/rpc/convert_session.h"
#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {
namespace {

constexpr std::size_t kMaxWaiting = 256;
constexpr int kMaxEvents = 1000;  // in one answer

class ProcessWatch final : public WriteLoop<v1::WatchProcessResponse> {
 public:
  static void Start(StreamCall<v1::WatchProcessResponse> call, engine::Engine* engine,
                    const engine::RecordRequest& request) {
    std::shared_ptr<ProcessWatch> watch(new ProcessWatch(call.call(), engine));
    watch->Keep(watch);
    engine->Record(
        watch->token_, request,
        [watch](const absl::StatusOr<engine::RecordingUpdate>& update) { watch->Tell(update); });
  }

 private:
  ProcessWatch(Call& call, engine::Engine* engine)
      : WriteLoop(call, AtEnd::kWriteWhatWaits), engine_(engine), token_(engine->NewWatchToken()) {}

  void End(const absl::Status& status) {
    Lock lock = Locked();
    EndWith(lock, status);
  }

  void Tell(const absl::StatusOr<engine::RecordingUpdate>& update) {
    if (!update.ok()) return End(update.status());
    Lock lock = Locked();
    if (update->reading || !update->events.empty()) {
      waiting_.push_back(ToProto(*update));
      if (waiting_.size() > kMaxWaiting) DropOldest();
    }
    if (update->ended) return EndWith(lock, absl::OkStatus());
    Pump(lock);
  }

  // Its events go with the next.
  void DropOldest() {
    v1::WatchProcessResponse oldest = std::move(waiting_.front());
    waiting_.pop_front();
    v1::WatchProcessResponse& next = waiting_.front();
    next.set_dropped(next.dropped() + oldest.dropped() + (oldest.has_sample() ? 1 : 0));
    next.mutable_events()->Swap(oldest.mutable_events());
    for (const v1::Event& event : oldest.events()) {
      if (next.events_size() < kMaxEvents) *next.add_events() = event;
    }
  }

  bool Take(v1::WatchProcessResponse& message) override {
    if (waiting_.empty()) return false;
    message = std::move(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  void Gone() override { engine_->StopRecording(token_); }

  engine::Engine* const engine_;
  const engine::Engine::WatchToken token_;
  std::deque<v1::WatchProcessResponse> waiting_;
};

}  // namespace

void StartProcessWatch(StreamCall<v1::WatchProcessResponse> call, engine::Engine* engine,
                       const absl::StatusOr<engine::RecordRequest>& request) {
  if (!request.ok()) return call.Fail(request.status());
  ProcessWatch::Start(call, engine, *request);
}

}  // namespace stageload::rpc
