// The life of a registration over one daemon and the next; leases stand in session_leases.cc.
#include "client/lib/session_core.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "client/lib/convert.h"
#include "client/lib/daemon_search.h"
#include "client/lib/exception.h"
#include "client/lib/quiet_thread.h"
#include "client/lib/status.h"

namespace stageload::client {
namespace {

// A daemon that has just started may be late with what it is told is held.
constexpr absl::Duration kTakeUpWithin = absl::Seconds(10);
// A daemon that refuses a registration is not asked again at once.
constexpr absl::Duration kRefusedPause = absl::Seconds(5);

}  // namespace

SessionCore::SessionCore(SessionOptions options)
    : options_(std::move(options)),
      request_(ToProto(options_)),
      may_start_(options_.autostart && !AutostartForbidden()) {
  connect_.socket = options_.socket;
  connect_.autostart = may_start_;
  connect_.interrupt = &interrupt_;
}

void SessionCore::CheckCaller() const {
  if (InChild()) ThrowForked("this Session");
}

void SessionCore::Start() {
  CheckText("name", options_.name);
  const SignalsBlocked blocked;
  const absl::StatusOr<Paths> paths = PathsFor(connect_);
  if (!paths.ok()) Throw(paths.status());
  connect_.socket = paths->socket;  // the environment is not asked again
  absl::Status none;
  if (const absl::StatusOr<Connection> connection = Connect(connect_); connection.ok()) {
    absl::StatusOr<std::unique_ptr<Registration>> registration = Register(*connection, ++daemons_);
    if (registration.ok()) {
      registration_ = *std::move(registration);
      phase_ = Phase::kConnected;
    }
    none = registration.status();
  } else {
    none = connection.status();
  }
  if (!none.ok() && (options_.require || !NoneAnswers(none))) Throw(none);
  thread_ = QuietThread([this, text = std::string(none.message())] {
    if (!text.empty()) TellEvent(SessionEvent::Kind::kNoDaemon, text);
    Run();
  });
}

void SessionCore::Close() {
  {
    const std::lock_guard lock(mutex_);
    phase_ = Phase::kClosed;
    leases_.clear();
  }
  changed_.notify_all();
  interrupt_.Raise();
  if (thread_.joinable()) thread_.join();
  late_releases_.Join();
  registration_.reset();
}

void SessionCore::Run() {
  for (;;) {
    if (registration_ == nullptr && !RegisterAgain()) return;
    const absl::Status status = ReadEvents();
    if (interrupt_.raised()) return;
    if (status.ok()) {
      RequestStop({.reason = "ENDED", .text = "the daemon has ended the registration"});
      return Leave(Phase::kEnded, SessionEvent::Kind::kEnded,
                   "the daemon has ended the registration");
    }
    // One that leaves because it was told to is not started again.
    if (!WentAway(status)) connect_.autostart = false;
    Leave(Phase::kLooking, SessionEvent::Kind::kLost, std::string(status.message()));
  }
}

// What the daemon says, until it says no more.
absl::Status SessionCore::ReadEvents() {
  v1::RegisterResponse response;
  while (registration_->Read(response)) OnEvent(response);
  return registration_->Finish();
}

void SessionCore::OnEvent(const v1::RegisterResponse& response) {
  switch (response.event_case()) {
    case v1::RegisterResponse::kStopRequested:
      return RequestStop(FromProto(response.stop_requested()));
    case v1::RegisterResponse::kWarned:
      if (options_.on_warning) options_.on_warning(FromProto(response.warned()));
      return;
    case v1::RegisterResponse::kPressureChanged:
      if (options_.on_pressure) {
        options_.on_pressure(FromProto(response.pressure_changed().pressure()),
                             FromProto(response.pressure_changed().host()));
      }
      return;
    case v1::RegisterResponse::kSuspended:
      return TellSuspended(FromProto(response.suspended()));
    case v1::RegisterResponse::kResumed:
      return TellSuspended({.resumed = true, .reason = "", .text = ""});
    default:
      return;  // a word that is not known yet
  }
}

void SessionCore::TellSuspended(Suspension suspension) {
  suspended_ = !suspension.resumed;
  if (options_.on_suspended) options_.on_suspended(suspension);
}

// The first request counts; it may come again from a daemon that has no other way to say it.
void SessionCore::RequestStop(StopRequest stop) {
  {
    const std::lock_guard lock(mutex_);
    if (stop_) return;
    stop_ = stop;
  }
  changed_.notify_all();
  if (options_.on_stop) options_.on_stop(stop);
  stop_source_.request_stop();
}

void SessionCore::Leave(Phase phase, SessionEvent::Kind kind, const std::string& text) {
  std::unique_ptr<Registration> gone;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosed) return;
    phase_ = phase;
    gone = std::move(registration_);
    for (auto& [key, held] : leases_) held.lease_id = 0;
  }
  changed_.notify_all();
  TellEvent(kind, text);
  // The daemon that suspended it can say no more, and who notices that runs again.
  if (suspended_) TellSuspended({.resumed = true, .reason = "", .text = ""});
}

