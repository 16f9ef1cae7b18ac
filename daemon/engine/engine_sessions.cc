// Programs that registered themselves: who they are, what they are told, and their leases.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "daemon/core/sampling.h"
#include "daemon/engine/engine_impl.h"

namespace stageload::engine {
namespace {

using core::LeaseId;

// How long the programs of the daemon before are waited for, and one of them after it has
// registered again, so that it can say what it holds before others are admitted.
constexpr absl::Duration kReturnWithin = absl::Seconds(3);
constexpr absl::Duration kTakeUpWithin = absl::Milliseconds(300);
// Odd and large, so that no two registrations' workers look like one.
constexpr std::uint64_t kWorkers = 0x9E3779B97F4A7C15;

absl::Status NoClient(JobId id) {
  return WithReason(
      absl::NotFoundError(absl::StrCat("client_id: ", core::Value(id), " is not registered")),
      kClientNotFound, "client_id");
}

absl::Status NoLease(const ReleaseRequest& request) {
  const std::string what = request.lease ? absl::StrCat("lease ", core::Value(*request.lease))
                                         : absl::StrCat("request \"", request.request_id, "\"");
  return WithReason(absl::NotFoundError(absl::StrCat(what, " is not held or waited for by client ",
                                                     core::Value(request.client))),
                    kLeaseNotFound, request.lease ? "lease_id" : "request_id");
}

absl::Status TakenBack() {
  return WithReason(absl::CancelledError("the request was taken back"), kLeaseNotFound);
}

// "python" of "/usr/bin/python train.py".
std::string NameOf(const std::string& command_line, std::int32_t pid) {
  const std::string program = command_line.substr(0, command_line.find(' '));
  const std::string name = program.substr(program.rfind('/') + 1);
  return name.empty() ? absl::StrCat("process ", pid) : name;
}

}  // namespace

// ---- Registrations ----

void Engine::Impl::Register(WatchToken token, RegisterRequest request, OnSession on_event) {
  const absl::StatusOr<host::Process> process = parts_.host->Find(request.pid);
  if (!process.ok()) {
    return on_event(WithReason(absl::InvalidArgumentError(absl::StrCat(
                                   "pid: there is no process ", request.pid, " to register")),
                               kInvalidField, "pid"));
  }
  Session& session = sessions_[token];
  session.root = process->identity;
  Returned(session.root);
  session.caller = request.caller;
  session.on_event = std::move(on_event);
  Enroll(token, std::move(request));
}

void Engine::Impl::Enroll(WatchToken token, RegisterRequest request) {
  if (const auto client = ClientAround(request.pid)) return Join(token, *client);
  if (IsBeingRegistered(request.pid)) {
    waiting_registrations_.emplace_back(token, std::move(request));
    return;
  }
  Session& session = sessions_.at(token);
  core::Submit event;
  event.token = next_submit_token_++;
  event.kind = core::JobKind::kSession;
  event.name = std::move(request.name);
  event.policy = request.policy;
  event.may_signal = request.enforce;
  event.root = session.root;
  if (const auto before = request.was_joined ? ClientBefore(request.pid) : returning_.cend();
      before != returning_.cend()) {
    event.name = before->second.name;
    event.policy = before->second.policy;
    event.may_signal = before->second.may_signal;
    event.root = before->first;
  }
  session.being_saved = event.root;
  const absl::StatusOr<std::string> line = parts_.host->CommandLine(*event.root);
  event.command = line.ok() ? core::DisplayCommand({*line}) : "";
  if (event.name.empty()) event.name = NameOf(event.command, event.root->pid);
  event.boot_id = parts_.host->BootId();
  Enqueue(event, std::nullopt, [this, token](const absl::StatusOr<JobView>& job) {
    Accept(token, job);
    // Those that the process or a child of it asked for meanwhile.
    for (auto& [waiting, wanted] : std::exchange(waiting_registrations_, {})) {
      if (sessions_.count(waiting) > 0) Enroll(waiting, std::move(wanted));
    }
  });
}

// Whether a process around it is about to become a client, which this one then is, too.
bool Engine::Impl::IsBeingRegistered(std::int32_t pid) const {
  const bool any = std::any_of(sessions_.begin(), sessions_.end(), [](const auto& entry) {
    return entry.second.being_saved.has_value();
  });
  if (!any) return false;
  const std::vector<core::ProcessIdentity> line = WithAncestors(pid);
  return std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    return entry.second.being_saved &&
           std::find(line.begin(), line.end(), *entry.second.being_saved) != line.end();
  });
}

