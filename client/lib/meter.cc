#include "stageload/meter.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/awake_clock.h"
#include "base/error_reason.h"
#include "base/text.h"
#include "base/trace_limits.h"
#include "base/version.h"
#include "client/lib/daemon_search.h"
#include "client/lib/exception.h"
#include "client/lib/meter_core.h"
#include "client/lib/quiet_thread.h"
#include "client/lib/status.h"
#include "client/lib/trace_lines.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::client {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kUtcFormat[] = "%Y-%m-%dT%H:%M:%E3S+00:00";
constexpr absl::Duration kShortest = absl::Milliseconds(20);
constexpr absl::Duration kLongest = absl::Hours(1);
// A daemon that refuses to sample is not asked again at once.
constexpr absl::Duration kRefusedPause = absl::Seconds(5);
constexpr std::chrono::seconds kFirstSample{5};

std::string StartRest(const MeterOptions& options) {
  Json rest = Json::object();
  rest["stageload"] = std::string(kVersion);
  rest["pid"] = getpid();
  for (const auto& [name, field] : options.fields) {
    std::visit([&rest, &key = name](const auto& value) { rest[key] = value; }, field);
  }
  return rest.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

MeterCore::MeterCore(std::string path, MeterOptions options)
    : path_(std::move(path)),
      options_(std::move(options)),
      may_start_(options_.autostart && !AutostartForbidden()) {
  connect_.socket = options_.socket;
  connect_.autostart = may_start_;
  connect_.interrupt = &interrupt_;
}

void MeterCore::Start() {
  const absl::Duration interval = absl::FromChrono(options_.interval);
  if (interval < kShortest || interval > kLongest) {
    Throw(WithReason(absl::InvalidArgumentError(absl::StrCat(
                         "a meter's interval is from 20ms to 1h, not ", FormatSpan(interval))),
                     kInvalidField, "interval"));
  }
  for (const char* taken : {"type", "utc", "interval"}) {
    if (options_.fields.count(taken) == 0) continue;
    Throw(WithReason(absl::InvalidArgumentError(
                         absl::StrCat("fields: \"", taken, "\" is a name of the format's own")),
                     kInvalidField, "fields"));
  }
  const SignalsBlocked blocked;
  const absl::StatusOr<Paths> paths = PathsFor(connect_);
  if (!paths.ok()) Throw(paths.status());
  connect_.socket = paths->socket;  // the environment is not asked again
  absl::StatusOr<Connection> connection = Connect(connect_);
  if (!connection.ok() && (options_.require || !NoneAnswers(connection.status()))) {
    Throw(connection.status());
  }
  BeginFile();
  if (connection.ok()) {
    connection_ = *std::move(connection);
  } else {
    missing_ = "no daemon answered";
  }
  const bool sampled = connection_.has_value();
  thread_ = QuietThread([this] { Run(); });
  if (!sampled) return;
  // From the first sample on the daemon knows of the recording, and marks go into it.
  std::unique_lock lock(mutex_);
  began_.wait_for(lock, kFirstSample, [this] { return begun_; });
}

void MeterCore::BeginFile() {
  absl::StatusOr<TraceWriter> writer =
      TraceWriter::Create(path_, TraceWriter::Existing::kOverwrite);
  if (!writer.ok()) Throw(writer.status());
  writer_ = *std::move(writer);
  begin_ = AwakeNow();
  TraceStart start;
  start.utc = absl::FormatTime(kUtcFormat, absl::Now(), absl::UTCTimeZone());
  start.interval_seconds = absl::ToDoubleSeconds(absl::FromChrono(options_.interval));
  start.rest = StartRest(options_);
  if (const absl::Status status = writer_->Write(start); !status.ok()) Throw(status);
}

void MeterCore::Close() {
  interrupt_.Raise();
  thread_.join();
  NoteGap(absl::ToDoubleSeconds(AwakeNow() - begin_));
  (void)writer_->WriteEnd();
}

void MeterCore::Write(TraceEvent event) {
  if (InChild()) ThrowForked("this MemoryMeter");
  const std::lock_guard lock(mutex_);
  event.t = absl::ToDoubleSeconds(AwakeNow() - begin_);
  if (const absl::Status status = writer_->Write(event); !status.ok()) Throw(status);
}

void MeterCore::Run() {
  while (connection_ || FindNext()) {
    const absl::Status status = ReadSamples();
    connection_.reset();
    if (interrupt_.raised()) return;
    missing_ = DaemonIsGone(status) ? "the daemon went away" : std::string(status.message());
    if (WentAway(status)) continue;
    // One that leaves because it was told to is not started again.
    connect_.autostart = false;
    if (!DaemonIsGone(status) && !interrupt_.Pause(kRefusedPause)) return;
  }
}

absl::Status MeterCore::ReadSamples() {
  grpc::ClientContext context;
  const Interrupt::Call call(interrupt_, context);
  v1::WatchProcessRequest request;  // of this process
  request.set_interval_ns(options_.interval.count());
  const auto reader =
      v1::TelemetryService::NewStub(connection_->channel)->WatchProcess(&context, request);
  v1::WatchProcessResponse response;
  while (reader->Read(&response)) Add(response);
  const absl::Status status = FromGrpc(reader->Finish());
  Begun();
  return status;
}

// What cannot be written is left out: the disk may have room again at the next.
void MeterCore::Add(const v1::WatchProcessResponse& response) {
  const std::lock_guard lock(mutex_);
  for (const v1::Event& event : response.events()) {
    TraceEvent line = TraceLine(event);
    line.t = response.has_sample() ? TimeOf(event, response.sample(), begin_, last_t_)
                                   : absl::ToDoubleSeconds(AwakeNow() - begin_);
    (void)writer_->Write(line);
  }
  if (response.dropped() > 0) {
    TraceEvent line;
    line.kind = "mark";
    line.note =
        absl::StrCat(response.dropped(), " samples were left out: this program was too slow");
    line.t = last_t_;
    (void)writer_->Write(line);
  }
  if (!response.has_sample()) return;
  const TraceSample line = TraceLine(response.sample(), begin_);
  const absl::Duration interval = absl::FromChrono(options_.interval);
  if (missing_.empty() && response.dropped() == 0 && IsGap(line.t - last_t_, interval)) {
    missing_ = kNotSampled;
  }
  NoteGap(line.t);
  last_t_ = line.t;
  (void)writer_->Write(line);
  begun_ = true;
  began_.notify_all();
}

void MeterCore::NoteGap(double until) {
  if (missing_.empty()) return;
  TraceEvent line;
  line.kind = "mark";
  line.note = GapNote(absl::Seconds(until - last_t_), std::exchange(missing_, ""));
  line.t = last_t_;
  (void)writer_->Write(line);
}

void MeterCore::Begun() {
  const std::lock_guard lock(mutex_);
  begun_ = true;
  began_.notify_all();
}

bool MeterCore::FindNext() {
  DaemonSearch search;
  search.connect = connect_;
  connection_ = AwaitDaemon(search, interrupt_);
  connect_.autostart = may_start_;
  return connection_.has_value();
}

}  // namespace stageload::client

