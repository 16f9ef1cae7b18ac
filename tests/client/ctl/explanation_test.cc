// What is said of a job: each blocker, each reason and each state, and what is offered for it.
#include "client/ctl/explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;
const absl::Time kNow = absl::FromUnixSeconds(1'800'000'000);

v1::Job Job(v1::JobState state) {
  v1::Job job;
  job.set_id(3);
  job.set_kind(v1::JOB_KIND_JOB);
  job.set_name("train");
  job.set_state(state);
  job.set_submit_time_ns(absl::ToUnixNanos(kNow - absl::Minutes(10)));
  job.mutable_policy()->set_swap_budget_bytes(8 * kGiB);
  job.mutable_policy()->set_kill_free_percent(10);
  return job;
}

v1::Job Ended(v1::JobState state, v1::Reason reason, const std::string& text) {
  v1::Job job = Job(state);
  job.set_reason(reason);
  job.set_reason_text(text);
  job.set_start_time_ns(absl::ToUnixNanos(kNow - absl::Minutes(9)));
  job.set_end_time_ns(absl::ToUnixNanos(kNow - absl::Minutes(4)));
  return job;
}

v1::Blocker& Block(v1::Job& job, v1::BlockerKind kind, double read, double needed,
                   const std::string& text) {
  v1::Blocker& blocker = *job.add_blockers();
  blocker.set_kind(kind);
  blocker.set_read(read);
  blocker.set_needed(needed);
  blocker.set_text(text);
  return blocker;
}

v1::Job Waiting(v1::BlockerKind kind, double read, double needed, const std::string& text) {
  v1::Job job = Job(v1::JOB_STATE_PENDING);
  job.set_queue_position(2);
  Block(job, kind, read, needed, text);
  return job;
}

std::string Said(const v1::Job& job, const Others& others = {}) {
  return Paragraph(ExplainJob(job, others, kNow));
}
std::vector<std::string> Offered(const v1::Job& job, const Others& others = {}) {
  std::vector<std::string> commands;
  for (const Change& change : ExplainJob(job, others, kNow).changes) {
    commands.push_back(change.command);
  }
  return commands;
}

// ---- Why it waits ----

TEST(WhyItWaits, MemoryIsSaidWithItsArithmeticAndTheSizeThatWouldFit) {
  const v1::Job job = Waiting(
      v1::BLOCKER_KIND_MEMORY, 512 * kMiB, kGiB,
      "needs 1 GiB, 512 MiB left in the pool of 2.5 GiB after 2 GiB declared by jobs 1 and 2");
  EXPECT_EQ(
      Said(job),
      "Job 3 (train) has waited for 10m00s, at place 2 of the queue. It needs 1 GiB, 512 MiB "
      "left in the pool of 2.5 GiB after 2 GiB declared by jobs 1 and 2; it starts when enough "
      "of that is given back. `stageloadctl update 3 --memory 512M` would let it start now, if "
      "it takes no more than that.");
}

TEST(WhyItWaits, TheSizeThatWouldFitIsTheSmallerOfMachineAndPool) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_MEMORY, 5 * kGiB, 9 * kGiB, "needs 9 GiB, 5 GiB free");
  Block(job, v1::BLOCKER_KIND_MEMORY, 3 * kGiB, 9 * kGiB, "needs 9 GiB, 3 GiB left in the pool");
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --memory 3G"));
  v1::Job nothing = Waiting(v1::BLOCKER_KIND_MEMORY, -kGiB, kGiB, "needs 1 GiB, 0 B free");
  EXPECT_THAT(Offered(nothing), IsEmpty()) << "no size fits";
}

TEST(WhyItWaits, NoRoomIsPromisedToWhatNeverFits) {
  const v1::Job job = Waiting(v1::BLOCKER_KIND_MEMORY, 2 * kGiB, 3 * kGiB,
                              "needs 3 GiB, which never fits into the pool of 2 GiB (memory_pool)");
  EXPECT_THAT(Said(job), HasSubstr("It needs 3 GiB, which never fits into the pool of 2 GiB "
                                   "(memory_pool); it lets others pass, and waits for less "
                                   "--memory or another config."));
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --memory 2G"));
}

