// What is said of a job in each of its states; explanation_waiting.cc has those that wait.
#include "client/ctl/explanation.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/explanation_waiting.h"
#include "client/ctl/outcome.h"

namespace stageload::ctl {
namespace {

std::string Span(std::int64_t ns) { return FormatSpan(absl::Nanoseconds(ns)); }
std::string Size(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

std::string Named(const v1::Job& job) {
  return absl::StrCat("Job ", job.id(), " (", std::string(job.name()), ")");
}

bool IsOurs(const v1::Job& job) { return job.kind() == v1::JOB_KIND_JOB; }

std::string Command(const char* name, const v1::Job& job, const std::string& options = "") {
  return absl::StrCat("stageloadctl ", name, " ", job.id(), options.empty() ? "" : " ", options);
}

// " after 5m", from its start.
std::string AfterRunning(const v1::Job& job) {
  if (!job.has_start_time_ns() || !job.has_end_time_ns()) return "";
  return absl::StrCat(" after running for ", Span(job.end_time_ns() - job.start_time_ns()));
}

// " It had waited 10m to start, most of it for MEMORY (needs ...)."
std::string Waiting(const v1::Job& job) {
  if (!job.has_start_time_ns() || job.kind() == v1::JOB_KIND_SESSION) return "";
  const std::int64_t waited = job.start_time_ns() - job.submit_time_ns();
  if (waited < absl::ToInt64Nanoseconds(absl::Seconds(1))) return "";
  std::string text = absl::StrCat(" It had waited ", Span(waited), " to start");
  if (!job.waited().empty()) {
    const v1::Waited& longest = job.waited(0);
    absl::StrAppend(&text, ", ", Span(longest.time_ns()), " of it for ", Word(longest.kind()));
    if (!longest.text().empty()) absl::StrAppend(&text, " (", std::string(longest.text()), ")");
  }
  return text + ".";
}

// " Its footprint is 3 GiB, at most 4 GiB so far; it declares 5 GiB. ..."
std::string Memory(const v1::Job& job) {
  std::string text;
  if (job.has_footprint_bytes()) {
    absl::StrAppend(&text, " Its footprint is ", Size(job.footprint_bytes()));
    if (job.policy().has_memory_bytes()) {
      absl::StrAppend(&text, " of the ", Size(job.policy().memory_bytes()), " that it declares");
    }
    text += '.';
  } else if (job.has_peak_footprint_bytes()) {
    absl::StrAppend(&text, " Its largest footprint was ", Size(job.peak_footprint_bytes()), ".");
  }
  if (IsEnd(job.state()) || !job.policy().has_swap_budget_bytes()) return text;
  return absl::StrCat(text, " ", Size(job.charge_bytes()),
                      " of swap are put down to it, of a budget of ",
                      Size(job.policy().swap_budget_bytes()), ".");
}

// A reason's text as a part of a sentence: " (...)".
std::string Why(const v1::Job& job) {
  return job.reason_text().empty() ? "" : absl::StrCat(": ", std::string(job.reason_text()));
}

// A guarded command is guarded again, a job retried; either with what would have helped.
void OfferAgain(const v1::Job& job, const std::string& effect, Explanation& explanation) {
  if (!IsOurs(job)) return;
  explanation.changes.push_back({Command("retry", job), effect});
}

// ---- Why it was stopped ----

std::string DeclaresAgain(const v1::Job& job) {
  const std::int64_t peak = std::max(job.true_peak_bytes(), job.peak_footprint_bytes());
  return peak > 0 ? absl::StrCat("queues it again, declaring at least the ", Size(peak),
                                 " that it needed and a tenth more")
                  : "queues it again, declaring at least what it needed and a tenth more";
}

void ExplainSwapBudget(const v1::Job& job, Explanation& explanation) {
  const v1::Policy& policy = job.policy();
  absl::StrAppend(&explanation.text, " A --swap-budget above ", Size(job.charge_bytes()),
                  " would have let it go on at that moment.");
  if (policy.charge_mode() == v1::CHARGE_MODE_SYSTEM) {
    explanation.text +=
        " Where little of the growth was its own, --charge own counts only that; "
        "--on-over-budget suspend or warn does not stop it.";
  }
  OfferAgain(job, DeclaresAgain(job), explanation);
}

void ExplainSwapLimit(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(
      &explanation.text, " The limit is that of its --swap-limit (",
      Size(job.policy().swap_limit_bytes()),
      ") and is about all of the machine's swap, whoever uses it: a higher one, or none, "
      "would have let it go on.");
  OfferAgain(job, DeclaresAgain(job), explanation);
}

void ExplainLowMemory(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(
      &explanation.text, " Of those that may be stopped, the one of lowest priority (its own: ",
      job.policy().priority(),
      ") and then of largest swap charge is. Jobs that declare "
      "their --memory do not start together into too little of it; --kill-free ",
      FormatPercent(Percent{job.policy().kill_free_percent()}), " says when it may be stopped.");
  OfferAgain(job, DeclaresAgain(job), explanation);
}

// As --time takes it, in whole units: "16h", "90m", "7s".
std::string TimeOption(absl::Duration time) {
  const std::int64_t seconds = absl::ToInt64Seconds(absl::Ceil(time, absl::Seconds(1)));
  if (seconds % 3600 == 0) return absl::StrCat(seconds / 3600, "h");
  return seconds % 60 == 0 ? absl::StrCat(seconds / 60, "m") : absl::StrCat(seconds, "s");
}

void ExplainTimeout(const v1::Job& job, Explanation& explanation) {
  const absl::Duration limit = absl::Nanoseconds(job.policy().time_limit_ns());
  // Nobody knows how long it takes; twice as long is a begin.
  const std::string more = limit > absl::ZeroDuration() ? TimeOption(2 * limit) : "none";
  if (!IsOurs(job)) {
    absl::StrAppend(&explanation.text, " Guard it again with more time, such as --time ", more,
                    ".");
    return;
  }
  OfferAgain(job,
             absl::StrCat("queues it again, with the same limit, and prints its new id, for which "
                          "`stageloadctl update ID --time ",
                          more, "` sets another"),
             explanation);
}

// What there is to say beyond the reason's own text, where we have ended it.
void ExplainStop(const v1::Job& job, Explanation& explanation) {
  switch (job.reason()) {
    case v1::REASON_SWAP_BUDGET:
      return ExplainSwapBudget(job, explanation);
    case v1::REASON_SWAP_LIMIT:
      return ExplainSwapLimit(job, explanation);
    case v1::REASON_LOW_MEMORY:
      return ExplainLowMemory(job, explanation);
    case v1::REASON_TIMEOUT:
      return ExplainTimeout(job, explanation);
    default:
      return OfferAgain(job, "queues it again", explanation);
  }
}

// ---- Each state ----

void ExplainRunning(const v1::Job& job, absl::Time now, Explanation& explanation) {
  if (!job.reason_text().empty()) {  // what keeps it from being what its state says
    absl::StrAppend(&explanation.text, Named(job), " is RUNNING, but ",
                    std::string(job.reason_text()), ".", Waiting(job), Memory(job));
    return;
  }
  absl::StrAppend(&explanation.text, Named(job), " runs");
  if (job.has_start_time_ns()) {
    absl::StrAppend(&explanation.text, " for ",
                    FormatSpan(now - absl::FromUnixNanos(job.start_time_ns())));
  }
  absl::StrAppend(&explanation.text, ".", Waiting(job), Memory(job));
}

void ExplainSuspended(const v1::Job& job, Explanation& explanation) {
  const bool over_budget = job.reason() == v1::REASON_SWAP_BUDGET;
  absl::StrAppend(&explanation.text, Named(job), " is suspended, and keeps its memory meanwhile",
                  Why(job), ".", Memory(job));
  explanation.changes.push_back(
      {Command("resume", job),
       over_budget ? "lets it go on, with its swap budget whole again" : "lets it go on"});
  if (!over_budget) return;
  explanation.changes.push_back(
      {Command("update", job, "--on-over-budget warn"), "has it warned instead the next time"});
}

void ExplainStopping(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " is being stopped, ", Word(job.reason()),
                  Why(job), ".");
  if (job.policy().has_grace_ns()) {
    absl::StrAppend(&explanation.text, " It was sent SIGTERM; after its --grace of ",
                    Span(job.policy().grace_ns()), " SIGKILL follows.");
  }
}

void ExplainCompleted(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " completed", AfterRunning(job), ".", Waiting(job),
                  Memory(job));
}

// Whether it names its program by a path.
bool IsByPath(const v1::Job& job) {
  const std::string command(job.command());
  return command.substr(0, command.find(' ')).find('/') != std::string::npos;
}

void ExplainFailed(const v1::Job& job, Explanation& explanation) {
  if (job.reason() == v1::REASON_START_FAILED) {
    if (!job.has_start_time_ns()) {  // nor can it be retried: nobody knows any more what it was
      absl::StrAppend(&explanation.text, Named(job), " failed before its start", Why(job), ".");
      return;
    }
    absl::StrAppend(&explanation.text, Named(job), " failed at its start", Why(job),
                    IsByPath(job)
                        ? absl::StrCat(". A path that is not absolute counts from the folder of "
                                       "the job, ",
                                       std::string(job.working_directory()), ".")
                        : ". The command is looked for in the PATH that it was submitted with; a "
                          "pipe or && needs a shell: -- sh -c '...'.");
    return OfferAgain(job, "tries once more", explanation);
  }
  absl::StrAppend(&explanation.text, Named(job), " failed", AfterRunning(job));
  if (job.has_signal()) {
    absl::StrAppend(&explanation.text, ": signal ", job.signal(),
                    " ended it, which stageload did "
                    "not send.");
    if (job.signal() == 9) {
      explanation.text += " On Linux look for the kernel's OOM killer: `journalctl -k`.";
    }
  } else if (job.has_exit_code()) {
    absl::StrAppend(&explanation.text, ": its own exit code is ", job.exit_code(), ".");
  } else {
    absl::StrAppend(&explanation.text, Why(job), ".");
  }
  explanation.text += Memory(job);
  if (!IsOurs(job)) return;
  explanation.changes.push_back({Command("logs", job, "--tail 20"), "shows what it said last"});
  OfferAgain(job, "queues it again", explanation);
}

void ExplainCancelled(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " was cancelled", AfterRunning(job));
  switch (job.reason()) {
    case v1::REASON_DEPENDENCY_NEVER: {
      absl::StrAppend(&explanation.text, Why(job), ".");
      std::string both;
      for (const std::int64_t parent : job.after()) absl::StrAppend(&both, parent, " ");
      if (!both.empty()) {
        explanation.changes.push_back({absl::StrCat("stageloadctl retry ", both, job.id()),
                                       "queues both again, and keeps which comes after which"});
      }
      return;
    }
    case v1::REASON_CLIENT_GONE:
      absl::StrAppend(&explanation.text, Why(job), ".");
      return;
    default:
      absl::StrAppend(&explanation.text, " by a user", Why(job), ".");
      OfferAgain(job, "queues it again", explanation);
  }
}

