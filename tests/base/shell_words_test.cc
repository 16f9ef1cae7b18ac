// Commands as one would type them, read again by a shell.
#include "base/shell_words.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <string>
#include <vector>

namespace stageload {
namespace {

using Words = std::vector<std::string>;

TEST(ShellWords, QuotesOnlyWhatAShellWouldReadOtherwise) {
  EXPECT_EQ(ShellWords({"python3", "train.py", "--lr=0.1", "-n", "größe"}),
            "python3 train.py --lr=0.1 -n größe");
  EXPECT_EQ(ShellWords({"sh", "-c", "a && b"}), "sh -c 'a && b'");
  EXPECT_EQ(ShellWords({"echo", "it's", "", "$HOME", "~"}), "echo 'it'\\''s' '' '$HOME' '~'");
  EXPECT_EQ(ShellWords({"printf",
                        "a\nb\\\t'\x01"
                        "2"}),
            "printf $'a\\nb\\\\\\t\\'\\0012'");
  EXPECT_EQ(ShellWords({"=ls", "a=b"}), "'=ls' a=b");
  EXPECT_EQ(ShellWords({}), "");
}

// What a shell makes of `line`: each word, in brackets.
std::string ReadBy(const std::string& shell, const std::string& line) {
  const std::string script = ShellWords({"printf", "[%s]"}) + " " + line;
  FILE* pipe = popen((shell + " -c " + ShellWords({script})).c_str(), "r");
  if (pipe == nullptr) return "";
  std::string said;
  char buffer[256];
  while (fgets(buffer, sizeof buffer, pipe) != nullptr) said += buffer;
  EXPECT_EQ(pclose(pipe), 0);
  return said;
}

TEST(ShellWords, AreReadAsTheSameWordsByAShell) {
  const Words words = {
      "a b",   "it's", "",     "$HOME `id` $(id)", "\"", "\\", "*", "~/x", "#1", "!x", "a;b&",
      "größe", "-n",   "{a,b}"};
  std::string expected;
  for (const std::string& word : words) expected += "[" + word + "]";
  EXPECT_EQ(ReadBy("sh", ShellWords(words)), expected);
}

}  // namespace
}  // namespace stageload