TEST(WhyItWaits, AStartIsPromisedOnlyWhenNothingElseBlocks) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_MEMORY, kGiB, 2 * kGiB, "needs 2 GiB, 1 GiB free");
  EXPECT_THAT(Said(job), HasSubstr("--memory 1G` would let it start now"));
  Block(job, v1::BLOCKER_KIND_GROUP, 1, 1, "1 of at most 1 of group gpu run");
  EXPECT_THAT(Said(job),
              AllOf(HasSubstr("--memory 1G` would lift that"), Not(HasSubstr("start now"))));
}

// The daemon tells of ORDER only when nothing of the job's own blocks it.
TEST(WhyItWaits, BehindOthersAStartIsPromisedForItsTurnOnly) {
  v1::Job held = Waiting(v1::BLOCKER_KIND_HELD, 1, 0, "held until it is released");
  ASSERT_EQ(held.queue_position(), 2);
  EXPECT_THAT(Said(held), EndsWith("`stageloadctl release 3` lets it start when its turn comes."));
  v1::Job busy = Waiting(v1::BLOCKER_KIND_BUSY, 0, 60, "process 412 matches \"ollama\"");
  EXPECT_THAT(Said(busy), HasSubstr("--busy none` would let it start when its turn comes, beside"));
  busy.set_queue_position(1);
  EXPECT_THAT(Said(busy), HasSubstr("--busy none` would let it start now, beside that program, "
                                    "unless a lease goes first"));
  // Of what the machine has, ORDER is told with it.
  EXPECT_THAT(Said(Waiting(v1::BLOCKER_KIND_LEVEL, 35, 40, "")),
              HasSubstr("--wait-free 35` would let it start now"));
}

TEST(WhyItWaits, WhatBlocksBesideAnotherPromisesNoStart) {
  v1::Job group = Waiting(v1::BLOCKER_KIND_GROUP, 1, 1, "1 of at most 1 of group gpu run");
  EXPECT_THAT(Said(group),
              AllOf(HasSubstr("; one of them has to end first"), Not(HasSubstr("it starts"))));
  v1::Job memory = Waiting(v1::BLOCKER_KIND_MEMORY, 0, kGiB, "needs 1 GiB, 0 B free");
  Block(memory, v1::BLOCKER_KIND_ORDER, 3, 2, "job 2 goes first");
  EXPECT_THAT(Said(memory), AllOf(HasSubstr("; enough of that has to be given back."),
                                  Not(HasSubstr("it starts"))));
}

TEST(WhyItWaits, LevelIsSaidInPercentWithALowerOne) {
  const v1::Job job = Waiting(v1::BLOCKER_KIND_LEVEL, 35.6, 40, "35.6 % available, needs 40 %");
  EXPECT_THAT(Said(job), HasSubstr("It waits until 40 % of memory are available (--wait-free), of "
                                   "which there are 35.6 %"));
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --wait-free 35"));
  EXPECT_THAT(Offered(Waiting(v1::BLOCKER_KIND_LEVEL, 0.5, 40, "")), IsEmpty());
}

TEST(WhyItWaits, SwapLimitOffersTheBudgetThatFitsUnderIt) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_SWAP_LIMIT, 14 * kGiB, 12 * kGiB,
                        "6 GiB of swap used + 8 GiB budget = 14 GiB, limit is 12 GiB");
  EXPECT_THAT(Said(job), HasSubstr("6 GiB of swap used + 8 GiB budget = 14 GiB"));
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --swap-budget 6G",
                                        "stageloadctl update 3 --swap-limit none"));
  job.mutable_blockers(0)->set_read(30.0 * kGiB);
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --swap-limit none"));
}

