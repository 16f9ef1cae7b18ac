#include "daemon/jobs/end_hooks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/awake_clock.h"
#include "base/text.h"
#include "daemon/jobs/descriptor.h"
#include "daemon/jobs/spawn.h"

namespace stageload::jobs {
namespace {

constexpr int kLookAgainMs = 20;
constexpr absl::Duration kLastMoment = absl::Milliseconds(300);
constexpr std::size_t kHeard = 500;  // of what a hook that fails has put out last

// Both show a title and a text, which come as arguments and so need no quoting.
std::vector<std::string> NotifyCommand(const Notification& notification) {
#ifdef __APPLE__
  constexpr char kScript[] =
      "exec osascript -e 'on run argv' -e 'display notification (item 2 of argv) with title (item "
      "1 "
      "of argv)' -e 'end run' \"$@\"";
#else
  constexpr char kScript[] = "exec notify-send --app-name=stageload -- \"$@\"";
#endif
  return {"/bin/sh", "-c", kScript, "notify", notification.title, notification.text};
}

std::string KindOf(core::JobKind kind) {
  switch (kind) {
    case core::JobKind::kJob:
      return "JOB";
    case core::JobKind::kGuard:
      return "GUARD";
    case core::JobKind::kSession:
      return "SESSION";
  }
  return "";
}

std::optional<absl::Duration> RanFor(const core::JobRecord& record) {
  if (!record.start_time || !record.end_time) return std::nullopt;
  return std::max(absl::ZeroDuration(), *record.end_time - *record.start_time);
}

// Appends what can be read by now; false at the end.
bool Listen(int descriptor, std::string& heard) {
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(descriptor, buffer, sizeof(buffer));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    if (got == 0) return false;
    heard.append(buffer, static_cast<std::size_t>(got));
    if (heard.size() > kHeard) heard.erase(0, heard.size() - kHeard);
  }
}

std::string Failure(int status, std::string heard) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return "";
  std::string text = WIFEXITED(status) ? absl::StrCat("exit code ", WEXITSTATUS(status))
                                       : absl::StrCat("signal ", WTERMSIG(status));
  absl::StripAsciiWhitespace(&heard);
  std::replace(heard.begin(), heard.end(), '\n', ' ');
  if (!heard.empty()) absl::StrAppend(&text, ": ", heard);
  return text;
}

}  // namespace

std::vector<std::string> EndVariables(const core::JobRecord& record) {
  const auto variable = [](const char* name, const std::string& value) {
    return absl::StrCat("STAGELOAD_JOB_", name, "=", value);
  };
  const auto number = [](const auto& value) {
    return value ? absl::StrCat(*value) : std::string();
  };
  const std::optional<absl::Duration> ran = RanFor(record);
  const auto peak = std::max(record.peak_footprint, record.true_peak);
  return {
      variable("ID", absl::StrCat(core::Value(record.id))),
      variable("NAME", record.name),
      variable("KIND", KindOf(record.kind)),
      variable("STATE", core::Name(record.state)),
      variable("REASON", record.reason == core::Reason::kNone ? "" : core::Name(record.reason)),
      variable("REASON_TEXT", record.reason_text),
      variable("EXIT_CODE", number(record.outcome.exit_code)),
      variable("SIGNAL", number(record.outcome.signal)),
      variable("COMMAND", record.command),
      variable("DIRECTORY", record.working_directory),
      variable("GROUP", record.group),
      variable("PEAK_BYTES", peak ? absl::StrCat(peak->count()) : ""),
      variable("CHARGE_BYTES", absl::StrCat(record.charge.count())),
      variable("SECONDS", ran ? absl::StrCat(absl::ToInt64Seconds(*ran)) : ""),
  };
}

