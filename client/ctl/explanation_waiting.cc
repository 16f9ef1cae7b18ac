// One sentence a blocker, and one change where there is one.
#include "client/ctl/explanation_waiting.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/client_leases.h"
#include "client/ctl/outcome.h"
#include "client/ctl/telemetry_text.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kMostOthers = 5;  // that are asked about
constexpr int kMostLeases = 5;          // of one client, each with its time
constexpr int kHighestPriority = 1000;  // policy.proto
constexpr std::int64_t kMiB = 1 << 20;

// "job 2 (base, RUNNING)"; "job 2" when no more is known.
std::string Described(std::int64_t id, const Others& others) {
  const auto found = others.find(id);
  if (found == others.end()) return absl::StrCat("job ", id);
  return absl::StrCat("job ", id, " (", std::string(found->second.name()), ", ",
                      Word(found->second.state()), ")");
}

// Of one blocker: what is so, and what would change it.
class Waits {
 public:
  using Blockers = google::protobuf::RepeatedPtrField<v1::Blocker>;
  // For its start.
  Waits(const v1::Job& job, const Others& others)
      : job_(job), others_(others), blockers_(job.blockers()) {}
  // For `lease`, which is of the frame.
  Waits(const v1::Job& job, const v1::WaitingRequest& lease, const v1::Frame& frame,
        Explanation explanation)
      : job_(job),
        blockers_(lease.blockers()),
        frame_(&frame),
        explanation_(std::move(explanation)) {}

  void Add(const v1::Blocker& blocker) {
    sentence_ = frame_ != nullptr ? absl::StrCat("The lease ", LeaseSays(blocker))
                                  : absl::StrCat("It ", Says(blocker));
    if (Passes(blocker.kind()) && blocker.has_ends_in_ns()) {
      absl::StrAppend(&sentence_, "; that ends by itself, in ",
                      FormatSpan(absl::Nanoseconds(blocker.ends_in_ns())), " at the latest");
    } else if (Passes(blocker.kind())) {
      sentence_ += "; that ends by itself";
    }
    absl::StrAppend(&explanation_.text, " ", sentence_, ".");
  }
  Explanation Take() { return std::move(explanation_); }

 private:
  // Nothing else stands in its way, so that what lifts this one lets it start.
  bool IsOnlyOne(v1::BlockerKind kind) const {
    return std::all_of(blockers_.begin(), blockers_.end(),
                       [&](const v1::Blocker& each) { return each.kind() == kind; });
  }
  // While one of its own blocks it, whoever goes before it is not told. Then its place tells
  // whether there is somebody.
  bool HasTurn() const { return job_.queue_position() <= 1; }
  std::string Start(v1::BlockerKind kind) const {
    if (!IsOnlyOne(kind)) return "would lift that";
    return HasTurn() || !IsItsOwn(kind) ? "would let it start now"
                                        : "would let it start when its turn comes";
  }
  // Leases of what runs go before all starts, and are not told while one of its own blocks it.
  std::string UnlessLeases(v1::BlockerKind kind) const {
    return IsOnlyOne(kind) && HasTurn() && IsItsOwn(kind) ? ", unless a lease goes first" : "";
  }
  void Offer(const std::string& command, const std::string& effect) {
    for (const Change& change : explanation_.changes) {
      if (change.command == command) return;
    }
    explanation_.changes.push_back({command, effect});
  }
  std::string Update(const std::string& options) const {
    return absl::StrCat("stageloadctl update ", job_.id(), " ", options);
  }

  static bool Passes(v1::BlockerKind kind) {
    return kind == v1::BLOCKER_KIND_STALE || kind == v1::BLOCKER_KIND_WAKING ||
           kind == v1::BLOCKER_KIND_SWAPPING || kind == v1::BLOCKER_KIND_SETTLING ||
           kind == v1::BLOCKER_KIND_RECOVERING || kind == v1::BLOCKER_KIND_RETURNING;
  }