TEST(WhyItWaits, BusyNamesTheProgramAndOffersToWaitForNone) {
  v1::Job job =
      Waiting(v1::BLOCKER_KIND_BUSY, 0, 60, "process 412 ollama serve matches \"ollama\"");
  job.set_queue_position(1);
  EXPECT_THAT(Said(job), HasSubstr("its --busy names: process 412 ollama serve matches"));
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl update 3 --busy none"));
  EXPECT_THAT(Said(job), Not(HasSubstr("by itself")));
}

TEST(WhyItWaits, OfAProgramThatIsGoneTheRestOfTheQuietTimeIsTold) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_BUSY, 20, 60, "quiet for 20s since ollama, needs 1m00s");
  job.mutable_blockers(0)->set_ends_in_ns(40'000'000'000);
  job.set_queue_position(1);
  EXPECT_THAT(Said(job),
              AllOf(HasSubstr("gone for as long as its --quiet-for says: quiet for 20s"),
                    HasSubstr("ends by itself in 40s, unless one comes back"),
                    HasSubstr("would let it start now, without that time, unless a lease goes")));
  EXPECT_THAT(Said(job), Not(HasSubstr("beside")));
}

TEST(WhyItWaits, DependencyNamesEachJobWithItsStateAndLeadsOn) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_DEPENDENCY, 2, 0, "starts after jobs 1, 2");
  job.add_after(1);
  job.add_after(2);
  v1::Job first = Job(v1::JOB_STATE_RUNNING);
  first.set_id(1);
  first.set_name("base");
  v1::Job second = Job(v1::JOB_STATE_PENDING);
  second.set_id(2);
  EXPECT_THAT(OthersOf(job), ElementsAre(1, 2));
  EXPECT_THAT(Said(job, {{1, first}, {2, second}}),
              HasSubstr("It may not start before job 1 (base, RUNNING) and job 2 (train, PENDING) "
                        "have completed (--after)."));
  EXPECT_THAT(Offered(job, {{1, first}, {2, second}}), ElementsAre("stageloadctl explain 2"));
  EXPECT_THAT(Said(job), HasSubstr("may not start before job 1 and job 2 have"));
}

TEST(WhyItWaits, HeldIsReleasedByTheOneOrByTheQueue) {
  v1::Job held = Waiting(v1::BLOCKER_KIND_HELD, 1, 0, "held until it is released");
  held.set_queue_position(1);
  EXPECT_THAT(Said(held),
              EndsWith("It is held until it is released. `stageloadctl release 3` lets it start, "
                       "unless a lease goes first."));
  const v1::Job queue = Waiting(v1::BLOCKER_KIND_QUEUE_HELD, 1, 0,
                                "the queue is held until it is released: deadline");
  EXPECT_THAT(Said(queue),
              HasSubstr("released: deadline. `stageloadctl release --queue` lets all"));
}

TEST(WhyItWaits, NotBeforeIsALocalTimeWithWhatIsLeft) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_NOT_BEFORE, static_cast<double>(absl::ToUnixSeconds(kNow)),
                        static_cast<double>(absl::ToUnixSeconds(kNow) + 7200), "not before ...");
  job.mutable_blockers(0)->set_ends_in_ns(absl::ToInt64Nanoseconds(absl::Hours(2)));
  const std::string begin =
      absl::FormatTime("%Y-%m-%d %H:%M:%S", kNow + absl::Hours(2), absl::LocalTimeZone());
  EXPECT_THAT(Said(job), HasSubstr(absl::StrCat("not to start before ", begin,
                                                " (--begin), in 2h00m; to have it start earlier, "
                                                "cancel it")));
  EXPECT_THAT(Offered(job), IsEmpty());
}

