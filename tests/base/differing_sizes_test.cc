#include "base/differing_sizes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

namespace stageload {
namespace {

std::string Both(std::int64_t first, std::int64_t second) {
  const SizeTexts texts = FormatDiffering(Bytes(first), Bytes(second));
  return texts.first + " and " + texts.second;
}

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

TEST(DifferingSizes, ThatPrintDifferentlyArePrintedAsAlways) {
  EXPECT_EQ(Both(3 * kGiB, 2 * kGiB), "3 GiB and 2 GiB");
  EXPECT_EQ(Both(kGiB, kGiB), "1 GiB and 1 GiB");
  EXPECT_EQ(Both(9, 8), "9 B and 8 B");
}

TEST(DifferingSizes, ThatPrintAlikeHaveAsManyDigitsAsTellThemApart) {
  EXPECT_EQ(Both(1025 * kMiB, kGiB), "1.001 GiB and 1 GiB");
  EXPECT_EQ(Both(kGiB, 1025 * kMiB), "1 GiB and 1.001 GiB");
  EXPECT_EQ(Both(47 * kGiB + 30 * kMiB, 47 * kGiB + 20 * kMiB), "47.03 GiB and 47.02 GiB");
  EXPECT_EQ(Both(-1025 * kMiB, -kGiB), "-1.001 GiB and -1 GiB");
}

TEST(DifferingSizes, OfAFewBytesAreToldToTheByte) {
  EXPECT_EQ(Both(kGiB + 1, kGiB), "1073741825 B and 1073741824 B");
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(Both(kMost, kMost - 1), "9223372036854775807 B and 9223372036854775806 B");
}

}  // namespace
}  // namespace stageload
