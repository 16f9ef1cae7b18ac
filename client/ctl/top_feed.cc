// One thread reads frames, one the past, one carries out actions.
#include "client/ctl/top_feed.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <set>
#include <thread>
#include <utility>

#include "absl/time/clock.h"
#include "base/error_reason.h"
#include "client/ctl/call.h"
#include "client/ctl/errors.h"
#include "client/ctl/job_control.h"
#include "client/ctl/job_follow.h"
#include "client/ctl/telemetry.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"

namespace stageload::ctl {
namespace {

// A point of a graph is a second at the least.
constexpr absl::Duration kPastInterval = absl::Seconds(1);
constexpr std::size_t kPastEvents = 50;
constexpr absl::Duration kPause = absl::Milliseconds(200);
// One that left because it was told to, or that refuses us, is not asked at once.
constexpr absl::Duration kSlowPause = absl::Seconds(1);
// A daemon that cannot start is not started five times a second.
constexpr int kStarts = 3;
// Of a screen that takes minutes to draw, as over a line that hangs.
constexpr std::size_t kMaxEvents = 10'000;

JobCall CallOf(Verb verb) {
  switch (verb) {
    case Verb::kSuspend:
      return CallFor<v1::SuspendJobRequest, v1::SuspendJobResponse>(
          &v1::JobService::Stub::SuspendJob);
    case Verb::kResume:
      return CallFor<v1::ResumeJobRequest, v1::ResumeJobResponse>(&v1::JobService::Stub::ResumeJob);
    case Verb::kCancel:
      return CancelJob;
    case Verb::kHold:
      return CallFor<v1::HoldJobRequest, v1::HoldJobResponse>(&v1::JobService::Stub::HoldJob);
    case Verb::kRelease:
      return CallFor<v1::ReleaseJobRequest, v1::ReleaseJobResponse>(
          &v1::JobService::Stub::ReleaseJob);
  }
  return nullptr;
}

}  // namespace

TopMailbox::TopMailbox() {
  int ends[2];
  if (pipe(ends) != 0) return;
  read_.Reset(ends[0]);
  write_.Reset(ends[1]);
  for (const int end : ends) {
    (void)fcntl(end, F_SETFD, FD_CLOEXEC);
    (void)fcntl(end, F_SETFL, O_NONBLOCK);
  }
}

void TopMailbox::Push(TopEvent event) {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) {
    const char byte = 0;
    [[maybe_unused]] const ssize_t written = write(write_.get(), &byte, 1);
  }
  if (events_.size() >= kMaxEvents) {
    // Old frames say nothing that the newest does not; everything else does.
    const auto frame = std::find_if(events_.begin(), events_.end(), [](const TopEvent& old) {
      return std::holds_alternative<LiveFrame>(old) || std::holds_alternative<PastTold>(old);
    });
    if (frame != events_.end()) events_.erase(frame);
  }
  events_.push_back(std::move(event));
}

std::deque<TopEvent> TopMailbox::TakeAll() {
  const std::lock_guard lock(mutex_);
  char bytes[64];
  while (read(read_.get(), bytes, sizeof bytes) > 0) {
  }
  return std::exchange(events_, {});
}

// Shared by the threads, so that none must be waited for: a call to a daemon that hangs may take
// half a minute, and who has pressed q will not.
class TopFeed::State : public std::enable_shared_from_this<State> {
 public:
  State(Connection connection, absl::Duration interval, std::shared_ptr<TopMailbox> mailbox)
      : interval_(interval), mailbox_(std::move(mailbox)), connection_(std::move(connection)) {}

  void Start() {
    std::thread([self = shared_from_this()] { self->Watch(); }).detach();
    std::thread([self = shared_from_this()] { self->CarryOut(); }).detach();
  }

  void Stop() {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    for (grpc::ClientContext* call : calls_) call->TryCancel();
    wake_.notify_all();
  }

  void Act(const Action& action) {
    const std::lock_guard lock(mutex_);
    actions_.push_back(action);
    wake_.notify_all();
  }

 private:
  // A stream that Stop() ends.
  class OpenCall {
   public:
    explicit OpenCall(State& state) : state_(state) {
      const std::lock_guard lock(state_.mutex_);
      state_.calls_.insert(&context);
      if (state_.stop_) context.TryCancel();
    }
    OpenCall(const OpenCall&) = delete;
    OpenCall& operator=(const OpenCall&) = delete;
    ~OpenCall() {
      const std::lock_guard lock(state_.mutex_);
      state_.calls_.erase(&context);
    }
    grpc::ClientContext context;

   private:
    State& state_;
  };

  bool Stopped() {
    const std::lock_guard lock(mutex_);
    return stop_;
  }