  // Where such a one blocks, the daemon does not tell of ORDER.
  static bool IsItsOwn(v1::BlockerKind kind) {
    return kind == v1::BLOCKER_KIND_HELD || kind == v1::BLOCKER_KIND_QUEUE_HELD ||
           kind == v1::BLOCKER_KIND_DEPENDENCY || kind == v1::BLOCKER_KIND_NOT_BEFORE ||
           kind == v1::BLOCKER_KIND_BUSY || kind == v1::BLOCKER_KIND_GROUP;
  }

  std::string Says(const v1::Blocker& blocker);
  std::string Memory(const v1::Blocker& blocker);
  std::string Level(const v1::Blocker& blocker);
  std::string SwapLimit(const v1::Blocker& blocker);
  std::string Busy(const v1::Blocker& blocker);
  std::string Dependency();
  std::string NotBefore(const v1::Blocker& blocker);
  std::string Order(const v1::Blocker& blocker);
  std::string LeaseSays(const v1::Blocker& blocker);
  std::string LeaseMemory(const v1::Blocker& blocker);
  std::string LeaseOrder(const v1::Blocker& blocker);

  const v1::Job& job_;
  const Others others_;
  const Blockers& blockers_;
  const v1::Frame* const frame_ = nullptr;  // where it is a lease that waits
  std::string sentence_;
  Explanation explanation_;
};

std::string Waits::Memory(const v1::Blocker& blocker) {
  // Both of them may block, the machine's memory and the pool: what fits into the smaller starts.
  double least = blocker.read();
  for (const v1::Blocker& each : blockers_) {
    if (each.kind() == blocker.kind()) least = std::min(least, each.read());
  }
  const auto fits = SizeOption(Bytes(static_cast<std::int64_t>(std::max(least, 0.0))));
  // "needs 1 GiB, 512 MiB left in the pool of ...".
  std::string text(blocker.text());
  if (fits) {
    Offer(Update(absl::StrCat("--memory ", *fits)),
          absl::StrCat(Start(blocker.kind()), ", if it takes no more than that"));
  }
  if (absl::StrContains(text, "never fits")) {  // under a config that came after it
    return absl::StrCat(text,
                        "; it lets others pass, and waits for less --memory or another config");
  }
  return absl::StrCat(text, IsOnlyOne(blocker.kind())
                                ? "; it starts when enough of that is given back"
                                : "; enough of that has to be given back");
}

std::string Waits::Level(const v1::Blocker& blocker) {
  const int read = static_cast<int>(std::floor(blocker.read()));
  if (read >= 1) {
    Offer(Update(absl::StrCat("--wait-free ", read)),
          absl::StrCat(Start(blocker.kind()), ", as long as no less is available"));
  }
  return absl::StrCat("waits until ", FormatPercent(Percent{blocker.needed()}),
                      " of memory are available (--wait-free), of which there are ",
                      FormatPercent(Percent{blocker.read()}),
                      "; `stageloadctl top` shows who takes it");
}

std::string Waits::SwapLimit(const v1::Blocker& blocker) {
  const double budget = static_cast<double>(job_.policy().swap_budget_bytes());
  const double over = blocker.read() - blocker.needed();
  const auto lower = SizeOption(Bytes(static_cast<std::int64_t>(std::max(budget - over, 0.0))));
  if (lower) Offer(Update(absl::StrCat("--swap-budget ", *lower)), Start(blocker.kind()));
  Offer(Update("--swap-limit none"), absl::StrCat(Start(blocker.kind()), ", without that limit"));
  return absl::StrCat("has a --swap-limit, under which each budget counts as if it were spent: ",
                      std::string(blocker.text()));
}

std::string Waits::Busy(const v1::Blocker& blocker) {
  const bool gone = blocker.has_ends_in_ns();
  Offer(Update("--busy none"),
        absl::StrCat(Start(blocker.kind()), gone ? ", without that time" : ", beside that program",
                     UnlessLeases(blocker.kind())));
  if (gone) {
    return absl::StrCat(
        "waits until programs that its --busy names have been gone for as long as "
        "its --quiet-for says: ",
        std::string(blocker.text()), "; that ends by itself in ",
        FormatSpan(absl::Nanoseconds(blocker.ends_in_ns())), ", unless one comes back");
  }
  return absl::StrCat("waits for programs that its --busy names: ", std::string(blocker.text()));
}

