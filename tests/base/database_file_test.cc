#include "base/database_file.h"

#include <gtest/gtest.h>

#include <string>

namespace stageload {
namespace {

// Of pages of 4 KiB.
std::string Header(char pages) {
  std::string header("SQLite format 3", 16);
  header.resize(kDatabaseHeaderBytes, '\0');
  header[16] = 0x10;
  header[31] = pages;
  return header;
}

TEST(StatedLengthTest, IsThatOfThePages) {
  EXPECT_EQ(StatedLength(Header(3)), 3 * 4096);
  std::string largest = Header(2);
  largest[16] = 0;
  largest[17] = 1;
  EXPECT_EQ(StatedLength(largest), 2 * 65536);
  std::string many = Header(0);
  many[28] = '\x80';
  EXPECT_EQ(StatedLength(many), 4096LL << 31);
}

TEST(StatedLengthTest, IsNothingOfWhatIsNoDatabase) {
  EXPECT_EQ(StatedLength(""), std::nullopt);
  EXPECT_EQ(StatedLength(Header(3).substr(0, kDatabaseHeaderBytes - 1)), std::nullopt);
  EXPECT_EQ(StatedLength("x" + Header(3).substr(1)), std::nullopt);
}

}  // namespace
}  // namespace stageload