// The client of the daemon before that it was joined to: the innermost around it.
Engine::Impl::ReturningByRoot::const_iterator Engine::Impl::ClientBefore(std::int32_t pid) const {
  for (const core::ProcessIdentity& process : WithAncestors(pid)) {
    const auto found = returning_.find(process);
    if (found != returning_.end()) return found;
  }
  return returning_.end();
}

// Its row is on disk, or it was refused.
void Engine::Impl::Accept(WatchToken token, const absl::StatusOr<JobView>& job) {
  const auto session = sessions_.find(token);
  if (!job.ok()) {
    if (session == sessions_.end()) return;
    const OnSession on_event = std::move(session->second.on_event);
    sessions_.erase(session);
    return on_event(job.status());
  }
  const JobId id = job->record.id;
  if (session == sessions_.end()) return Feed(core::ClientGone{id});  // its caller has gone
  const core::ProcessIdentity root = *std::exchange(session->second.being_saved, std::nullopt);
  session->second.client = id;
  Attach(id, root, ProcessTree::Root::kMember);
  SampleSoon();
  TellRegistered(session->second);
  // Its record ended with its stream, and the stop has not.
  const auto before = returning_.find(root);
  if (before != returning_.end() && std::exchange(before->second.stopping, false)) {
    Feed(core::CancelAsked{id});
  }
}

// A process in the tree of a client is that client, so nothing is counted twice, and what stops the
// client stops the process.
void Engine::Impl::Join(WatchToken token, JobId client) {
  Session& session = sessions_.at(token);
  session.client = client;
  session.joined = true;
  session.suspended = core_->Find(client)->state == core::JobState::kSuspended;
  after_commit_.push_back([this, token](const absl::Status&) {
    const auto found = sessions_.find(token);
    if (found != sessions_.end()) TellRegistered(found->second);
  });
}

void Engine::Impl::TellRegistered(Session& session) {
  const core::JobRecord* record = core_->Find(*session.client);
  if (record == nullptr) return;  // it has ended meanwhile; that is told, too
  session.on_event(Registered{record->id, record->policy, core_->host(), session.joined});
}

void Engine::Impl::Unregister(WatchToken token) {
  auto node = sessions_.extract(token);
  if (node.empty()) return;
  Session& session = node.mapped();
  if (!session.client) return;  // see Accept()
  std::vector<WatchToken> waiting;
  for (const auto& [acquisition_token, acquisition] : acquisitions_) {
    if (acquisition.session == token) waiting.push_back(acquisition_token);
  }
  for (const WatchToken acquisition : waiting) AnswerAcquisition(acquisition, TakenBack());
  if (!session.joined && !PassOn(*session.client)) return SessionEnded(*session.client);
  for (const auto& [lease, request_id] : session.leases) Feed(core::LeaseReleased{lease});
}

// The client lives as long as one of the registrations that it consists of. False when this was the
// last.
bool Engine::Impl::PassOn(JobId client) {
  const auto next = std::find_if(sessions_.begin(), sessions_.end(), [client](const auto& entry) {
    return entry.second.client == client;
  });
  if (next == sessions_.end()) return false;
  next->second.joined = false;
  return true;
}

// The same when its process has ended: one that registered from inside it and lives becomes what
// the client is known by. A client that is being stopped ends with its process.
bool Engine::Impl::PassOnFrom(JobId client, const core::ProcessIdentity& ended) {
  if (core_->Find(client)->state == core::JobState::kStopping) return false;
  const auto next = std::find_if(sessions_.begin(), sessions_.end(), [&](const auto& entry) {
    const Session& session = entry.second;
    return session.client == client && session.root != ended && StillThere(session.root);
  });
  if (next == sessions_.end()) return false;
  next->second.joined = false;
  Attach(client, next->second.root, ProcessTree::Root::kMember);
  // Their streams may live on, in a child that has them open.
  std::vector<WatchToken> over;
  for (const auto& [token, session] : sessions_) {
    if (session.client == client && session.root == ended) over.push_back(token);
  }
  for (const WatchToken token : over) {
    sessions_.at(token).on_event(ClientEnded{});
    Unregister(token);
  }
  return true;
}

