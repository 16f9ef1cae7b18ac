#include "daemon/rpc/session_streams.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "daemon/rpc/convert_session.h"
#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {
namespace {

// The registration lives as long as this does.
class SessionStream final : public WriteLoop<v1::RegisterResponse> {
 public:
  static void Start(StreamCall<v1::RegisterResponse> call, engine::Engine* engine,
                    engine::RegisterRequest request) {
    std::shared_ptr<SessionStream> stream(new SessionStream(call.call(), engine));
    stream->Keep(stream);
    engine->Register(
        stream->token_, std::move(request),
        [stream](const absl::StatusOr<engine::SessionEvent>& event) { stream->Tell(event); });
  }

 private:
  SessionStream(Call& call, engine::Engine* engine)
      : WriteLoop(call, AtEnd::kWriteWhatWaits), engine_(engine), token_(engine->NewWatchToken()) {}

  void Tell(const absl::StatusOr<engine::SessionEvent>& event) {
    if (!event.ok()) return End(event.status());
    if (std::holds_alternative<engine::ClientEnded>(*event)) return End(absl::OkStatus());
    v1::RegisterResponse response = ToProto(*event);
    Lock lock = Locked();
    // Who reads slowly gets the newest of each kind, so no more wait than there are kinds.
    std::erase_if(waiting_, [&](const v1::RegisterResponse& other) {
      return other.event_case() == response.event_case();
    });
    waiting_.push_back(std::move(response));
    Pump(lock);
  }

  void End(const absl::Status& status) {
    Lock lock = Locked();
    EndWith(lock, status);
  }

  bool Take(v1::RegisterResponse& message) override {
    if (waiting_.empty()) return false;
    message = std::move(waiting_.front());
    waiting_.pop_front();
    return true;
  }

  void Gone() override { engine_->Unregister(token_); }

  engine::Engine* const engine_;
  const engine::Engine::WatchToken token_;
  std::deque<v1::RegisterResponse> waiting_;
};

// The newest of what a lease waits for, then its grant.
class LeaseStream final : public WriteLoop<v1::AcquireResponse> {
 public:
  static void Start(StreamCall<v1::AcquireResponse> call, engine::Engine* engine,
                    engine::AcquireRequest request) {
    std::shared_ptr<LeaseStream> stream(new LeaseStream(call.call(), engine));
    stream->Keep(stream);
    engine->Acquire(
        stream->token_, std::move(request),
        [stream](const absl::StatusOr<engine::LeaseEvent>& event) { stream->Tell(event); });
  }

 private:
  LeaseStream(Call& call, engine::Engine* engine)
      : WriteLoop(call, AtEnd::kWriteWhatWaits), engine_(engine), token_(engine->NewWatchToken()) {}

  void Tell(const absl::StatusOr<engine::LeaseEvent>& event) {
    if (!event.ok()) return End(event.status());
    const auto* granted = std::get_if<engine::LeaseGranted>(&*event);
    {
      Lock lock = Locked();
      if (kept() == nullptr) {  // the call is done: nobody will ever hear
        lock.unlock();
        if (granted != nullptr) engine_->ReleaseUntold(granted->id);
        return;
      }
      next_ = ToProto(*event);
      if (granted != nullptr) untold_ = granted->id;
      if (granted == nullptr) return Pump(lock);
      EndWith(lock, absl::OkStatus());
    }
  }

  void End(const absl::Status& status) {
    Lock lock = Locked();
    EndWith(lock, status);
  }

  bool Take(v1::AcquireResponse& message) override {
    if (!next_) return false;
    message = *std::exchange(next_, std::nullopt);
    tells_grant_ = message.has_granted();
    return true;
  }

  void Sent() override {
    if (tells_grant_) untold_.reset();
  }

  void Gone() override {
    std::optional<core::LeaseId> untold;
    {
      const Lock lock = Locked();
      untold = std::exchange(untold_, std::nullopt);
    }
    if (untold) engine_->ReleaseUntold(*untold);
    engine_->Abandon(token_);
  }

  engine::Engine* const engine_;
  const engine::Engine::WatchToken token_;
  std::optional<v1::AcquireResponse> next_;
  std::optional<core::LeaseId> untold_;  // granted, and its caller does not know yet
  bool tells_grant_ = false;             // the message that is on its way
};

}  // namespace

void StartSession(StreamCall<v1::RegisterResponse> call, engine::Engine* engine,
                  absl::StatusOr<engine::RegisterRequest> request) {
  if (!request.ok()) return call.Fail(request.status());
  SessionStream::Start(call, engine, *std::move(request));
}

void StartAcquire(StreamCall<v1::AcquireResponse> call, engine::Engine* engine,
                  absl::StatusOr<engine::AcquireRequest> request) {
  if (!request.ok()) return call.Fail(request.status());
  LeaseStream::Start(call, engine, *std::move(request));
}

}  // namespace stageload::rpc
