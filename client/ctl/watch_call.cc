#include "client/ctl/watch_call.h"

#include <utility>

#include "client/ctl/errors.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {

WatchCall::WatchCall(const Connection& connection, const v1::WatchProcessRequest& request,
                     OnAnswer on_answer, OnEnd on_end) {
  thread_ = std::thread([this, channel = connection.channel, request, tell = std::move(on_answer),
                         tell_end = std::move(on_end)] {
    const auto stub = v1::TelemetryService::NewStub(channel);
    const auto reader = stub->WatchProcess(&context_, request);
    v1::WatchProcessResponse response;
    while (reader->Read(&response)) tell(std::move(response));
    tell_end(FromGrpc(reader->Finish()));
  });
}

WatchCall::~WatchCall() {
  context_.TryCancel();
  thread_.join();
}

}  // namespace stageload::ctl