namespace stageload {
namespace {

TraceEvent Sized(const char* kind, const std::string& name, std::int64_t nbytes, double seconds) {
  client::CheckText("name", name);
  const auto check = [&](const char* field, const absl::Status& status) {
    if (status.ok()) return;
    client::Throw(
        WithReason(absl::InvalidArgumentError(absl::StrCat(kind, " of \"", name, "\": ", field,
                                                           ": ", std::string(status.message()))),
                   kInvalidField, field));
  };
  check("nbytes", CheckTraceSize(Bytes(nbytes)));
  check("seconds", CheckTraceSeconds(seconds));
  TraceEvent event;
  event.kind = kind;
  event.name = name;
  event.nbytes = Bytes(nbytes);
  event.seconds = seconds;
  return event;
}

}  // namespace

MemoryMeter::MemoryMeter(const std::string& path, MeterOptions options)
    : core_(std::make_shared<client::MeterCore>(path, std::move(options))) {
  core_->Start();
}

MemoryMeter::~MemoryMeter() {
  if (core_->InChild()) {
    client::LeaveToParent(std::move(core_));
  } else {
    core_->Close();
  }
}

void MemoryMeter::Mark(const std::string& note) {
  client::CheckSaysSomething("note", note);
  TraceEvent event;
  event.kind = "mark";
  event.note = note;
  core_->Write(std::move(event));
}

void MemoryMeter::Stage(const std::string& name) {
  client::CheckSaysSomething("name", name);
  TraceEvent event;
  event.kind = "stage";
  event.stage = name;
  core_->Write(std::move(event));
}

void MemoryMeter::Load(const std::string& name, std::int64_t nbytes, double seconds) {
  core_->Write(Sized("load", name, nbytes, seconds));
}

void MemoryMeter::Reload(const std::string& name, std::int64_t nbytes, double seconds) {
  core_->Write(Sized("reload", name, nbytes, seconds));
}

void MemoryMeter::Release(const std::string& name, std::int64_t nbytes, double seconds) {
  core_->Write(Sized("release", name, nbytes, seconds));
}

}  // namespace stageload