TEST(WhyItWaits, OrderOffersThePriorityThatPutsItFirst) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_ORDER, 3, 2, "job 2 goes first");
  v1::Job first = Job(v1::JOB_STATE_PENDING);
  first.set_id(2);
  first.mutable_policy()->set_priority(5);
  EXPECT_THAT(OthersOf(job), ElementsAre(2));
  EXPECT_THAT(Offered(job, {{2, first}}),
              ElementsAre("stageloadctl update 3 --priority 6", "stageloadctl explain 2"));
  EXPECT_THAT(Said(job), HasSubstr("declares no --memory, and so may not pass"));
  job.mutable_policy()->set_memory_bytes(kGiB);
  EXPECT_THAT(Said(job), Not(HasSubstr("declares no --memory")));
  first.mutable_policy()->set_priority(1000);
  EXPECT_THAT(Offered(job, {{2, first}}), ElementsAre("stageloadctl explain 2"));
  // No priority puts a start before a lease.
  const v1::Job lease = Waiting(v1::BLOCKER_KIND_ORDER, 3, 2, "a lease of client 2 goes first");
  EXPECT_THAT(Offered(lease, {{2, first}}), ElementsAre("stageloadctl explain 2"));
}

// ---- Leases of what runs ----

class Leases : public testing::Test {
 protected:
  Leases() {
    job_.set_start_time_ns(absl::ToUnixNanos(kNow - absl::Minutes(9)));
    AddClient(job_.id());
  }
  v1::ClientSample& AddClient(std::int64_t id) {
    v1::ClientSample& client = *frame_.add_clients();
    client.set_job_id(id);
    return client;
  }
  void Holds(v1::ClientSample& client, const std::string& stage, std::int64_t bytes,
             absl::Duration time) {
    v1::LeaseSample& lease = *client.add_leases();
    lease.set_stage(stage);
    lease.set_memory_bytes(bytes);
    lease.set_granted_time_ns(absl::ToUnixNanos(kNow - time));
  }
  v1::WaitingRequest& Waits(std::int64_t client, std::int64_t lease, const std::string& stage) {
    v1::WaitingRequest& request = *frame_.add_waiting();
    request.set_job_id(client);
    request.set_lease_id(lease);
    request.set_stage(stage);
    request.set_memory_bytes(6 * kGiB);
    request.set_since_ns(absl::ToUnixNanos(kNow - absl::Seconds(90)));
    return request;
  }
  void Block(v1::WaitingRequest& request, v1::BlockerKind kind, double needed,
             const std::string& text) {
    v1::Blocker& blocker = *request.add_blockers();
    blocker.set_kind(kind);
    blocker.set_needed(needed);
    blocker.set_text(text);
  }
  std::string Said() const { return Paragraph(ExplainJob(job_, {}, kNow, frame_)); }
  std::vector<std::string> Offered() const {
    std::vector<std::string> commands;
    for (const Change& change : ExplainJob(job_, {}, kNow, frame_).changes) {
      commands.push_back(change.command);
    }
    return commands;
  }

  v1::Job job_ = Job(v1::JOB_STATE_RUNNING);
  v1::Frame frame_;
};

TEST_F(Leases, ThoseThatAreHeldAreSaidWithTheirTime) {
  EXPECT_THAT(Said(), Not(HasSubstr("lease")));
  v1::ClientSample& client = *frame_.mutable_clients(0);
  Holds(client, "transformer", 8 * kGiB, absl::Minutes(2));
  EXPECT_THAT(Said(), HasSubstr(" It holds a lease: transformer 8 GiB, for 2m00s."));
  Holds(client, "vae", kGiB, absl::Seconds(-3));  // the clock was set back
  client.mutable_leases(1)->set_forced(true);
  EXPECT_THAT(Said(), HasSubstr(" It holds 2 leases: transformer 8 GiB, for 2m00s; vae 1 GiB "
                                "(forced), for 0s."));
  for (int i = 0; i < 40; ++i) Holds(client, "more", kGiB, absl::Minutes(1));
  EXPECT_THAT(Said(), AllOf(HasSubstr(" It holds 42 leases: "), HasSubstr("; and 37 more.")));
}