void SessionCore::TellEvent(SessionEvent::Kind kind, const std::string& text) const {
  if (options_.on_event) options_.on_event({.kind = kind, .text = text});
}

absl::StatusOr<std::unique_ptr<Registration>> SessionCore::Register(const Connection& connection,
                                                                    std::int64_t daemon) {
  absl::StatusOr<std::unique_ptr<Registration>> registration =
      Registration::Begin(connection, request_, daemon, interrupt_);
  // For the daemon after this one.
  if (registration.ok() && (*registration)->link().joined) request_.set_was_joined(true);
  return registration;
}

bool SessionCore::RegisterAgain() {
  DaemonSearch search;
  search.connect = connect_;
  search.on_absent = [this](const absl::Status& status) {
    Leave(Phase::kAbsent, SessionEvent::Kind::kNoDaemon, std::string(status.message()));
  };
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kAbsent) {  // which was told already, and a start was tried
      search.on_absent = nullptr;
      search.patience = absl::ZeroDuration();
    }
  }
  for (;;) {
    const std::optional<Connection> connection = AwaitDaemon(search, interrupt_);
    if (!connection) return false;
    absl::StatusOr<std::unique_ptr<Registration>> registration =
        Register(*connection, daemons_ + 1);
    std::map<std::uint64_t, std::int64_t> taken_up;
    std::string refused;
    absl::Status status = registration.status();
    if (status.ok()) status = TakeUp(**registration, taken_up, refused);
    if (status.ok()) {
      Publish(*std::move(registration), taken_up);
      TellEvent(SessionEvent::Kind::kRestored, absl::StrCat("registered with the daemon", refused));
      return true;
    }
    if (interrupt_.raised()) return false;
    if (DaemonIsGone(status)) continue;
    if (search.on_absent) search.on_absent(status);
    search.on_absent = nullptr;
    if (!interrupt_.Pause(kRefusedPause)) return false;
  }
}

absl::Status SessionCore::TakeUp(const Registration& registration,
                                 std::map<std::uint64_t, std::int64_t>& taken_up,
                                 std::string& refused) {
  std::map<std::uint64_t, Held> leases;
  {
    const std::lock_guard lock(mutex_);
    leases = leases_;
  }
  for (const auto& [key, held] : leases) {
    v1::AcquireRequest request;
    request.set_stage(held.stage);
    request.set_memory_bytes(held.memory_bytes);
    request.set_request_id(held.request_id);
    request.set_worker(held.worker);
    request.set_already_loaded(true);
    request.set_start_timeout_ns(0);
    LeaseCall call(registration.link(), std::move(request), interrupt_, late_releases_,
                   kTakeUpWithin);
    const absl::StatusOr<v1::Granted> granted = call.Run(nullptr, {});
    if (granted.ok()) {
      taken_up[key] = granted->lease_id();
    } else if (NoneAnswers(granted.status())) {
      return granted.status();
    } else {
      absl::StrAppend(&refused, "; it did not take the lease of \"", held.stage,
                      "\": ", std::string(granted.status().message()));
    }
  }
  return absl::OkStatus();
}

