// stageloadctl watch: every frame as it comes, one line each.
#include <cstdint>
#include <memory>
#include <optional>
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
#include "client/ctl/telemetry_text.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

struct Options {
  std::optional<std::string> count;
  std::optional<std::string> interval;
  std::optional<std::string> since;
  bool json = false;
};

void AppendClient(std::string& line, const v1::ClientSample& client) {
  absl::StrAppend(&line, " | ", client.job_id(), " ", Word(client.state()));
  if (client.has_footprint_bytes()) {
    absl::StrAppend(&line, " ", FormatBytes(Bytes(client.footprint_bytes())));
  }
  if (client.charge_bytes() != 0) {
    absl::StrAppend(&line, " charge ", FormatBytes(Bytes(client.charge_bytes())));
  }
  if (!client.stage().empty()) absl::StrAppend(&line, " stage ", std::string(client.stage()));
  const std::string more = LeasesAndGauges(client);
  if (!more.empty()) absl::StrAppend(&line, " ", more);
}

// What the first of those that wait waits for, and whether that is all of them.
void AppendWaiting(std::string& line, const v1::Frame& frame) {
  if (frame.waiting().empty()) {  // of a daemon that tells the blockers only
    if (!frame.blockers().empty()) absl::StrAppend(&line, " | ", BlockerLine(frame.blockers(0)));
    return;
  }
  const v1::WaitingRequest& first = frame.waiting(0);
  absl::StrAppend(&line, " | ", first.job_id(), " waits: ", WantsText(first), ": ",
                  BlockerTexts(first).front());
}

std::string FrameLine(const v1::WatchTelemetryResponse& response) {
  const v1::Frame& frame = response.frame();
  const absl::Time time = absl::FromUnixNanos(frame.time_ns());
  std::string line = absl::StrCat(absl::FormatTime("%H:%M:%E1S", time, absl::LocalTimeZone()), "  ",
                                  HostLine(frame.host()), ", ", frame.active(), " active, ",
                                  frame.pending(), " waiting");
  if (frame.has_queue_held()) {
    absl::StrAppend(&line, ", queue held: ", std::string(frame.queue_held()));
  }
  for (const v1::ClientSample& client : frame.clients()) AppendClient(line, client);
  AppendWaiting(line, frame);
  for (const v1::Event& event : frame.events()) {
    absl::StrAppend(&line, " | ", std::string(event.kind()));
    if (event.job_id() != 0) absl::StrAppend(&line, " ", event.job_id());
    const std::string text = EventText(event);
    if (!text.empty()) absl::StrAppend(&line, ": ", text);
  }
  if (response.dropped() > 0) absl::StrAppend(&line, " | ", response.dropped(), " frames missed");
  return Printable(line) + "\n";
}

// 0 is without end.
absl::StatusOr<std::int64_t> ParseCount(const std::optional<std::string>& text) {
  std::int64_t count = 0;
  if (!text) return count;
  if (!absl::SimpleAtoi(*text, &count) || count < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("-n: \"", *text, "\": not a whole number from 1 up"));
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

absl::StatusOr<v1::WatchTelemetryRequest> ToRequest(const Options& options) {
  v1::WatchTelemetryRequest request;
  if (options.interval) {
    const absl::StatusOr<absl::Duration> interval = DurationOption("--interval", *options.interval);
    if (!interval.ok()) return interval.status();
    request.set_min_interval_ns(absl::ToInt64Nanoseconds(*interval));
  }
  if (options.since) {
    std::int64_t since = 0;
    if (!absl::SimpleAtoi(*options.since, &since) || since < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("--since: \"", *options.since,
                       "\": not the sequence number of a frame; 0 gives all that are kept"));
    }
    request.set_since_sequence(since);
  }
  return request;
}

int Watch(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<std::int64_t> count = ParseCount(options.count);
  if (!count.ok()) return UsageError(invocation, command, std::string(count.status().message()));
  const absl::StatusOr<v1::WatchTelemetryRequest> request = ToRequest(options);
  if (!request.ok()) {
    return UsageError(invocation, command, std::string(request.status().message()));
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  return Follow(*connection, *request, *count, options.json);
}

}  // namespace

void AddWatch(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("watch", "every sample as it comes");
  const auto options = std::make_shared<Options>();
  command->add_option("-n,--count", options->count, "end after this many")->type_name("N");
  command->add_option("--interval", options->interval, "at most one in this time")
      ->type_name("DUR");
  command
      ->add_option(
          "--since", options->since,
          "begin with the frames after this sequence number; 0: with all that are kept, an "
          "hour at most")
      ->type_name("SEQ");
  command->add_flag("--json", options->json, "JSON lines, one a frame");
  AddExample(*command, invocation,
             {"stageloadctl watch --json --interval 10s | jq .frame.host.swap_used_bytes"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Watch(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