void Engine::Impl::ForSessionsOf(JobId client, const std::function<void(Session&)>& tell) {
  for (auto& [token, session] : sessions_) {
    if (session.client == client) tell(session);
  }
}

// Of a client that has ended.
void Engine::Impl::EndSessionsOf(JobId client) {
  std::vector<OnSession> ended;
  for (auto session = sessions_.begin(); session != sessions_.end();) {
    if (session->second.client == client) {
      ended.push_back(std::move(session->second.on_event));
      session = sessions_.erase(session);
    } else {
      ++session;
    }
  }
  for (const OnSession& on_event : ended) on_event(ClientEnded{});
  said_.erase(client);
}

void Engine::Impl::TurnSessionsAway() {
  for (auto& [token, session] : std::exchange(sessions_, {})) session.on_event(ShuttingDown());
  for (auto& [token, wanted] : std::exchange(acquisitions_, {})) wanted.on_lease(ShuttingDown());
  for (auto& [token, recording] : std::exchange(recordings_, {})) {
    recording.on_update(ShuttingDown());
  }
}

// Whether they are suspended or go on.
void Engine::Impl::TellSessions(const std::set<JobId>& changed) {
  for (auto& [token, session] : sessions_) {
    if (!session.client || changed.count(*session.client) == 0) continue;
    const core::JobRecord* record = core_->Find(*session.client);
    if (record == nullptr) continue;
    const bool suspended = record->state == core::JobState::kSuspended;
    if (std::exchange(session.suspended, suspended) == suspended) continue;
    if (suspended) {
      session.on_event(Suspended{record->reason, record->reason_text});
    } else {
      session.on_event(Resumed{});
    }
  }
}

void Engine::Impl::TellPressure() {
  const std::optional<core::Pressure> pressure = core_->host().pressure;
  if (!pressure || pressure == std::exchange(pressure_, pressure)) return;
  for (auto& [token, session] : sessions_) {
    if (session.client) session.on_event(PressureChanged{core_->host()});
  }
}

// A program of the daemon before, which lives on.
void Engine::Impl::AwaitReturn(const core::JobRecord& record) {
  const absl::Duration until = Now().awake + kReturnWithin;
  returning_[*record.root] = {record.name, record.policy, record.may_signal,
                              record.state == core::JobState::kStopping, until};
  Feed(core::ProgramsReturning{until});
}

void Engine::Impl::Returned(const core::ProcessIdentity& root) {
  const auto found = returning_.find(root);
  if (found == returning_.end()) return;
  found->second.until = std::min(found->second.until, Now().awake + kTakeUpWithin);
  const auto last = std::max_element(
      returning_.begin(), returning_.end(),
      [](const auto& a, const auto& b) { return a.second.until < b.second.until; });
  Feed(core::ProgramsReturning{last->second.until});
}

// ---- What the core decides about them ----

bool Engine::Impl::IsForSessions(const core::Effect& effect) {
  return std::holds_alternative<core::Warned>(effect) ||
         std::holds_alternative<core::StopRequested>(effect) ||
         std::holds_alternative<core::LeaseQueued>(effect) ||
         std::holds_alternative<core::LeaseGranted>(effect) ||
         std::holds_alternative<core::LeaseDenied>(effect);
}

void Engine::Impl::CarryOutForSessions(const core::Effect& effect) {
  if (const auto* warned = std::get_if<core::Warned>(&effect)) {
    ForSessionsOf(warned->id, [&](Session& session) { session.on_event(*warned); });
  } else if (const auto* stop = std::get_if<core::StopRequested>(&effect)) {
    ForSessionsOf(stop->id, [&](Session& session) { session.on_event(*stop); });
  } else if (const auto* queued = std::get_if<core::LeaseQueued>(&effect)) {
    LeaseIsQueued(*queued);
  } else if (const auto* granted = std::get_if<core::LeaseGranted>(&effect)) {
    LeaseIsGranted(*granted);
  } else if (const auto* denied = std::get_if<core::LeaseDenied>(&effect)) {
    LeaseIsDenied(*denied);
  }
}

// ---- Leases ----