Notification NotificationOf(const core::JobRecord& record) {
  std::string state = core::Name(record.state);
  absl::AsciiStrToLower(&state);
  std::replace(state.begin(), state.end(), '_', ' ');
  Notification notification{absl::StrCat(record.name, ": ", state),
                            absl::StrCat("job ", core::Value(record.id))};
  if (const auto ran = RanFor(record)) {
    absl::StrAppend(&notification.text, " ran ", FormatSpan(*ran));
  }
  if (!record.reason_text.empty()) {
    absl::StrAppend(&notification.text, "; ", record.reason_text);
  } else if (record.outcome.exit_code.value_or(0) != 0) {
    absl::StrAppend(&notification.text, "; exit code ", *record.outcome.exit_code);
  } else if (record.outcome.signal) {
    absl::StrAppend(&notification.text, "; signal ", *record.outcome.signal);
  }
  return notification;
}

EndHooks::EndHooks(Options options) : options_(std::move(options)), on_end_(options_.on_end) {}

EndHooks::~EndHooks() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void EndHooks::SetOnEnd(std::string on_end) {
  const std::lock_guard<std::mutex> lock(mutex_);
  on_end_ = std::move(on_end);
}

void EndHooks::Post(const core::JobRecord& record) {
  std::string on_end;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    on_end = on_end_;
  }
  if (!on_end.empty()) {
    Hook hook{record.id, "on_end", {"/bin/sh", "-c", std::move(on_end)}, options_.environment};
    const std::vector<std::string> facts = EndVariables(record);
    hook.environment.insert(hook.environment.end(), facts.begin(), facts.end());
    Add(std::move(hook));
  }
  if (record.notify) {
    Add({record.id, "--notify", NotifyCommand(NotificationOf(record)), options_.environment});
  }
}

void EndHooks::Add(Hook hook) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (waiting_.size() < kWaiting) {
      waiting_.push_back(std::move(hook));
      if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });
      changed_.notify_all();
      return;
    }
  }
  options_.on_failure(
      hook.id, absl::StrCat(hook.what, ": left out, since ", kWaiting, " others wait to be run"));
}

bool EndHooks::stopping() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return stopping_;
}

void EndHooks::Run() {
  for (;;) {
    Hook hook;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      hook = std::move(waiting_.front());
      waiting_.pop_front();
    }
    const std::string why = RunOne(hook);
    if (!why.empty()) options_.on_failure(hook.id, absl::StrCat(hook.what, ": ", why));
  }
}

std::string EndHooks::RunOne(const Hook& hook) {
  absl::StatusOr<DescriptorPair> pipe = MakePipe();
  if (!pipe.ok()) return std::string(pipe.status().message());
  absl::StatusOr<Descriptor> theirs = AboveStandard(std::move(pipe->second));
  if (!theirs.ok()) return std::string(theirs.status().message());
  ::fcntl(pipe->first.get(), F_SETFL, O_NONBLOCK);
  pid_t pid = 0;
  const int error = Spawn({.path = hook.argv.front(),
                           .argv = hook.argv,
                           .environment = hook.environment,
                           .descriptors = {{theirs->get(), 1}, {theirs->get(), 2}},
                           .place = SpawnRequest::Place::kOwnGroup},
                          &pid);
  if (error != 0) {
    return std::string(
        absl::ErrnoToStatus(error, absl::StrCat("run ", hook.argv.front())).message());
  }
  theirs->Close();

  absl::Duration deadline = AwakeNow() + options_.timeout;
  std::string heard;
  bool last_moment = false;
  for (;;) {
    int status = 0;
    if (::waitpid(pid, &status, WNOHANG) == pid) {
      Listen(pipe->first.get(), heard);
      return Failure(status, std::move(heard));
    }
    if (!last_moment && stopping()) {
      last_moment = true;
      deadline = std::min(deadline, AwakeNow() + kLastMoment);
    }
    if (AwakeNow() >= deadline) break;
    Listen(pipe->first.get(), heard);
    ::poll(nullptr, 0, kLookAgainMs);
  }
  // Our child that was not waited for: the number of its group is its own.
  ::kill(-pid, SIGKILL);
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return last_moment
             ? "killed, since the daemon leaves"
             : absl::StrCat("killed, since it ran for more than ", FormatSpan(options_.timeout));
}

}  // namespace stageload::jobs
