// Which processes belong to which client.
#include "daemon/engine/process_tree.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stageload::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr core::JobId kA{1};
constexpr core::JobId kB{2};

// Each process started at the tick of its pid, unless said.
host::Process Proc(std::int32_t pid, std::int32_t parent, std::int32_t session = 1,
                   char state = 'S') {
  host::Process process;
  process.identity = {pid, static_cast<std::uint64_t>(pid)};
  process.parent = parent;
  process.session = session;
  process.state = state;
  return process;
}

std::vector<std::int32_t> Pids(const std::vector<core::ProcessIdentity>& members) {
  std::vector<std::int32_t> pids;
  for (const core::ProcessIdentity& member : members) pids.push_back(member.pid);
  return pids;
}

TEST(ProcessTree, HoldsTheRootAndAllThatDescendFromIt) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1), Proc(11, 10), Proc(12, 11), Proc(13, 1)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10, 11, 12));
}

TEST(ProcessTree, WhoHasTheDaemonAmongItsDescendantsHasNeitherItNorItsJobs) {
  ProcessTree tree(11);
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1), Proc(11, 10), Proc(12, 11), Proc(13, 10)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10, 13));
}

TEST(ProcessTree, ADaemonThatAProgramHasLeftBehindIsNobodysAndNorIsItsSession) {
  ProcessTree tree(12);
  tree.Add(kA, {10, 10}, ProcessTree::Root::kOrphan);
  tree.AddMembers(kA, {{12, 12}, {14, 14}});
  for (int looks = 0; looks < 2; ++looks) {
    tree.Update({Proc(1, 0), Proc(12, 1, 12), Proc(13, 12, 12), Proc(14, 1, 14)});
    EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(14));
  }
}

TEST(ProcessTree, ShimIsNotAMemberButItsSessionIs) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kShim);
  tree.Update({Proc(1, 0), Proc(10, 1, 10), Proc(11, 10, 10), Proc(12, 1, 10), Proc(13, 1, 13)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11, 12));
}

TEST(ProcessTree, SessionOfAShimThatIsGoneIsKnownByTheMembersInIt) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kShim);
  tree.Update({Proc(1, 0), Proc(10, 1, 10), Proc(11, 10, 10)});
  // 12 was forked and orphaned since then, 13 later.
  tree.Update({Proc(1, 0), Proc(11, 1, 10), Proc(12, 1, 10)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11, 12));
  tree.Update({Proc(1, 0), Proc(12, 1, 10), Proc(13, 1, 10)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(12, 13));
  // Nobody of it is left, so the pid and the session may be another's by now.
  tree.Update({Proc(1, 0)});
  tree.Update({Proc(1, 0), Proc(14, 1, 10)});
  EXPECT_THAT(tree.MembersOf(kA), IsEmpty());
}

TEST(ProcessTree, SessionOfAPidThatIsUsedAgainIsNobodys) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kShim);
  tree.Update({Proc(1, 0), Proc(10, 1, 10)});
  host::Process again = Proc(10, 1, 10);
  again.identity.start = 90;
  tree.Update({Proc(1, 0), again, Proc(91, 10, 10)});
  EXPECT_THAT(tree.MembersOf(kA), IsEmpty());
}

TEST(ProcessTree, CommandWhoseShimWasKilledBringsItsSessionWithIt) {
  ProcessTree tree;
  tree.Add(kA, {11, 11}, ProcessTree::Root::kOrphan);
  tree.Update({Proc(1, 0), Proc(11, 1, 10), Proc(12, 11, 12), Proc(13, 1, 10), Proc(14, 1, 14)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11, 12, 13));
}

TEST(ProcessTree, SessionOfAGuardedCommandIsItsTerminals) {
  ProcessTree tree;
  tree.Add(kA, {11, 11}, ProcessTree::Root::kMember);
  const std::vector<host::Process> table = {Proc(1, 0), Proc(9, 1, 9), Proc(11, 9, 9),
                                            Proc(12, 9, 9)};
  tree.Update(table);
  tree.Update(table);
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11));
}

TEST(ProcessTree, MembersThatAreNamedCountWithTheirChildrenIfTheyLive) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kOrphan);
  tree.AddMembers(kA, {{12, 12}, {13, 99}, {14, 14}});
  tree.Update({Proc(1, 0), Proc(12, 1, 12), Proc(13, 1, 13), Proc(15, 12, 15)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(12, 15));
}

TEST(ProcessTree, MemberStaysOneAfterItsParentIsGone) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1), Proc(11, 10)});
  // 11 was given to init, left the session, and has a child; the root is gone.
  tree.Update({Proc(1, 0), Proc(11, 1, 11), Proc(14, 11, 11)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11, 14));
}