// The registration of the client that the caller speaks for: over the same connection, or as the
// registered process or a descendant of it.
absl::StatusOr<Engine::WatchToken> Engine::Impl::SessionOf(JobId client, const Caller& caller) {
  std::vector<WatchToken> sessions;
  for (const auto& [token, session] : sessions_) {
    if (session.client != client) continue;
    if (session.caller.connection == caller.connection) return token;
    sessions.push_back(token);
  }
  if (sessions.empty()) return NoClient(client);
  const std::vector<core::ProcessIdentity> line = WithAncestors(caller.pid);
  for (const WatchToken token : sessions) {
    const Session& session = sessions_.at(token);
    if (session.caller.pid == caller.pid) return token;
    if (std::find(line.begin(), line.end(), session.root) != line.end()) return token;
  }
  return WithReason(absl::PermissionDeniedError(
                        absl::StrCat("client_id: process ", caller.pid, " did not register client ",
                                     core::Value(client), " and is not in its process tree")),
                    kPeerRefused, "client_id");
}

void Engine::Impl::Acquire(WatchToken token, AcquireRequest request, OnLease on_lease) {
  const absl::StatusOr<WatchToken> session = SessionOf(request.client, request.caller);
  if (!session.ok()) return on_lease(session.status());
  if (const auto lease = HeldAs(request)) return on_lease(LeaseGranted{*lease, false, {}});
  if (absl::Status status = CheckUnused(request); !status.ok()) return on_lease(status);
  core::Acquire event;
  event.token = next_submit_token_++;
  event.client = request.client;
  event.stage = std::move(request.stage);
  event.memory = request.memory;
  event.start_timeout = request.start_timeout;
  event.loaded = request.loaded;
  event.holder = *session * kWorkers ^ request.worker;
  event.footprint = FreshFootprint(request.client);
  Acquisition& acquisition = acquisitions_[token];
  acquisition.session = *session;
  acquisition.request_id = std::move(request.request_id);
  acquisition.on_lease = std::move(on_lease);
  acquiring_[event.token] = token;
  Feed(event);
}

// What was taken since the newest sample must be taken for no part of a lease. Where that sample is
// of just now, the client may have come after it, and is read by itself; else a new one has it.
std::optional<Bytes> Engine::Impl::FreshFootprint(JobId client) {
  const Instant now = Now();
  if (now.awake - last_read_ < core::kFastInterval) return UsageOf(client).usage.footprint;
  TakeSample(now);
  return std::nullopt;
}

// The lease that the same request has got already: its answer was lost.
std::optional<LeaseId> Engine::Impl::HeldAs(const AcquireRequest& request) const {
  if (request.request_id.empty()) return std::nullopt;
  for (const auto& [token, session] : sessions_) {
    if (session.client != request.client) continue;
    for (const auto& [lease, request_id] : session.leases) {
      const auto known = core_->leases().find(lease);
      const bool granted = known != core_->leases().end() && known->second.granted;
      if (granted && request_id == request.request_id) return lease;
    }
  }
  return std::nullopt;
}

absl::Status Engine::Impl::CheckUnused(const AcquireRequest& request) const {
  for (const auto& [token, waiting] : acquisitions_) {
    if (request.request_id.empty() || waiting.request_id != request.request_id) continue;
    const auto owner = sessions_.find(waiting.session);
    if (owner == sessions_.end() || owner->second.client != request.client) continue;
    return WithReason(
        absl::AlreadyExistsError(absl::StrCat("request_id: a request \"", request.request_id,
                                              "\" of this client waits already; Release takes it "
                                              "back")),
        kInvalidField, "request_id");
  }
  return absl::OkStatus();
}

void Engine::Impl::AcquireRefused(std::uint64_t token, const absl::Status& status) {
  const auto acquire = acquiring_.extract(token);
  if (!acquire.empty()) AnswerAcquisition(acquire.mapped(), status);
}

void Engine::Impl::LeaseIsQueued(const core::LeaseQueued& queued) {
  const auto acquire = acquiring_.extract(queued.token);
  const auto found = acquisitions_.find(acquire.mapped());
  // Its caller has gone, or its registration has.
  if (found == acquisitions_.end()) return Feed(core::LeaseReleased{queued.id});
  Acquisition& acquisition = found->second;
  const auto session = sessions_.find(acquisition.session);
  if (session == sessions_.end()) return;  // its client has ended, and so has the request
  acquisition.lease = queued.id;
  session->second.leases[queued.id] = acquisition.request_id;
  const auto lease = core_->leases().find(queued.id);
  if (lease != core_->leases().end() && !lease->second.granted) {
    TellWaiting(acquisition, core_->BlockersOf(Now(), queued.id));
  }
}