TEST_F(Leases, WhatOneWaitsForIsSaidWithItsFiguresAndWhoHoldsWhat) {
  Holds(AddClient(1), "base", 5 * kGiB, absl::Minutes(2));
  AddClient(2);
  Block(Waits(3, 7, "vae"), v1::BLOCKER_KIND_MEMORY, 6 * kGiB,
        "needs 6 GiB, 4 GiB free after 1 GiB kept free");
  EXPECT_THAT(Said(),
              EndsWith(" It waits for a lease of 6 GiB (vae), for 1m30s so far. The lease needs 6 "
                       "GiB, 4 GiB free after 1 GiB kept free; it is granted when enough of that "
                       "is given back. `stageloadctl explain 1` says what that one does, which "
                       "holds 5 GiB in leases."));
}

TEST_F(Leases, OneThatComesAfterAnotherLeadsToItsClient) {
  Waits(2, 6, "first");
  v1::WaitingRequest& own = Waits(3, 7, "vae");
  // Of a lease the place is told by the leases' ids, not by the clients'.
  Block(own, v1::BLOCKER_KIND_ORDER, 6, "a lease of client 2 goes first");
  EXPECT_THAT(Said(), HasSubstr("The lease comes after others: a lease of client 2 goes first."));
  EXPECT_THAT(Offered(), ElementsAre("stageloadctl explain 2"));
  frame_.mutable_waiting(0)->set_job_id(3);
  EXPECT_THAT(Offered(), IsEmpty()) << "it is its own";
}

TEST_F(Leases, OnlyWhatAClientThatRunsMayDoIsOffered) {
  v1::WaitingRequest& own = Waits(3, 7, "");
  Block(own, v1::BLOCKER_KIND_LEVEL, 40, "35 % available, needs 40 %");
  EXPECT_THAT(Said(),
              HasSubstr(" a lease of 6 GiB, for 1m30s so far. The lease waits until 40 % of "
                        "memory are available"));
  EXPECT_THAT(Offered(), IsEmpty()) << "no --wait-free can be changed any more";
  own.clear_blockers();
  Block(own, v1::BLOCKER_KIND_SWAP_LIMIT, 0, "2 GiB of swap used");
  EXPECT_THAT(Offered(), ElementsAre("stageloadctl update 3 --swap-limit none"));
  own.clear_blockers();
  Block(own, v1::BLOCKER_KIND_HELD, 0, "its client 3 is suspended");
  job_.set_state(v1::JOB_STATE_SUSPENDED);
  EXPECT_THAT(Said(), HasSubstr("The lease is not granted meanwhile: its client 3 is suspended."));
  EXPECT_THAT(Offered(), ElementsAre("stageloadctl resume 3"));
  own.clear_blockers();
  EXPECT_THAT(Said(), HasSubstr("Nothing blocks the lease: it is about to be granted."));
  job_.set_state(v1::JOB_STATE_COMPLETED);
  EXPECT_THAT(Said(), Not(HasSubstr("lease"))) << "a frame may be older than its end";
}

TEST(WhyItWaits, WhatEndsByItselfIsSaidWithItsEnd) {
  for (const v1::BlockerKind kind :
       {v1::BLOCKER_KIND_STALE, v1::BLOCKER_KIND_WAKING, v1::BLOCKER_KIND_SWAPPING,
        v1::BLOCKER_KIND_SETTLING, v1::BLOCKER_KIND_RECOVERING, v1::BLOCKER_KIND_RETURNING}) {
    v1::Job job = Waiting(kind, 3, 15, "the figures");
    EXPECT_THAT(Said(job), AllOf(HasSubstr("the figures"), EndsWith("; that ends by itself.")));
    job.mutable_blockers(0)->set_ends_in_ns(absl::ToInt64Nanoseconds(absl::Seconds(12)));
    EXPECT_THAT(Said(job), EndsWith("; that ends by itself, in 12s at the latest."));
    EXPECT_THAT(Offered(job), IsEmpty());
  }
}

