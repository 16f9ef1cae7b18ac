#include "daemon/rpc/telemetry_service.h"

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/rpc/convert_frame.h"
#include "daemon/rpc/convert_session.h"
#include "daemon/rpc/named_process.h"
#include "daemon/rpc/process_watch.h"
#include "daemon/rpc/server.h"
#include "daemon/rpc/status.h"
#include "daemon/rpc/unary.h"
#include "daemon/rpc/write_loop.h"

namespace stageload::rpc {
namespace {

constexpr std::size_t kMaxCarriedEvents = 1000;

// A reader concatenates: in protobuf's wire format, a message that comes twice is merged, so bytes
// made once for all can be followed by a few for this one.
grpc::Slice SharedSlice(std::shared_ptr<const telemetry::Published> frame) {
  auto* held = new std::shared_ptr<const telemetry::Published>(std::move(frame));
  const std::string& bytes = (*held)->bytes;
  return {const_cast<char*>(bytes.data()), bytes.size(),
          [](void* user_data) {
            delete static_cast<std::shared_ptr<const telemetry::Published>*>(user_data);
          },
          held};
}

bool Parse(const grpc::ByteBuffer& buffer, google::protobuf::MessageLite& message) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Dump(&slices).ok()) return false;
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return message.ParseFromString(bytes);
}

// One subscriber: the newest frame waits while another is on its way.
class FrameStream final : public WriteLoop<grpc::ByteBuffer> {
 public:
  static FrameStream* Start(telemetry::Hub* hub, OpenStreams& streams,
                            absl::Duration min_interval) {
    std::shared_ptr<FrameStream> stream(new FrameStream(streams, min_interval));
    stream->Keep(stream);
    stream->key_ = streams.Add([weak = std::weak_ptr<FrameStream>(stream)](const auto& status) {
      if (const auto open = weak.lock()) open->End(status);
    });
    stream->subscription_ =
        hub->Subscribe([raw = stream.get()](const auto& frame) { raw->Deliver(frame); });
    return stream.get();
  }

 private:
  FrameStream(OpenStreams& streams, absl::Duration min_interval)
      : WriteLoop(AtEnd::kLeaveIt), streams_(streams), min_interval_(min_interval) {}

  void Gone() override {
    subscription_.reset();  // waits for a delivery that is under way
    streams_.Remove(key_);
  }

  void Deliver(const std::shared_ptr<const telemetry::Published>& frame) {
    Lock lock = Locked();
    const std::int64_t sequence = frame->frame.sequence;
    if (last_seen_ != 0) dropped_ += sequence - last_seen_ - 1;
    last_seen_ = sequence;
    if (frame->frame.time.awake - last_sent_ < min_interval_) return Carry(*frame);
    if (next_) {
      ++dropped_;
      Carry(*next_);
    }
    next_ = frame;
    Pump(lock);
  }

  // The events of a frame that is left out go with the next.
  void Carry(const telemetry::Published& frame) {
    for (const telemetry::Event& event : frame.frame.events) {
      if (static_cast<std::size_t>(carried_.events_size()) >= kMaxCarriedEvents) return;
      *carried_.add_events() = ToProto(event);
    }
  }

  void End(const absl::Status& status) {
    Lock lock = Locked();
    EndWith(lock, status);
  }

  bool Take(grpc::ByteBuffer& message) override {
    if (next_ == nullptr) return false;
    message = Compose(std::exchange(next_, nullptr));
    return true;
  }

  grpc::ByteBuffer Compose(std::shared_ptr<const telemetry::Published> frame) {
    last_sent_ = frame->frame.time.awake;
    v1::WatchTelemetryResponse extra;
    extra.set_dropped(std::exchange(dropped_, 0));
    if (carried_.events_size() > 0) *extra.mutable_frame() = std::exchange(carried_, v1::Frame());
    std::vector<grpc::Slice> slices;
    const std::string bytes = extra.SerializeAsString();
    if (!bytes.empty()) slices.emplace_back(bytes);  // first, since its events are older
    slices.push_back(SharedSlice(std::move(frame)));
    return {slices.data(), slices.size()};
  }

  OpenStreams& streams_;
  const absl::Duration min_interval_;
  std::uint64_t key_ = 0;
  std::unique_ptr<telemetry::Hub::Subscription> subscription_;
  std::shared_ptr<const telemetry::Published> next_;
  v1::Frame carried_;
  std::int64_t last_seen_ = 0;
  std::int64_t dropped_ = 0;
  absl::Duration last_sent_ = -absl::InfiniteDuration();
};

absl::Status BadRequest() {
  return WithReason(absl::InvalidArgumentError("the request is not of the method's type"),
                    kInvalidField);
}

// A call that was refused.
class RefusedStream final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  explicit RefusedStream(const absl::Status& status) { Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

// A frame on the wire is field 1 of both answers, so that one run of bytes serves both.
std::string EncodeFrame(const telemetry::Frame& frame) {
  v1::GetSnapshotResponse response;
  *response.mutable_frame() = ToProto(frame);
  return response.SerializeAsString();
}
static_assert(int{v1::GetSnapshotResponse::kFrameFieldNumber} ==
              int{v1::WatchTelemetryResponse::kFrameFieldNumber});

grpc::ServerUnaryReactor* TelemetryService::GetSnapshot(grpc::CallbackServerContext* context,
                                                        const grpc::ByteBuffer* request,
                                                        grpc::ByteBuffer* response) {
  v1::GetSnapshotRequest parsed;
  if (!Parse(*request, parsed)) return Fail(context, BadRequest());
  std::shared_ptr<const telemetry::Published> newest = parts_.hub->Newest();
  if (newest == nullptr) {
    return Fail(context,
                WithReason(absl::UnavailableError("the machine has not been read yet"), kNoSample));
  }
  const grpc::Slice slice = SharedSlice(std::move(newest));
  *response = grpc::ByteBuffer(&slice, 1);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* TelemetryService::WatchTelemetry(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  v1::WatchTelemetryRequest parsed;
  if (!Parse(*request, parsed)) return new RefusedStream(BadRequest());
  if (parsed.min_interval_ns() < 0) {
    return new RefusedStream(
        WithReason(absl::InvalidArgumentError(
                       absl::StrCat("min_interval_ns: ", parsed.min_interval_ns(), " is negative")),
                   kInvalidField, "min_interval_ns"));
  }
  return FrameStream::Start(parts_.hub, streams_, absl::Nanoseconds(parsed.min_interval_ns()));
}

grpc::ServerWriteReactor<v1::WatchProcessResponse>* TelemetryService::WatchProcess(
    grpc::CallbackServerContext*, const v1::WatchProcessRequest* request) {
  const absl::StatusOr<absl::Duration> interval = ToInterval(*request);
  if (!interval.ok()) return RefuseProcessWatch(interval.status());
  const absl::StatusOr<std::int32_t> pid = ToPid(request->pid(), {0, peer_.pid});
  if (!pid.ok()) return RefuseProcessWatch(pid.status());
  if (absl::Status may = CheckMayName(parts_, peer_, *pid, "record"); !may.ok()) {
    return RefuseProcessWatch(may);
  }
  return StartProcessWatch(parts_.engine, *pid, *interval);
}

}  // namespace stageload::rpc