void Engine::Impl::LeaseIsGranted(const core::LeaseGranted& granted) {
  const auto token = AcquisitionOf(granted.id);
  const auto lease = core_->leases().find(granted.id);
  if (!token || lease == core_->leases().end()) return;
  const std::string stage = lease->second.stage;
  said_[granted.client].stage = stage;
  TellRecordingsOf(granted.client, {"stage", granted.client, stage, Now().wall,
                                    telemetry::Mark{.kind = "stage", .stage = stage}});
  AnswerAcquisition(
      *token, LeaseGranted{granted.id, granted.forced, Now().awake - lease->second.asked.awake});
}

// Who did not wait has not heard yet what blocks it, and who did may not know the newest figures.
void Engine::Impl::LeaseIsDenied(const core::LeaseDenied& denied) {
  if (const auto token = AcquisitionOf(denied.id)) {
    Acquisition& acquisition = acquisitions_.at(*token);
    if (!denied.blockers.empty()) TellWaiting(acquisition, denied.blockers);
    AnswerAcquisition(*token, denied.status);
  }
  ForgetLease(denied.id);
}

// The last answer to who waits for a lease.
void Engine::Impl::AnswerAcquisition(WatchToken token, absl::StatusOr<LeaseEvent> answer) {
  auto node = acquisitions_.extract(token);
  if (!node.empty()) node.mapped().on_lease(std::move(answer));
}

std::optional<Engine::WatchToken> Engine::Impl::AcquisitionOf(LeaseId id) const {
  for (const auto& [token, acquisition] : acquisitions_) {
    if (acquisition.lease == id) return token;
  }
  return std::nullopt;
}

std::optional<Engine::WatchToken> Engine::Impl::HolderOf(LeaseId id) const {
  for (const auto& [token, session] : sessions_) {
    if (session.leases.count(id) > 0) return token;
  }
  return std::nullopt;
}

void Engine::Impl::TellWaiting(Acquisition& acquisition, std::vector<core::Blocker> blockers) {
  LeaseWaiting waiting;
  waiting.blockers = std::move(blockers);
  const std::vector<LeaseId> order = core_->WaitingLeases();
  waiting.position = std::find(order.begin(), order.end(), *acquisition.lease) - order.begin() + 1;
  acquisition.told.Told(waiting.blockers, Now().awake);
  acquisition.on_lease(std::move(waiting));
}

void Engine::Impl::TellWaitingLeases() {
  for (auto& [token, acquisition] : acquisitions_) {
    if (!acquisition.lease) continue;
    std::vector<core::Blocker> blockers = core_->BlockersOf(Now(), *acquisition.lease);
    if (!blockers.empty() && acquisition.told.IsNews(blockers, Now().awake)) {
      TellWaiting(acquisition, std::move(blockers));
    }
  }
}

void Engine::Impl::ForgetLease(LeaseId id) {
  if (const auto holder = HolderOf(id)) sessions_.at(*holder).leases.erase(id);
}

void Engine::Impl::GiveBack(LeaseId id) {
  ForgetLease(id);
  Feed(core::LeaseReleased{id});
  SampleSoon();
}

void Engine::Impl::Abandon(WatchToken token) {
  auto node = acquisitions_.extract(token);
  if (!node.empty() && node.mapped().lease) GiveBack(*node.mapped().lease);
}

void Engine::Impl::Release(const ReleaseRequest& request, OnDone done) {
  const absl::StatusOr<WatchToken> session = SessionOf(request.client, request.caller);
  if (!session.ok()) return done(session.status());
  // One that is on its way into the queue, or waits there.
  for (auto& [token, acquisition] : acquisitions_) {
    const bool meant = request.lease ? acquisition.lease == request.lease
                                     : acquisition.request_id == request.request_id;
    const auto owner = sessions_.find(acquisition.session);
    if (!meant || owner == sessions_.end() || owner->second.client != request.client) continue;
    const std::optional<LeaseId> lease = acquisition.lease;
    AnswerAcquisition(token, TakenBack());
    if (lease) GiveBack(*lease);
    return done(absl::OkStatus());
  }
  for (const auto& [token, other] : sessions_) {
    if (other.client != request.client) continue;
    for (const auto& [lease, request_id] : other.leases) {
      const bool meant = request.lease ? lease == *request.lease : request_id == request.request_id;
      if (!meant) continue;
      GiveBack(lease);
      return done(absl::OkStatus());
    }
  }
  done(NoLease(request));
}

}  // namespace stageload::engine