// As macOS tells it: who made a process is known by its unique id for as long as that lives.
host::Process MadeBy(std::uint64_t maker, host::Process process) {
  process.parent_at_fork = maker;
  return process;
}

TEST(ProcessTree, OrphanBelongsToWhoMadeIt) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), MadeBy(3, Proc(10, 1)), MadeBy(10, Proc(11, 10))});
  // Since then 11 made 12, which left for a session of its own, and ended. 13 is launchd's.
  const host::Process daemon = MadeBy(11, Proc(12, 1, 12));
  tree.Update({Proc(1, 0), MadeBy(3, Proc(10, 1)), daemon, MadeBy(1, Proc(13, 1, 13))});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10, 12));
  // And 12 made 14, which made 15, and is a zombie.
  tree.Update({Proc(1, 0), daemon, MadeBy(12, Proc(14, 12, 14, 'Z')), MadeBy(14, Proc(15, 1, 15))});
  tree.Update({Proc(1, 0), daemon, MadeBy(14, Proc(15, 1, 15))});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(12, 15));
}

TEST(ProcessTree, OrphanOfAShimIsOfItsJob) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kShim);
  tree.Update({Proc(1, 0), Proc(10, 1, 10), MadeBy(10, Proc(11, 1, 11))});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11));
}

TEST(ProcessTree, OrphanOfNobodyKnownIsNobodys) {
  ProcessTree tree(12);
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  // 13 was made by the daemon, 14 by who is above the root, 15 where the platform does not tell.
  tree.Update({Proc(1, 0), Proc(10, 1), MadeBy(10, Proc(12, 10)), MadeBy(12, Proc(13, 1)),
               MadeBy(1, Proc(14, 1)), Proc(15, 1)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10));
  // One whose client has been removed.
  tree.Remove(kA);
  tree.Add(kB, {20, 20}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), MadeBy(10, Proc(16, 1)), Proc(20, 1)});
  EXPECT_THAT(Pids(tree.MembersOf(kB)), ElementsAre(20));
}

TEST(ProcessTree, PidThatIsUsedAgainIsNobody) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1), Proc(11, 10)});
  host::Process again = Proc(11, 1);
  again.identity.start = 99;
  tree.Update({Proc(1, 0), Proc(10, 1), again});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10));
  host::Process root_again = Proc(10, 1);
  root_again.identity.start = 98;
  tree.Update({Proc(1, 0), root_again});
  EXPECT_THAT(tree.MembersOf(kA), IsEmpty());
}

TEST(ProcessTree, ProcessOlderThanItsParentIsNotItsChild) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  host::Process older = Proc(11, 10);
  older.identity.start = 5;
  tree.Update({Proc(1, 0), Proc(10, 1), older});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10));
}

TEST(ProcessTree, ZombieHoldsNothingButItsChildrenDo) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1), Proc(11, 10, 1, 'Z'), Proc(12, 11)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10, 12));
}

TEST(ProcessTree, NestedGuardBelongsToTheNearerRoot) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kShim);
  tree.Add(kB, {12, 12}, ProcessTree::Root::kMember);
  tree.Update({Proc(1, 0), Proc(10, 1, 10), Proc(11, 10, 10), Proc(12, 11, 10), Proc(13, 12, 10)});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(11));
  EXPECT_THAT(Pids(tree.MembersOf(kB)), ElementsAre(12, 13));
}

TEST(ProcessTree, TableWithALoopOfParentsEnds) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  host::Process one = Proc(20, 21);
  host::Process two = Proc(21, 20);
  one.identity.start = two.identity.start = 7;
  tree.Update({Proc(10, 1), one, two});
  EXPECT_THAT(Pids(tree.MembersOf(kA)), ElementsAre(10));
}

TEST(ProcessTree, RemovedClientIsForgotten) {
  ProcessTree tree;
  tree.Add(kA, {10, 10}, ProcessTree::Root::kMember);
  tree.Update({Proc(10, 1), Proc(11, 10)});
  EXPECT_EQ(tree.ClientOfRoot({10, 10}), kA);
  tree.Remove(kA);
  EXPECT_TRUE(tree.empty());
  EXPECT_EQ(tree.ClientOfRoot({10, 10}), std::nullopt);
  tree.Update({Proc(10, 1), Proc(11, 10)});
  EXPECT_THAT(tree.MembersOf(kA), IsEmpty());
}

}  // namespace
}  // namespace stageload::engine