TEST(WhyItWaits, EveryKindOfBlockerIsSaidWithItsFigures) {
  for (int kind = 1; kind < v1::BlockerKind_ARRAYSIZE; ++kind) {
    if (!v1::BlockerKind_IsValid(kind)) continue;
    const v1::Job job = Waiting(static_cast<v1::BlockerKind>(kind), 10, 20, "with its figures");
    const std::string said = Said(job);
    const bool of_its_own = kind == v1::BLOCKER_KIND_LEVEL || kind == v1::BLOCKER_KIND_NOT_BEFORE ||
                            kind == v1::BLOCKER_KIND_DEPENDENCY;
    EXPECT_THAT(said, StartsWith("Job 3 (train) has waited for 10m00s"));
    if (!of_its_own) {
      EXPECT_THAT(said, HasSubstr("with its figures"));
    }
    EXPECT_THAT(said, Not(HasSubstr("It waits: "))) << kind << " has no words of its own";
  }
}

TEST(WhyItWaits, AStartTimeoutIsSaid) {
  v1::Job job = Waiting(v1::BLOCKER_KIND_LEVEL, 35, 40, "");
  job.mutable_policy()->set_start_timeout_ns(absl::ToInt64Nanoseconds(absl::Minutes(30)));
  EXPECT_THAT(Said(job), HasSubstr("gives up after waiting for room for 30m00s (--start-timeout)"));
  v1::Job free = Job(v1::JOB_STATE_PENDING);
  EXPECT_THAT(Said(free), EndsWith("Nothing blocks it: it is about to start."));
}

// ---- Why it was stopped, and how it stands ----

TEST(WhyItWasStopped, ForItsSwapBudgetWithTheBudgetThatWouldHaveDone) {
  v1::Job job = Ended(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_SWAP_BUDGET,
                      "swap charge 8.2 GiB is over the budget of 8 GiB (...)");
  job.set_charge_bytes(8 * kGiB + 200 * kMiB);
  job.set_true_peak_bytes(20 * kGiB);
  job.mutable_policy()->set_charge_mode(v1::CHARGE_MODE_SYSTEM);
  const std::string said = Said(job);
  EXPECT_THAT(said,
              StartsWith("Job 3 (train) was stopped after running for 5m00s, SWAP_BUDGET: swap "
                         "charge 8.2 GiB is over the budget of 8 GiB (...)."));
  EXPECT_THAT(said, HasSubstr("A --swap-budget above 8.2 GiB would have let it go on"));
  EXPECT_THAT(said, HasSubstr("--charge own"));
  EXPECT_THAT(said, HasSubstr("`stageloadctl retry 3` queues it again, declaring at least the 20 "
                              "GiB that it needed and a tenth more."));
  job.mutable_policy()->set_charge_mode(v1::CHARGE_MODE_OWN);
  EXPECT_THAT(Said(job), Not(HasSubstr("--charge own")));
}

TEST(WhyItWasStopped, ForTheMachinesSwapOrItsMemory) {
  v1::Job limit = Ended(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_SWAP_LIMIT, "swap used 13 GiB");
  limit.mutable_policy()->set_swap_limit_bytes(12 * kGiB);
  EXPECT_THAT(Said(limit),
              AllOf(HasSubstr("SWAP_LIMIT: swap used 13 GiB"), HasSubstr("--swap-limit (12 GiB)")));
  const v1::Job low = Ended(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_LOW_MEMORY, "4 % of memory");
  EXPECT_THAT(Said(low),
              AllOf(HasSubstr("LOW_MEMORY: 4 % of memory"), HasSubstr("--kill-free 10 %"),
                    HasSubstr("lowest priority (its own: 0)")));
}