std::string Waits::Dependency() {
  std::string parents;
  for (const std::int64_t id : job_.after()) {
    absl::StrAppend(&parents, parents.empty() ? "" : " and ", Described(id, others_));
    const auto found = others_.find(id);
    if (found == others_.end() || found->second.state() != v1::JOB_STATE_PENDING) continue;
    Offer(absl::StrCat("stageloadctl explain ", id), "says what that one waits for");
  }
  return absl::StrCat(
      "may not start before ", parents,
      job_.after_size() == 1 ? " has completed (--after)" : " have completed (--after)");
}

std::string Waits::NotBefore(const v1::Blocker& blocker) {
  const absl::Time begin = absl::UnixEpoch() + absl::Seconds(blocker.needed());
  std::string text = absl::StrCat(
      "is not to start before ",
      absl::FormatTime("%Y-%m-%d %H:%M:%S", begin, absl::LocalTimeZone()), " (--begin)");
  if (blocker.has_ends_in_ns()) {
    absl::StrAppend(&text, ", in ", FormatSpan(absl::Nanoseconds(blocker.ends_in_ns())));
  }
  return text + "; to have it start earlier, cancel it and submit it again";
}

std::string Waits::Order(const v1::Blocker& blocker) {
  const auto first = static_cast<std::int64_t>(blocker.needed());
  const v1::Policy& policy = job_.policy();
  std::string text = absl::StrCat("comes after others: ", std::string(blocker.text()));
  // Leases of what runs already go before any start.
  if (absl::StartsWith(std::string(blocker.text()), "a lease")) {
    Offer(absl::StrCat("stageloadctl explain ", first), "says what that one waits for");
    return text;
  }
  const auto found = others_.find(first);
  if (found != others_.end() && found->second.state() == v1::JOB_STATE_PENDING) {
    const int priority = found->second.policy().priority();
    if (priority < kHighestPriority) {
      Offer(Update(absl::StrCat("--priority ", priority + 1)),
            absl::StrCat("would put it before job ", first));
    }
    Offer(absl::StrCat("stageloadctl explain ", first), "says what that one waits for");
  }
  if (!policy.has_memory_bytes() && !policy.memory_auto()) {
    text += "; it declares no --memory, and so may not pass one that waits for memory";
  }
  return text;
}

std::string Waits::Says(const v1::Blocker& blocker) {
  const std::string text(blocker.text());
  switch (blocker.kind()) {
    case v1::BLOCKER_KIND_MEMORY:
      return Memory(blocker);
    case v1::BLOCKER_KIND_LEVEL:
      return Level(blocker);
    case v1::BLOCKER_KIND_SWAP_LIMIT:
      return SwapLimit(blocker);
    case v1::BLOCKER_KIND_BUSY:
      return Busy(blocker);
    case v1::BLOCKER_KIND_DEPENDENCY:
      return Dependency();
    case v1::BLOCKER_KIND_NOT_BEFORE:
      return NotBefore(blocker);
    case v1::BLOCKER_KIND_ORDER:
      return Order(blocker);
    case v1::BLOCKER_KIND_PRESSURE:
      return absl::StrCat("waits for the kernel: ", text, " (max_pressure in the config)");
    case v1::BLOCKER_KIND_GROUP:
      return absl::StrCat("belongs to a group with a limit: ", text,
                          "; one of them has to end first (group_limits in the config)");
    case v1::BLOCKER_KIND_HELD:
      Offer(absl::StrCat("stageloadctl release ", job_.id()),
            !IsOnlyOne(blocker.kind()) ? "lifts that"
            : HasTurn()                ? absl::StrCat("lets it start", UnlessLeases(blocker.kind()))
                                       : "lets it start when its turn comes");
      return absl::StrCat("is ", text);
    case v1::BLOCKER_KIND_QUEUE_HELD:
      Offer("stageloadctl release --queue", "lets all of them go on");
      return absl::StrCat("waits with all others: ", text);
    case v1::BLOCKER_KIND_DRAINING:
      return absl::StrCat("waits with all others: ", text);
    case v1::BLOCKER_KIND_DEPENDENCY_NEVER:
      return absl::StrCat("can never start: ", text);
    case v1::BLOCKER_KIND_STALE:
      return absl::StrCat("waits for a reading of the machine: ", text,
                          " (if it stays so: `stageloadctl doctor`)");
    case v1::BLOCKER_KIND_SETTLING:
      return absl::StrCat("waits until it shows what another takes: ", text,
                          "; nobody waits after one that declares its --memory");
    case v1::BLOCKER_KIND_SWAPPING:
      return absl::StrCat("waits until the machine swaps less: ", text);
    case v1::BLOCKER_KIND_RECOVERING:
      return absl::StrCat("waits until memory that was given up is back: ", text);
    case v1::BLOCKER_KIND_WAKING:
      return absl::StrCat("waits until the machine is awake: ", text);
    case v1::BLOCKER_KIND_RETURNING:
      return absl::StrCat("waits for others: ", text);
    default:
      return absl::StrCat("waits: ", text);
  }
}

