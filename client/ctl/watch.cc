// stageloadctl watch: every frame as it comes, one line each.
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/options.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print.h"
#include "client/ctl/telemetry.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::string count;
  std::string interval;
  bool json = false;
};

std::string FrameLine(const v1::WatchTelemetryResponse& response) {
  const v1::Frame& frame = response.frame();
  const absl::Time time = absl::FromUnixNanos(frame.time_ns());
  std::string line = absl::StrCat(absl::FormatTime("%H:%M:%E1S", time, absl::LocalTimeZone()), "  ",
                                  HostLine(frame.host()), ", ", frame.active(), " active, ",
                                  frame.pending(), " waiting");
  for (const v1::ClientSample& client : frame.clients()) {
    absl::StrAppend(&line, " | ", client.job_id(), " ", Word(client.state()));
    if (client.has_footprint_bytes()) {
      absl::StrAppend(&line, " ", FormatBytes(Bytes(client.footprint_bytes())));
    }
    if (client.charge_bytes() != 0) {
      absl::StrAppend(&line, " charge ", FormatBytes(Bytes(client.charge_bytes())));
    }
  }
  if (!frame.blockers().empty()) absl::StrAppend(&line, " | ", BlockerLine(frame.blockers(0)));
  for (const v1::Event& event : frame.events()) {
    absl::StrAppend(&line, " | ", std::string(event.kind()));
    if (event.job_id() != 0) absl::StrAppend(&line, " ", event.job_id());
    if (!event.text().empty()) absl::StrAppend(&line, ": ", std::string(event.text()));
  }
  if (response.dropped() > 0) absl::StrAppend(&line, " | ", response.dropped(), " frames missed");
  return Printable(line) + "\n";
}

// 0 is without end.
absl::StatusOr<std::int64_t> ParseCount(const std::string& text) {
  std::int64_t count = 0;
  if (text.empty()) return count;
  if (!absl::SimpleAtoi(text, &count) || count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("-n: \"", text, "\": not a whole number from 1 up"));
  }
  return count;
}

int Follow(const Connection& connection, const v1::WatchTelemetryRequest& request,
           std::int64_t count, bool json) {
  grpc::ClientContext context;
  const auto stub = v1::TelemetryService::NewStub(connection.channel);
  const auto reader = stub->WatchTelemetry(&context, request);
  v1::WatchTelemetryResponse response;
  for (std::int64_t seen = 1; reader->Read(&response); ++seen) {
    const bool written = Out(json ? Line(ToJson(response)) : FrameLine(response));
    if (written && seen != count) continue;
    context.TryCancel();
    return written ? kExitOk : kExitOther;
  }
  const grpc::Status status = reader->Finish();
  return Fail(status.ok() ? absl::UnavailableError("the daemon ended the stream")
                          : FromGrpc(status));
}

int Watch(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> count = ParseCount(options.count);
  if (!count.ok()) return UsageError(invocation, command, std::string(count.status().message()));
  v1::WatchTelemetryRequest request;
  if (!options.interval.empty()) {
    const absl::StatusOr<absl::Duration> interval = DurationOption("--interval", options.interval);
    if (!interval.ok()) {
      return UsageError(invocation, command, std::string(interval.status().message()));
    }
    request.set_min_interval_ns(absl::ToInt64Nanoseconds(*interval));
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  return Follow(*connection, request, *count, options.json);
}

}  // namespace

void AddWatch(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("watch", "every sample as it comes");
  const auto options = std::make_shared<Options>();
  command->add_option("-n,--count", options->count, "end after this many")->type_name("N");
  command->add_option("--interval", options->interval, "at most one in this time")
      ->type_name("DUR");
  command->add_flag("--json", options->json, "JSON lines, one a frame");
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Watch(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