TEST(WhyItWasStopped, ByItsTimeLimitByAUserByItsParentOrByItsGuard) {
  v1::Job late =
      Ended(v1::JOB_STATE_TIMEOUT, v1::REASON_TIMEOUT, "it ran for its time limit of 8h");
  late.mutable_policy()->set_time_limit_ns(absl::ToInt64Nanoseconds(absl::Hours(8)));
  EXPECT_THAT(Said(late), AllOf(HasSubstr("was stopped: it ran for its time limit of 8h."),
                                HasSubstr("`stageloadctl update ID --time 16h` sets another")));
  for (const auto& [limit, twice] : {std::pair(absl::Minutes(45), "--time 90m"),
                                     std::pair(absl::Milliseconds(3500), "--time 7s")}) {
    late.mutable_policy()->set_time_limit_ns(absl::ToInt64Nanoseconds(limit));
    EXPECT_THAT(Said(late), HasSubstr(twice));
  }
  late.set_kind(v1::JOB_KIND_GUARD);
  EXPECT_THAT(Said(late), EndsWith(" Guard it again with more time, such as --time 7s."));
  EXPECT_THAT(Said(Ended(v1::JOB_STATE_CANCELLED, v1::REASON_CANCELLED, "cancelled while it ran")),
              HasSubstr("was cancelled after running for 5m00s by a user"));
  v1::Job child = Ended(v1::JOB_STATE_CANCELLED, v1::REASON_DEPENDENCY_NEVER,
                        "it was to start after job 18, which ended as FAILED");
  child.clear_start_time_ns();
  child.add_after(18);
  EXPECT_THAT(Offered(child), ElementsAre("stageloadctl retry 18 3"));
  EXPECT_THAT(Said(Ended(v1::JOB_STATE_CANCELLED, v1::REASON_CLIENT_GONE, "the guard went away")),
              HasSubstr("the guard went away"));
}

TEST(WhyItWasStopped, WithoutRoomWithTheMachineOrUnseen) {
  EXPECT_THAT(Said(Ended(v1::JOB_STATE_NO_ROOM, v1::REASON_START_TIMEOUT, "no room within 30m")),
              AllOf(HasSubstr("gave up before its start: no room within 30m."),
                    HasSubstr("--start-timeout")));
  EXPECT_THAT(Said(Ended(v1::JOB_STATE_NODE_FAIL, v1::REASON_LOST, "the machine went down")),
              HasSubstr("--requeue"));
  EXPECT_THAT(Said(Ended(v1::JOB_STATE_UNKNOWN, v1::REASON_LOST, "nobody saw how it ended")),
              HasSubstr("nobody could see how: nobody saw how it ended"));
}

TEST(HowItStands, AFailureIsItsOwnUnlessItCouldNotBeStarted) {
  v1::Job failed = Ended(v1::JOB_STATE_FAILED, v1::REASON_UNSPECIFIED, "");
  failed.set_exit_code(3);
  EXPECT_THAT(Said(failed), HasSubstr("failed after running for 5m00s: its own exit code is 3."));
  EXPECT_THAT(Offered(failed), Contains("stageloadctl logs 3 --tail 20"));
  failed.clear_exit_code();
  failed.set_signal(9);
  EXPECT_THAT(Said(failed), AllOf(HasSubstr("signal 9"), HasSubstr("OOM killer")));
  EXPECT_THAT(
      Said(Ended(v1::JOB_STATE_FAILED, v1::REASON_START_FAILED, "No such file")),
      HasSubstr("failed at its start: No such file. The command is looked for in the PATH"));
  v1::Job path = Ended(v1::JOB_STATE_FAILED, v1::REASON_START_FAILED, "No such file");
  path.set_command("./train.sh --lr 1");
  path.set_working_directory("/home/a");
  EXPECT_THAT(Said(path), AllOf(HasSubstr("counts from the folder of the job, /home/a."),
                                Not(HasSubstr("PATH"))));
  path.clear_start_time_ns();
  path.set_reason_text("its command was lost");
  EXPECT_THAT(Said(path), HasSubstr("failed before its start: its command was lost."));
  EXPECT_THAT(Offered(path), IsEmpty());
}

