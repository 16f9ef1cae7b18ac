// The one thread that feeds the core and carries out what it decides. Calls from outside become
// messages in its mailbox; it drains them in batches: one core step a message, one store
// transaction a batch, then signals, starts and answers. So whatever is answered is on disk.
//
// Threading: everything public may be called from any thread. Callbacks come from the engine's
// thread and may not block; they may call back into the engine.
#ifndef STAGELOAD_DAEMON_ENGINE_ENGINE_H_
#define STAGELOAD_DAEMON_ENGINE_ENGINE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "daemon/core/blocker.h"
#include "daemon/core/job.h"
#include "daemon/core/policy.h"
#include "daemon/engine/session.h"
#include "daemon/host/host.h"
#include "daemon/jobs/exit_watcher.h"
#include "daemon/jobs/jobs.h"
#include "daemon/store/store.h"
#include "daemon/telemetry/hub.h"

namespace stageload::engine {

// A job as it is now: the stored row and what only the living daemon knows.
struct JobView {
  core::JobRecord record;
  std::optional<std::int32_t> pid;      // of an active job's command, once it is started
  core::Usage usage;                    // of an active job, at the last sample
  std::vector<core::Blocker> blockers;  // of a pending one
  std::int64_t queue_position = 0;      // of a pending one, from 1
  std::string folder;                   // only from Get(); empty for a guarded command
  std::optional<jobs::Result> result;   // only from Get(), of a job that ended under its shim
};

// Where the next page begins of a list in the order of the queue: after this job, in this part.
struct QueuePlace {
  enum class Part { kPending, kActive, kEnded };
  Part part = Part::kPending;
  int priority = 0;  // of a pending one
  core::JobId id{};
};

struct JobPage {
  std::vector<JobView> jobs;
  std::optional<core::JobId> next;        // pass as ListQuery::before for the next page
  std::optional<QueuePlace> next_place;   // or, in queue order, to ListQueue()
  std::optional<std::string> queue_held;  // why the whole queue is held
};

// What the machine and the queue read when something was decided, for the log.
struct Readings {
  core::HostSample host;
  Bytes reserved;  // promised to active clients beyond their footprints
  int pending = 0;
  int active = 0;
  // Of the client that it is about, while the daemon has it in memory.
  std::optional<core::JobKind> kind;
  std::optional<Bytes> charge;
  std::optional<Bytes> swap_budget;
  std::optional<Bytes> footprint;
};

// What is remembered of the runs under one name.
struct ProfileView {
  std::string name;
  std::optional<Bytes> estimate;
  std::vector<core::RunPeaks> runs;  // oldest first
};

// What a request waits for besides room, and what it belongs to.
struct Terms {
  std::string group;
  std::string profile;
  std::vector<core::JobId> after;
  std::optional<absl::Time> begin_time;
  bool held = false;  // of a job
};

// What a submit brings.
struct SubmitRequest {
  std::string name;
  core::Policy policy;
  Terms terms;
  core::JobSpec spec;
  std::string request_id;  // of a submit that may be repeated; empty is none
  bool requeue = false;
  bool notify = false;
};

// Another run of a job that has ended.
struct RetryRequest {
  core::JobId id{};
  std::optional<Bytes> memory = std::nullopt;  // declared instead of what it needs by what is known
  std::vector<core::JobId> after = {};
  std::string request_id = {};  // as in SubmitRequest
};

struct GuardRequest {
  std::string name;
  std::string command;
  core::Policy policy;
  Terms terms;
  std::int32_t pid = 0;  // the command, held back by the caller
};

class Engine {
 public:
  struct Parts {  // not owned; all outlive the engine
    host::Host* host = nullptr;
    store::Store* store = nullptr;
    jobs::Jobs* jobs = nullptr;
    telemetry::Hub* hub = nullptr;
  };
  struct Options {
    core::Config config;
    // Ended jobs and events are forgotten after so long.
    absl::Duration keep_history = absl::Hours(24 * 30);
    // Leaves when nothing was asked, queued, run or watched for so long.
    std::optional<absl::Duration> idle_exit;
    std::function<void()> on_idle;  // called once, from the engine's thread
    // Every decision with its figures, for the log; from the engine's thread. "waits" is told here
    // alone: what the first of the queue waits for, when that is another thing than before.
    std::function<void(const telemetry::Event&, const Readings&)> on_event;
    // Of each client that has ended, once that is on disk; from the engine's thread.
    std::function<void(const core::JobRecord&)> on_end;
  };
  using OnJob = absl::AnyInvocable<void(absl::StatusOr<JobView>)>;
  using OnPage = absl::AnyInvocable<void(absl::StatusOr<JobPage>)>;
  using OnEvents = absl::AnyInvocable<void(absl::StatusOr<std::vector<store::EventRow>>)>;
  using OnDone = absl::AnyInvocable<void(absl::Status)>;

  // Errors carry a reason for programs (base/error_reason.h).
  Engine(Options options, Parts parts);
  ~Engine();

  // Reads the store, finds running jobs again and takes the first sample. Once, before Run().
  absl::Status Restore();
  void Run();  // until Stop()
  // Run() returns after the batch in hand; every call still waiting is answered Unavailable.
  void Stop();

