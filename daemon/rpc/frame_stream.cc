#include "daemon/rpc/frame_stream.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {
namespace {

using FramePointer = std::shared_ptr<const telemetry::Published>;

absl::Status Negative(const char* field, std::int64_t value) {
  return WithReason(absl::InvalidArgumentError(absl::StrCat(field, ": ", value, " is negative")),
                    kInvalidField, field);
}

// First it follows the ring, frame after frame, as fast as it is read ("replay"); once it has all
// of it, the hub's delivery, of which the newest frame waits while another is on its way ("live").
// Both go through seen_, so that nothing is sent twice and nothing is left out at the seam.
class FrameStream final : public WriteLoop<grpc::ByteBuffer> {
 public:
  FrameStream(Call& call, telemetry::Hub* hub, OpenStreams& streams,
              const v1::WatchTelemetryRequest& request)
      : WriteLoop(call, AtEnd::kLeaveIt),
        hub_(hub),
        streams_(streams),
        min_interval_(absl::Nanoseconds(request.min_interval_ns())),
        replay_(request.has_since_sequence()) {
    if (replay_) seen_ = sent_ = FirstToSkip(request.since_sequence());
  }

  // Not kept alive by anybody when it fails.
  absl::Status Start(const std::shared_ptr<FrameStream>& self) {
    auto subscription = hub_->Subscribe([this](const FramePointer& frame) { Deliver(frame); });
    if (!subscription.ok()) return subscription.status();
    Keep(self);
    subscription_ = *std::move(subscription);
    key_ = streams_.Add([weak = std::weak_ptr<FrameStream>(self)](const auto& status) {
      if (const auto open = weak.lock()) open->End(status);
    });
    Lock lock = Locked();
    started_ = true;
    Pump(lock);
    return absl::OkStatus();
  }

 private:
  void Gone() override {
    subscription_.reset();  // waits for a delivery that is under way
    streams_.Remove(key_);
  }

  // The last frame before those that are asked for.
  std::int64_t FirstToSkip(std::int64_t since) const {
    const FramePointer newest = hub_->Newest();
    if (newest == nullptr) return 0;
    if (since > 0 && since <= newest->sequence) return since;
    return hub_->After(0, -absl::InfiniteDuration()).frame->sequence - 1;  // all that are kept
  }

  void Deliver(const FramePointer& frame) {
    Lock lock = Locked();
    if (!replay_) NextIs(frame);
    if (started_) Pump(lock);
  }

  void NextIs(const FramePointer& frame) {
    if (frame->sequence <= seen_) return;  // came from the ring
    if (seen_ == 0) seen_ = sent_ = frame->sequence - 1;
    dropped_ += frame->sequence - seen_ - 1;
    seen_ = frame->sequence;
    if (frame->awake < next_at_) return;
    if (next_ != nullptr) ++dropped_;
    next_ = frame;
  }

  void End(const absl::Status& status) {
    Lock lock = Locked();
    EndWith(lock, status);
  }

  bool Take(grpc::ByteBuffer& message) override {
    FramePointer frame = std::exchange(next_, nullptr);
    if (replay_) frame = NextOfRing();
    if (frame == nullptr) return false;
    message = Compose(std::move(frame));
    return true;
  }

  FramePointer NextOfRing() {
    telemetry::Ring::Following following = hub_->After(seen_, next_at_);
    dropped_ += following.lost;
    seen_ = following.seen;
    replay_ = following.frame != nullptr;
    return std::move(following.frame);
  }

  grpc::ByteBuffer Compose(FramePointer frame) {
    next_at_ = frame->awake + min_interval_;
    std::vector<grpc::Slice> slices;
    // A reader concatenates: in protobuf's wire format, a message that comes twice is merged, so
    // bytes made once for all can follow a few for this one. First, since its events are older.
    if (const std::string own = OwnPart(*frame); !own.empty()) slices.emplace_back(own);
    sent_ = frame->sequence;
    slices.push_back(SharedSlice(std::move(frame)));
    return {slices.data(), slices.size()};
  }

  // How many frames were dropped, and the events of those between the last that was sent and this.
  std::string OwnPart(const telemetry::Published& frame) {
    if (dropped_ == 0 && frame.events_before <= sent_) return {};
    v1::WatchTelemetryResponse own;
    own.set_dropped(std::exchange(dropped_, 0));
    std::vector<FramePointer> left_out;  // newest first
    std::size_t size = 0;
    bool whole = true;
    for (std::int64_t at = frame.events_before; at > sent_; at = left_out.back()->events_before) {
      FramePointer one = hub_->At(at);
      whole = one != nullptr && (size += one->wire.events_size) <= kMaxEventBytes;
      if (!whole) break;
      left_out.push_back(std::move(one));
    }
    if (!whole) *own.mutable_frame()->add_events() = EventsLeftOut(absl::Now());
    std::string bytes = own.SerializeAsString();
    for (auto one = left_out.rbegin(); one != left_out.rend(); ++one) {
      bytes.append((*one)->wire.bytes, 0, (*one)->wire.events_size);
    }
    return bytes;
  }

  telemetry::Hub* const hub_;
  OpenStreams& streams_;
  const absl::Duration min_interval_;
  std::uint64_t key_ = 0;
  std::unique_ptr<telemetry::Hub::Subscription> subscription_;
  bool started_ = false;
  bool replay_;
  std::int64_t seen_ = 0;  // frames up to this one were sent, dropped, thinned out or wait in next_
  std::int64_t sent_ = 0;  // the last one that was
  FramePointer next_;
  std::int64_t dropped_ = 0;                            // since the last one that was sent
  absl::Duration next_at_ = -absl::InfiniteDuration();  // what is sampled before is thinned out
};

}  // namespace

grpc::Slice SharedSlice(FramePointer frame) {
  auto* held = new FramePointer(std::move(frame));
  const std::string& bytes = (*held)->wire.bytes;
  return {const_cast<char*>(bytes.data()), bytes.size(),
          [](void* user_data) { delete static_cast<FramePointer*>(user_data); }, held};
}

v1::Event EventsLeftOut(absl::Time time) {
  v1::Event event;
  event.set_kind("events_left_out");
  event.set_text(
      "events before these are left out: they are too many for one answer, or their frames are not "
      "kept any more; the history has what matters");
  event.set_time_ns(absl::ToUnixNanos(time));
  return event;
}

void StreamFrames(StreamCall<v1::WatchTelemetryResponse> call, telemetry::Hub* hub,
                  OpenStreams& streams, const v1::WatchTelemetryRequest& request) {
  if (request.min_interval_ns() < 0) {
    return call.Fail(Negative("min_interval_ns", request.min_interval_ns()));
  }
  if (request.since_sequence() < 0) {
    return call.Fail(Negative("since_sequence", request.since_sequence()));
  }
  const auto stream = std::make_shared<FrameStream>(call.call(), hub, streams, request);
  if (absl::Status status = stream->Start(stream); !status.ok()) call.Fail(status);
}

}  // namespace stageload::rpc