void SessionCore::Publish(std::unique_ptr<Registration> registration,
                          const std::map<std::uint64_t, std::int64_t>& taken_up) {
  const DaemonLink link = registration->link();
  std::vector<std::int64_t> released_meanwhile;
  v1::ReportRequest report;
  {
    const std::lock_guard lock(mutex_);
    if (phase_ == Phase::kClosed) return;  // and with that the registration ends
    registration_ = std::move(registration);
    daemons_ = link.daemon;
    phase_ = Phase::kConnected;
    for (const auto& [key, lease_id] : taken_up) {
      const auto held = leases_.find(key);
      if (held == leases_.end()) {
        released_meanwhile.push_back(lease_id);
      } else {
        held->second.lease_id = lease_id;
      }
    }
    for (const auto& [name, value] : gauges_) {
      v1::Gauge& gauge = *report.add_gauges();
      gauge.set_name(name);
      gauge.set_value(value);
    }
  }
  connect_.autostart = may_start_;
  changed_.notify_all();
  for (const std::int64_t lease_id : released_meanwhile) {
    ReleaseLease(link, lease_id, "", late_releases_);
  }
  if (report.gauges_size() > 0) (void)SendReport(link, std::move(report));
}

absl::Status SessionCore::SendReport(const DaemonLink& link, v1::ReportRequest request) const {
  grpc::ClientContext context;
  SetTimeout(context, kLateWithin);
  request.set_client_id(link.client_id);
  v1::ReportResponse response;
  return FromGrpc(
      v1::AdmissionService::NewStub(link.channel)->Report(&context, request, &response));
}

std::optional<DaemonLink> SessionCore::LinkNow() const {
  const std::lock_guard lock(mutex_);
  if (phase_ != Phase::kConnected) return std::nullopt;
  return registration_->link();
}

namespace {

// What only says that no daemon heard it; throws the rest.
bool Heard(const absl::Status& status) {
  if (status.ok()) return true;
  if (absl::IsInvalidArgument(status) || absl::IsPermissionDenied(status)) Throw(status);
  return false;
}

}  // namespace

bool SessionCore::Report(const std::vector<Gauge>& gauges) {
  CheckCaller();
  for (const Gauge& gauge : gauges) CheckText("gauges.name", gauge.name);
  const std::optional<DaemonLink> link = LinkNow();
  bool heard = false;
  if (link) {
    v1::ReportRequest request;
    for (const Gauge& from : gauges) {
      v1::Gauge& gauge = *request.add_gauges();
      gauge.set_name(from.name);
      gauge.set_value(from.value);
    }
    heard = Heard(SendReport(*link, std::move(request)));
  }
  const std::lock_guard lock(mutex_);
  for (const Gauge& gauge : gauges) gauges_[gauge.name] = gauge.value;
  return heard;
}

bool SessionCore::Tell(v1::Mark mark) {
  CheckCaller();
  if (mark.kind() == "stage") {
    CheckSaysSomething("stage", std::string(mark.stage()));
  } else {
    CheckSaysSomething("note", std::string(mark.note()));
  }
  const std::optional<DaemonLink> link = LinkNow();
  if (!link) return false;
  v1::ReportRequest request;
  *request.add_marks() = std::move(mark);
  return Heard(SendReport(*link, std::move(request)));
}

std::optional<StopRequest> SessionCore::stop_requested() const {
  CheckCaller();
  const std::lock_guard lock(mutex_);
  return stop_;
}

std::stop_token SessionCore::stop_token() const {
  CheckCaller();
  return stop_source_.get_token();
}

std::int64_t SessionCore::client_id() const {
  CheckCaller();
  const std::optional<DaemonLink> link = LinkNow();
  return link ? link->client_id : 0;
}

bool SessionCore::joined() const {
  CheckCaller();
  const std::optional<DaemonLink> link = LinkNow();
  return link && link->joined;
}

}  // namespace stageload::client