// ---- Leases: no terms of them can be changed, and what they need is with others ----

std::string Waits::LeaseMemory(const v1::Blocker& blocker) {
  std::size_t told = 0;
  for (const v1::ClientSample& client : frame_->clients()) {
    if (client.job_id() == job_.id() || client.leases().empty()) continue;
    if (++told > kMostOthers) break;
    std::int64_t held = 0;
    for (const v1::LeaseSample& lease : client.leases()) held += lease.memory_bytes();
    Offer(absl::StrCat("stageloadctl explain ", client.job_id()),
          absl::StrCat("says what that one does, which holds ", FormatBytes(Bytes(held)),
                       " in leases"));
  }
  return absl::StrCat(std::string(blocker.text()),
                      IsOnlyOne(blocker.kind())
                          ? "; it is granted when enough of that is given back"
                          : "; enough of that has to be given back");
}

std::string Waits::LeaseOrder(const v1::Blocker& blocker) {
  const auto first = static_cast<std::int64_t>(blocker.needed());
  for (const v1::WaitingRequest& request : frame_->waiting()) {
    if (request.lease_id() != first || request.job_id() == job_.id()) continue;
    Offer(absl::StrCat("stageloadctl explain ", request.job_id()), "says what that one waits for");
  }
  return absl::StrCat("comes after others: ", std::string(blocker.text()));
}

std::string Waits::LeaseSays(const v1::Blocker& blocker) {
  switch (blocker.kind()) {
    case v1::BLOCKER_KIND_MEMORY:
      return LeaseMemory(blocker);
    case v1::BLOCKER_KIND_LEVEL:
      return absl::StrCat("waits until ", FormatPercent(Percent{blocker.needed()}),
                          " of memory are available (the wait_free of its client), of which there "
                          "are ",
                          FormatPercent(Percent{blocker.read()}),
                          "; `stageloadctl top` shows who takes it");
    case v1::BLOCKER_KIND_SWAP_LIMIT:
      Offer(Update("--swap-limit none"), IsOnlyOne(blocker.kind())
                                             ? "would let it have the lease now, without that limit"
                                             : "would lift that");
      return absl::StrCat(
          "falls under a swap limit, for which each budget counts as if it were "
          "spent: ",
          std::string(blocker.text()));
    case v1::BLOCKER_KIND_HELD:
      Offer(absl::StrCat("stageloadctl resume ", job_.id()), "lets it go on");
      return absl::StrCat("is not granted meanwhile: ", std::string(blocker.text()));
    case v1::BLOCKER_KIND_ORDER:
      return LeaseOrder(blocker);
    default:
      return Says(blocker);
  }
}

// " for 1m30s"; the clock may have been set back.
std::string For(absl::Time now, std::int64_t since_ns) {
  const absl::Duration time = now - absl::FromUnixNanos(since_ns);
  return absl::StrCat(" for ", FormatSpan(std::max(time, absl::ZeroDuration())));
}