  void Submit(SubmitRequest request, OnJob done);
  void Get(core::JobId id, OnJob done);
  void List(store::ListQuery query, OnPage done);
  // The same in the order of the queue; query.before is not looked at.
  void ListQueue(store::ListQuery query, QueuePlace after, OnPage done);
  // Those of them that still are.
  void GetSome(std::vector<core::JobId> ids,
               absl::AnyInvocable<void(absl::StatusOr<std::vector<JobView>>)> done);
  // What happened, from the store, newest first.
  void ListEvents(store::EventQuery query, OnEvents done);
  // What a user may ask of one job. Asked of a job in a wrong state: FailedPrecondition, with a
  // reason; asked for what is so already: the job as it is.
  enum class Request { kCancel, kHold, kRelease, kSuspend, kResume };
  void Control(core::JobId id, Request request, OnJob done);
  void Cancel(core::JobId id, OnJob done) { Control(id, Request::kCancel, std::move(done)); }
  // Queues an ended job again, as a new one.
  void Retry(RetryRequest request, OnJob done);
  // Gives a job that has not ended other terms: `change` makes them of those that it has.
  using Change = std::function<absl::StatusOr<core::Policy>(const core::Policy&)>;
  void Update(core::JobId id, Change change, OnJob done);
  // Forgets an ended job with its folder; answers with what it was.
  void Delete(core::JobId id, OnJob done);

  // Another config from here on: what runs keeps its terms, what waits is looked at again.
  void Reconfigure(core::Config config, absl::Duration keep_history);
  // Something happened to the daemon itself: told and kept as every other event.
  void NoteEvent(std::string kind, std::string text);

  // Starts nothing that waits until it is released; asked for what is so already, nothing changes.
  void HoldQueue(std::string why, OnDone done);
  void ReleaseQueue(OnDone done);

  // By name; only the one that is named, unless `name` is empty.
  void ListProfiles(std::string name,
                    absl::AnyInvocable<void(absl::StatusOr<std::vector<ProfileView>>)> done);
  void DeleteProfile(std::string name, OnDone done);

  // Queues a guarded command whose right to be named the caller has checked. It is withdrawn
  // with WithdrawGuard while it waits. Asked again for the same process it is the same job.
  void Guard(GuardRequest request, OnJob done);
  // The guard of a daemon that has gone goes on with this one, which has found `pid` again or its
  // end in the store. InvalidArgument when the job does not guard `pid`.
  void ResumeGuard(core::JobId id, std::int32_t pid, OnJob done);
  // The caller went away: takes the request back if it is still pending, else does nothing.
  void WithdrawGuard(core::JobId id);
  void ReportExit(core::JobId id, core::Outcome outcome, OnJob done);

  // Calls `on_change` with the job as it is now, and again whenever its state, reason or, while it
  // waits, what blocks it has changed; with an error when there is no such job or the engine stops.
  // The last call is the one with an end state or an error. `token` from the caller's own counter
  // (NewWatchToken) ends it early.
  using OnChange = std::function<void(absl::StatusOr<JobView>)>;
  using WatchToken = std::uint64_t;
  WatchToken NewWatchToken();
  void Watch(WatchToken token, core::JobId id, OnChange on_change);
  // After the next batch `on_change` is not called again.
  void Unwatch(WatchToken token);
  // Calls `on_change` with all that have not ended, then with those that a batch has changed or
  // forgotten, until UnwatchAll(); with Unavailable, last, when the engine stops.
  using OnChanges = std::function<void(absl::StatusOr<std::vector<core::JobId>>)>;
  void WatchAll(WatchToken token, OnChanges on_changes);
  void UnwatchAll(WatchToken token);

  // Registers a program that runs already. `on_event` hears Registered first, and lastly
  // ClientEnded or an error. The registration lives until Unregister(): then its leases are free,
  // and the client ends unless it was there before.
  using OnSession = std::function<void(absl::StatusOr<SessionEvent>)>;
  void Register(WatchToken token, RegisterRequest request, OnSession on_event);
  void Unregister(WatchToken token);

  // Asks for a lease. `on_lease` hears LeaseWaiting now and at each news of what blocks it, and
  // lastly LeaseGranted or an error. Abandon() takes it back while it waits.
  using OnLease = std::function<void(absl::StatusOr<LeaseEvent>)>;
  void Acquire(WatchToken token, AcquireRequest request, OnLease on_lease);
  void Abandon(WatchToken token);
  void Release(ReleaseRequest request, OnDone done);
  // The grant could not be told to who asked.
  void ReleaseUntold(core::LeaseId id);

  void Report(ReportRequest request, absl::AnyInvocable<void(absl::StatusOr<Reported>)> done);

  // Reads a process and its descendants at this pace. `on_update` is called until none of them is
  // left, an error, or StopRecording(). The caller of the engine has checked the right to name
  // `pid`.
  using OnUpdate = std::function<void(absl::StatusOr<RecordingUpdate>)>;
  void Record(WatchToken token, RecordRequest request, OnUpdate on_update);
  void StopRecording(WatchToken token);

  // From the exit watcher's thread: the root of some tree has ended.
  void ProcessExited(const core::ProcessIdentity& identity);
  // The machine may be short of memory: it is read now, or once the fast interval has passed since
  // it was read last. A hint that is repeated changes nothing.
  void PressureHinted();
  // Must be set before Run(): how the engine asks to be told of an exit.
  void SetExitWatcher(jobs::ExitWatcher* watcher);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stageload::engine

#endif  // STAGELOAD_DAEMON_ENGINE_ENGINE_H_
