// "Did you mean".
#include "base/closest_word.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace stageload {
namespace {

const std::vector<std::string> kCommands = {"queue",   "show",    "status", "submit",
                                            "suspend", "summary", "cancel", "daemon"};

TEST(EditDistance, CountsLettersPutInLeftOutChangedAndSwapped) {
  EXPECT_EQ(EditDistance("queue", "queue"), 0);
  EXPECT_EQ(EditDistance("queu", "queue"), 1);
  EXPECT_EQ(EditDistance("queues", "queue"), 1);
  EXPECT_EQ(EditDistance("quexe", "queue"), 1);
  EXPECT_EQ(EditDistance("qeuue", "queue"), 1);
  EXPECT_EQ(EditDistance("", "abc"), 3);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3);
}

TEST(ClosestWord, IsTheOneThatWasMeant) {
  EXPECT_EQ(ClosestWord("qeue", kCommands), "queue");
  EXPECT_EQ(ClosestWord("submti", kCommands), "submit");
  EXPECT_EQ(ClosestWord("SHOW", kCommands), "show");
  EXPECT_EQ(ClosestWord("--memmory", {"--memory", "--name"}), "--memory");
}

TEST(ClosestWord, IsNoneWhereNothingIsClose) {
  EXPECT_EQ(ClosestWord("config", kCommands), std::nullopt);
  EXPECT_EQ(ClosestWord("", kCommands), std::nullopt);
  EXPECT_EQ(ClosestWord("x", {"y", "z"}), std::nullopt);
  EXPECT_EQ(ClosestWord("ab", {"cd"}), std::nullopt);
  EXPECT_EQ(ClosestWord(std::string(100'000, 'a'), kCommands), std::nullopt);
}

TEST(ClosestWord, IsTheOnlyOneThatBeginsSo) {
  EXPECT_EQ(ClosestWord("dae", kCommands), "daemon");
  EXPECT_EQ(ClosestWord("su", kCommands), std::nullopt);
}

TEST(DidYouMean, IsASentenceOrNothing) {
  EXPECT_EQ(DidYouMean("qeue", kCommands), "; did you mean queue?");
  EXPECT_EQ(DidYouMean("config", kCommands), "");
}

}  // namespace
}  // namespace stageload