void ExplainOutOfMemory(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " was stopped", AfterRunning(job), ", ",
                  Word(job.reason()), Why(job), ".", Memory(job));
  ExplainStop(job, explanation);
}

void ExplainTimedOut(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " was stopped", Why(job), ".", Memory(job));
  ExplainStop(job, explanation);
}

void ExplainNoRoom(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " gave up before its start", Why(job),
                  ". A longer --start-timeout, or none, has it wait on.");
  OfferAgain(job, "queues it again", explanation);
}

void ExplainNodeFail(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job),
                  " ended with the machine: it went down while the job "
                  "ran. A job submitted with --requeue waits again, held, instead.");
  OfferAgain(job, "queues it again", explanation);
}

void ExplainUnknown(const v1::Job& job, Explanation& explanation) {
  absl::StrAppend(&explanation.text, Named(job), " ended, and nobody could see how", Why(job),
                  ". It may have done its work: look at what it should have left.");
  OfferAgain(job, "queues it again", explanation);
}

}  // namespace

Explanation ExplainJob(const v1::Job& job, const Others& others, absl::Time now,
                       const v1::Frame& frame) {
  Explanation explanation;
  switch (job.state()) {
    case v1::JOB_STATE_PENDING:
      explanation = ExplainWaiting(job, others, now);
      break;
    case v1::JOB_STATE_RUNNING:
      ExplainRunning(job, now, explanation);
      break;
    case v1::JOB_STATE_SUSPENDED:
      ExplainSuspended(job, explanation);
      break;
    case v1::JOB_STATE_STOPPING:
      ExplainStopping(job, explanation);
      break;
    case v1::JOB_STATE_COMPLETED:
      ExplainCompleted(job, explanation);
      break;
    case v1::JOB_STATE_FAILED:
      ExplainFailed(job, explanation);
      break;
    case v1::JOB_STATE_CANCELLED:
      ExplainCancelled(job, explanation);
      break;
    case v1::JOB_STATE_OUT_OF_MEMORY:
      ExplainOutOfMemory(job, explanation);
      break;
    case v1::JOB_STATE_TIMEOUT:
      ExplainTimedOut(job, explanation);
      break;
    case v1::JOB_STATE_NO_ROOM:
      ExplainNoRoom(job, explanation);
      break;
    case v1::JOB_STATE_NODE_FAIL:
      ExplainNodeFail(job, explanation);
      break;
    case v1::JOB_STATE_UNKNOWN:
      ExplainUnknown(job, explanation);
      break;
    default:
      absl::StrAppend(&explanation.text, Named(job), " is ", Word(job.state()),
                      ", of which this program is too old to know more.");
  }
  if (IsActive(job)) ExplainLeases(job, frame, now, explanation);
  return explanation;
}

std::string Paragraph(const Explanation& explanation) {
  std::string text = explanation.text;
  for (const Change& change : explanation.changes) {
    absl::StrAppend(&text, " `", change.command, "` ", change.effect, ".");
  }
  return text;
}

Json ToJson(const v1::Job& job, const Explanation& explanation) {
  Json changes = Json::array();
  for (const Change& change : explanation.changes) {
    changes.push_back({{"command", change.command}, {"effect", change.effect}});
  }
  return Json{{"id", job.id()},
              {"state", Word(job.state())},
              {"text", explanation.text},
              {"changes", changes}};
}

}  // namespace stageload::ctl