// " It holds a lease: transformer 8 GiB, for 2m00s."
std::string HeldLeases(const v1::ClientSample& client, absl::Time now) {
  if (client.leases().empty()) return "";
  const int count = client.leases_size();
  std::string text = " It holds a lease: ";
  if (count > 1) text = absl::StrCat(" It holds ", count, " leases: ");
  for (int i = 0; i < std::min(count, kMostLeases); ++i) {
    const v1::LeaseSample& lease = client.leases(i);
    absl::StrAppend(&text, i > 0 ? "; " : "", LeaseText(lease), ",",
                    For(now, lease.granted_time_ns()));
  }
  if (count > kMostLeases) absl::StrAppend(&text, "; and ", count - kMostLeases, " more");
  return text + ".";
}

// "a lease of 6 GiB (vae)".
std::string LeaseWanted(const v1::WaitingRequest& request) {
  std::string text = "a lease";
  if (request.has_memory_bytes()) {
    absl::StrAppend(&text, " of ", FormatBytes(Bytes(request.memory_bytes())));
  }
  if (!request.stage().empty()) absl::StrAppend(&text, " (", std::string(request.stage()), ")");
  return text;
}

std::string Place(const v1::Job& job) {
  return job.queue_position() > 0
             ? absl::StrCat(", at place ", job.queue_position(), " of the queue")
             : "";
}

}  // namespace

std::optional<std::string> SizeOption(Bytes size) {
  const std::int64_t mib = size.count() / kMiB;
  if (mib < 1) return std::nullopt;
  if (mib >= 10 * 1024 || mib % 1024 == 0) return absl::StrCat(mib / 1024, "G");
  return absl::StrCat(mib >= 1024 ? mib / 100 * 100 : mib, "M");
}

std::vector<std::int64_t> OthersOf(const v1::Job& job) {
  std::vector<std::int64_t> ids;
  if (job.state() != v1::JOB_STATE_PENDING) return ids;
  for (const v1::Blocker& blocker : job.blockers()) {
    if (blocker.kind() == v1::BLOCKER_KIND_ORDER && blocker.needed() >= 1) {
      ids.push_back(static_cast<std::int64_t>(blocker.needed()));
    }
  }
  for (const std::int64_t id : job.after()) {
    if (ids.size() < kMostOthers) ids.push_back(id);
  }
  return ids;
}

Explanation ExplainWaiting(const v1::Job& job, const Others& others, absl::Time now) {
  Waits waits(job, others);
  for (const v1::Blocker& blocker : job.blockers()) waits.Add(blocker);
  Explanation explanation = waits.Take();
  std::string text =
      absl::StrCat("Job ", job.id(), " (", std::string(job.name()), ") has waited for ",
                   FormatSpan(now - absl::FromUnixNanos(job.submit_time_ns())), Place(job), ".");
  if (job.blockers().empty()) text += " Nothing blocks it: it is about to start.";
  explanation.text.insert(0, text);
  if (job.policy().has_start_timeout_ns()) {
    absl::StrAppend(&explanation.text, " It gives up after waiting for room for ",
                    FormatSpan(absl::Nanoseconds(job.policy().start_timeout_ns())),
                    " (--start-timeout).");
  }
  return explanation;
}

void ExplainLeases(const v1::Job& job, const v1::Frame& frame, absl::Time now,
                   Explanation& explanation) {
  if (const v1::ClientSample* client = ClientOf(frame, job.id())) {
    explanation.text += HeldLeases(*client, now);
  }
  for (const v1::WaitingRequest* request : WaitingLeasesOf(frame, job.id())) {
    absl::StrAppend(&explanation.text, " It waits for ", LeaseWanted(*request), ",",
                    For(now, request->since_ns()), " so far.");
    if (request->blockers().empty()) {
      explanation.text += " Nothing blocks the lease: it is about to be granted.";
    }
    Waits waits(job, *request, frame, std::move(explanation));
    for (const v1::Blocker& blocker : request->blockers()) waits.Add(blocker);
    explanation = waits.Take();
  }
}

}  // namespace stageload::ctl
