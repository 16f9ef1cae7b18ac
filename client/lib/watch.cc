#include "stageload/watch.h"

#include <utility>

#include "client/lib/convert.h"
#include "client/lib/daemon_search.h"
#include "client/lib/exception.h"
#include "client/lib/quiet_thread.h"
#include "client/lib/status.h"
#include "client/lib/watch_core.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::client {

WatchCore::WatchCore(WatchOptions options, std::function<void(const Frame&)> on_frame)
    : options_(std::move(options)), on_frame_(std::move(on_frame)) {
  request_.set_min_interval_ns(options_.min_interval.count());
  if (options_.since_sequence) request_.set_since_sequence(*options_.since_sequence);
}

void WatchCore::Start() {
  const SignalsBlocked blocked;
  ConnectOptions connect;
  connect.socket = options_.socket;
  connect.autostart = options_.autostart && !AutostartForbidden();
  connect.interrupt = &interrupt_;
  absl::StatusOr<Connection> connection = Connect(connect);
  if (!connection.ok()) Throw(connection.status());
  connection_ = *std::move(connection);
  connection_.options.socket = connection_.socket;  // the environment is not asked again
  thread_ = QuietThread([this] { Run(); });
}

void WatchCore::Close() {
  interrupt_.Raise();
  thread_.join();
}

void WatchCore::Run() {
  for (;;) {
    const absl::Status status = ReadFrames();
    if (interrupt_.raised()) return;
    if (!status.ok() && !DaemonIsGone(status)) {
      if (options_.on_end) options_.on_end(ToError(status));
      return;
    }
    if (options_.on_lost) options_.on_lost(std::string(status.message()));
    // Whoever only watches brings no daemon back.
    connection_.options.autostart = false;
    if (!FindNext()) return;
  }
}

absl::Status WatchCore::ReadFrames() {
  grpc::ClientContext context;
  const Interrupt::Call call(interrupt_, context);
  const auto reader =
      v1::TelemetryService::NewStub(connection_.channel)->WatchTelemetry(&context, request_);
  v1::WatchTelemetryResponse response;
  while (reader->Read(&response)) {
    if (interrupt_.raised()) continue;  // what was on its way
    on_frame_(FromProto(response));
  }
  return FromGrpc(reader->Finish());
}

bool WatchCore::FindNext() {
  DaemonSearch search;
  search.connect = connection_.options;
  std::optional<Connection> next = AwaitDaemon(search, interrupt_);
  if (!next) return false;
  connection_ = *std::move(next);
  // A daemon's numbers are its own, so nothing of this one has been seen.
  request_.set_since_sequence(0);
  return true;
}

}  // namespace stageload::client

namespace stageload {

Watch::Watch(WatchOptions options, std::function<void(const Frame&)> on_frame)
    : core_(std::make_shared<client::WatchCore>(std::move(options), std::move(on_frame))) {
  core_->Start();
}

Watch::~Watch() {
  if (core_->InChild()) {
    client::LeaveToParent(std::move(core_));
  } else {
    core_->Close();
  }
}

}  // namespace stageload
