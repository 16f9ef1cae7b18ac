// A client that was made from the .proto files by other people's tools.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/e2e/library_fixture.h"

namespace stageload::e2e {
namespace {

class NodeTest : public LibraryTest {};

TEST_F(NodeTest, ANodePeerRegistersTakesLeasesWatchesAndReleases) {
  WriteConfig("memory_pool = \"150M\"\n");
  StartDaemon();
  ChildProcess holder = StartHolder("holder", 80);
  ASSERT_TRUE(holder.Prints("granted"));
  ChildProcess peer = Start({"/usr/bin/env", "node", STAGELOAD_E2E_NODE "/client.mjs",
                             STAGELOAD_E2E_PROTO, paths().socket});
  const Result result = peer.Wait();
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_THAT(result.out, ::testing::EndsWith("done\n"));
  EndHolder("holder");
  EXPECT_EQ(holder.Wait().exit_code, 0);
}

}  // namespace
}  // namespace stageload::e2e
