#include "daemon/core/job.h"

#include <gtest/gtest.h>

#include <string>

namespace stageload::core {
namespace {

TEST(DisplayCommand, IsCutAt4KiBBetweenCharactersAndSeenToBe) {
  const std::string fits(4096, 'x');
  EXPECT_EQ(DisplayCommand({fits}), fits);
  for (std::size_t before = 0; before < 4; ++before) {
    std::string wide(before, 'x');
    while (wide.size() <= 4096) wide += "型";
    const std::string cut = DisplayCommand({wide, "more"});
    EXPECT_LE(cut.size(), 4096U);
    EXPECT_GT(cut.size(), 4096U - 6);
    ASSERT_EQ(cut.substr(cut.size() - 3), "…");
    EXPECT_EQ((cut.size() - 3 - before) % 3, 0U) << "a character was cut";
    EXPECT_EQ(cut.substr(0, cut.size() - 3), wide.substr(0, cut.size() - 3));
  }
}

}  // namespace
}  // namespace stageload::core