TEST(HowItStands, AGuardedCommandIsNotOfferedToBeRetried) {
  v1::Job guard = Ended(v1::JOB_STATE_OUT_OF_MEMORY, v1::REASON_SWAP_BUDGET, "over");
  guard.set_kind(v1::JOB_KIND_GUARD);
  EXPECT_THAT(Offered(guard), IsEmpty());
}

TEST(HowItStands, OneThatRunsIsSaidWithWhatItTakesAndWhatItWaitedFor) {
  v1::Job job = Job(v1::JOB_STATE_RUNNING);
  job.set_start_time_ns(absl::ToUnixNanos(kNow - absl::Minutes(4)));
  job.set_footprint_bytes(3 * kGiB);
  job.mutable_policy()->set_memory_bytes(12 * kGiB);
  v1::Waited& waited = *job.add_waited();
  waited.set_kind(v1::BLOCKER_KIND_MEMORY);
  waited.set_time_ns(absl::ToInt64Nanoseconds(absl::Minutes(5)));
  waited.set_text("needs 12 GiB, 4 GiB free");
  EXPECT_EQ(
      Said(job),
      "Job 3 (train) runs for 4m00s. It had waited 6m00s to start, 5m00s of it for MEMORY "
      "(needs 12 GiB, 4 GiB free). Its footprint is 3 GiB of the 12 GiB that it declares. 0 B "
      "of swap are put down to it, of a budget of 8 GiB.");
  job.set_reason_text("not started yet: the disk is full; it is tried again");
  EXPECT_THAT(Said(job), StartsWith("Job 3 (train) is RUNNING, but not started yet: the disk is "
                                    "full; it is tried again. It had waited"));
}

TEST(HowItStands, OneThatIsSuspendedGoesOnByResume) {
  v1::Job job = Job(v1::JOB_STATE_SUSPENDED);
  job.set_reason(v1::REASON_SUSPENDED);
  EXPECT_THAT(Offered(job), ElementsAre("stageloadctl resume 3"));
  job.set_reason(v1::REASON_SWAP_BUDGET);
  EXPECT_THAT(Said(job), HasSubstr("swap budget whole again"));
  v1::Job stopping = Job(v1::JOB_STATE_STOPPING);
  stopping.set_reason(v1::REASON_LOW_MEMORY);
  stopping.set_reason_text("4 % of memory");
  stopping.mutable_policy()->set_grace_ns(5'000'000'000);
  EXPECT_THAT(Said(stopping), AllOf(HasSubstr("is being stopped, LOW_MEMORY: 4 % of memory."),
                                    HasSubstr("--grace of 5s")));
}

TEST(HowItStands, EveryStateHasWordsOfItsOwn) {
  for (int state = 1; state < v1::JobState_ARRAYSIZE; ++state) {
    const std::string said = Said(Job(static_cast<v1::JobState>(state)));
    EXPECT_THAT(said, StartsWith("Job 3 (train) "));
    EXPECT_THAT(said, Not(HasSubstr("too old to know")));
  }
}

TEST(Explanation, IsADocumentToo) {
  const v1::Job job = Waiting(v1::BLOCKER_KIND_HELD, 1, 0, "held until it is released");
  const Json json = ToJson(job, ExplainJob(job, {}, kNow));
  EXPECT_EQ(json.at("id"), 3);
  EXPECT_EQ(json.at("state"), "PENDING");
  EXPECT_EQ(json.at("changes").at(0).at("command"), "stageloadctl release 3");
}

TEST(SizeOption, IsNeverMoreThanTheSize) {
  EXPECT_EQ(SizeOption(Bytes(kMiB - 1)), std::nullopt);
  EXPECT_EQ(SizeOption(Bytes(512 * kMiB + 5)), "512M");
  EXPECT_EQ(SizeOption(Bytes(2 * kGiB)), "2G");
  EXPECT_EQ(SizeOption(Bytes(2 * kGiB + 700 * kMiB)), "2700M");
  EXPECT_EQ(SizeOption(Bytes(20 * kGiB + 700 * kMiB)), "20G");
}

}  // namespace
}  // namespace stageload::ctl