  // False when it is to stop.
  bool Pause(absl::Duration pause) {
    std::unique_lock lock(mutex_);
    return !wake_.wait_for(lock, absl::ToChronoMilliseconds(pause), [this] { return stop_; });
  }

  Connection Current() {
    const std::lock_guard lock(mutex_);
    return connection_;
  }

  void Watch() {
    do {
      const Connection connection = Current();
      mailbox_->Push(DaemonCame{connection.version});
      std::thread([self = shared_from_this(), connection] { self->ReadPast(connection); }).detach();
      const absl::Status status = ReadFrames(connection);
      if (Stopped()) return;
      // What has no reason is gRPC's own way to say that nobody is there any more.
      const std::string reason = ReasonOf(status);
      mailbox_->Push(DaemonWent{reason.empty() || reason == kShuttingDown
                                    ? "daemon went away"
                                    : std::string(status.message())});
      if (!FindNext(reason.empty())) return;
    } while (true);
  }

  absl::Status ReadFrames(const Connection& connection) {
    OpenCall call(*this);
    v1::WatchTelemetryRequest request;
    request.set_min_interval_ns(absl::ToInt64Nanoseconds(interval_));
    const auto stub = v1::TelemetryService::NewStub(connection.channel);
    // The stream's first frame comes with the next sample; this one is there.
    if (const absl::StatusOr<v1::Frame> newest = NewestFrame(connection); newest.ok()) {
      mailbox_->Push(LiveFrame{*newest});
    }
    const auto reader = stub->WatchTelemetry(&call.context, request);
    v1::WatchTelemetryResponse response;
    while (reader->Read(&response)) mailbox_->Push(LiveFrame{std::move(*response.mutable_frame())});
    return FromGrpc(reader->Finish());
  }

  // What is kept of the time before now, for the graphs and the events. Without it they fill as
  // time goes on: an error here is none.
  void ReadPast(const Connection& connection) {
    const std::int64_t now = absl::ToUnixNanos(absl::Now());
    absl::StatusOr<std::vector<v1::Event>> events = NewestEventsIfKept(connection, kPastEvents);
    if (events.ok() && !events->empty()) {
      mailbox_->Push(PastTold{std::nullopt, *std::move(events)});
    }
    OpenCall call(*this);
    v1::WatchTelemetryRequest request;
    request.set_min_interval_ns(absl::ToInt64Nanoseconds(kPastInterval));
    request.set_since_sequence(0);
    const auto stub = v1::TelemetryService::NewStub(connection.channel);
    const auto reader = stub->WatchTelemetry(&call.context, request);
    v1::WatchTelemetryResponse response;
    while (reader->Read(&response) && response.frame().time_ns() < now) {
      const v1::Frame& frame = response.frame();
      mailbox_->Push(PastTold{PointOf(frame), {frame.events().begin(), frame.events().end()}});
    }
    call.context.TryCancel();
    (void)reader->Finish();
  }

  // Starts one where that is wanted and the last one was lost, but not where it was told to leave.
  bool FindNext(bool lost) {
    const absl::Time soon = absl::Now() + kReconnectWithin;
    int starts = 0;
    while (Pause(lost ? kPause : kSlowPause)) {
      ConnectOptions options = Current().options;
      options.on_silence = nullptr;  // the screen says it
      options.autostart = options.autostart && lost && absl::Now() < soon && ++starts <= kStarts;
      absl::StatusOr<Connection> next = Connect(options);
      if (!next.ok()) continue;
      const std::lock_guard lock(mutex_);
      next->options.autostart = connection_.options.autostart;
      connection_ = *std::move(next);
      return true;
    }
    return false;
  }

  void CarryOut() {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [this] { return stop_ || !actions_.empty(); });
      if (stop_) return;
      const Action action = actions_.front();
      actions_.pop_front();
      const Connection connection = connection_;
      lock.unlock();
      absl::StatusOr<v1::Job> job = CallOf(action.verb)(connection, action.job);
      ActionDone done{action, job.status(), {}};
      if (job.ok()) done.job = *std::move(job);
      mailbox_->Push(std::move(done));
      lock.lock();
    }
  }

  const absl::Duration interval_;
  const std::shared_ptr<TopMailbox> mailbox_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  Connection connection_;
  std::set<grpc::ClientContext*> calls_;
  std::deque<Action> actions_;
};

TopFeed::TopFeed(Connection connection, absl::Duration interval,
                 std::shared_ptr<TopMailbox> mailbox)
    : state_(std::make_shared<State>(std::move(connection), interval, std::move(mailbox))) {
  state_->Start();
}

TopFeed::~TopFeed() { state_->Stop(); }

void TopFeed::Act(const Action& action) { state_->Act(action); }

}  // namespace stageload::ctl
