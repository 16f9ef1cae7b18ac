// Sizes, durations and percentages: what is taken, what is refused and with which words, and that
// what is printed reads back.
#include "base/text.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(Sizes, AreReadInBinaryMultiples) {
  const std::vector<std::pair<std::string, Bytes>> cases = {{"0", Bytes(0)},
                                                            {"4096", Bytes(4096)},
                                                            {"9B", Bytes(9)},
                                                            {"300 KB", KiB(300)},
                                                            {"512M", MiB(512)},
                                                            {"512m", MiB(512)},
                                                            {"8G", GiB(8)},
                                                            {"8gib", GiB(8)},
                                                            {"1.5GiB", MiB(1536)},
                                                            {".5G", MiB(512)},
                                                            {"2T", GiB(2048)},
                                                            {"1P", GiB(1024 * 1024)},
                                                            {" 8G ", GiB(8)},
                                                            {"8 G", GiB(8)},
                                                            {"0.1K", Bytes(102)},
                                                            {"007M", MiB(7)},
                                                            {"0G", Bytes(0)},
                                                            {"1024KiB", MiB(1)},
                                                            {"1.0001M", Bytes(1048680)}};
  for (const auto& [text, want] : cases) {
    const auto got = ParseBytes(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(got->count(), want.count()) << text;
  }
}

TEST(Sizes, AreExactUpToTheLastByteThatFits) {
  EXPECT_EQ(ParseBytes("9223372036854775807")->count(), INT64_MAX);
  EXPECT_EQ(ParseBytes("9007199254740993")->count(), 9007199254740993);  // no double holds it
  EXPECT_EQ(ParseBytes("8191P")->count(), std::int64_t{8191} << 50);
}

TEST(Sizes, ThatDoNotFitAreRefused) {
  for (const char* text : {"9223372036854775808", "8192P", "99999999999999999999999999G",
                           "18446744073709551616", "8388608T"}) {
    EXPECT_THAT(ErrorOf(ParseBytes(text).status()), HasSubstr("is too large")) << text;
  }
}

TEST(Sizes, ThatAreWrongAreNamedWithARightOneBesideThem) {
  EXPECT_EQ(ErrorOf(ParseBytes("8X").status()),
            "size \"8X\": unknown unit \"X\"; write for example 512M, 8G or 1.5GiB");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "size \"\": is empty"},
      {" ", "size \" \": is empty"},
      {"-1", "must not be negative"},
      {"-8G", "must not be negative"},
      {"+8G", "does not begin with a number"},
      {"G", "does not begin with a number"},
      {"nan", "does not begin with a number"},
      {"inf", "does not begin with a number"},
      {".", "has no digit after the point"},
      {"1.G", "has no digit after the point"},
      {"1e400", "unknown unit \"e400\""},
      {"0x10", "unknown unit \"x10\""},
      {"1.5.2G", "unknown unit \".2G\""},
      {"1,5G", "unknown unit \",5G\""},
      {"8GiBB", "unknown unit \"GiBB\""},
      {"8G 2M", "unknown unit \"G 2M\""},
      {"8E", "unknown unit \"E\""},
      {"1.5", "is not a whole number of bytes"},
      {"1.5B", "is not a whole number of bytes"},
  };
  for (const auto& [text, want] : cases) {
    const std::string message = ErrorOf(ParseBytes(text).status());
    EXPECT_THAT(message, HasSubstr(want)) << text;
    EXPECT_THAT(message, HasSubstr("\"" + text + "\"")) << text;
    EXPECT_THAT(message, HasSubstr("; write for example 512M, 8G or 1.5GiB")) << text;
  }
}

TEST(Sizes, ThatAreNoTextAreShownSafelyAndShort) {
  EXPECT_THAT(ErrorOf(ParseBytes("\x1b[31m").status()), HasSubstr("\"\\x1b[31m\""));
  EXPECT_THAT(ErrorOf(ParseBytes(std::string("8G\0", 3)).status()), HasSubstr("8G\\x00"));
  EXPECT_LT(ErrorOf(ParseBytes(std::string(1'000'000, 'x')).status()).size(), 200u);
}

TEST(Durations, AreReadInTheirUnits) {
  const std::vector<std::pair<std::string, absl::Duration>> cases = {
      {"0", absl::ZeroDuration()},
      {"90", absl::Seconds(90)},
      {"1.5", absl::Milliseconds(1500)},
      {"500ms", absl::Milliseconds(500)},
      {"500MS", absl::Milliseconds(500)},
      {"90s", absl::Seconds(90)},
      {"0.25s", absl::Milliseconds(250)},
      {"30m", absl::Minutes(30)},
      {"1.5h", absl::Minutes(90)},
      {"2h", absl::Hours(2)},
      {"1d", absl::Hours(24)},
      {"1h30m", absl::Minutes(90)},
      {"1h 30m", absl::Minutes(90)},
      {"1d2h3m4s5ms", absl::Hours(26) + absl::Minutes(3) + absl::Milliseconds(4005)},
      {" 5 s ", absl::Seconds(5)},
      {"106751d", absl::Hours(24) * 106751}};
  for (const auto& [text, want] : cases) {
    const auto got = ParseDuration(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_EQ(*got, want) << text;
  }
}

TEST(Durations, ThatAreWrongAreNamedWithARightOneBesideThem) {
  EXPECT_EQ(ErrorOf(ParseDuration("-1s").status()),
            "duration \"-1s\": must not be negative; write for example 500ms, 90s, 30m or 1h30m");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is empty"},
      {" ", "is empty"},
      {"nan", "does not begin with a number"},
      {"inf", "does not begin with a number"},
      {"s", "does not begin with a number"},
      {"1e400", "unknown unit \"e\""},
      {"1w", "unknown unit \"w\""},
      {"5 s later", "unknown unit \"s later\""},
      {"1h-5m", "unknown unit \"h-\""},
      {"1h30", "a part has no unit"},
      {"1.5.2s", "a part has no unit"},
      {"30m1h", "units must go from large to small"},
      {"1h1h", "units must go from large to small"},
      {"5.s", "has no digit after the point"},
      {"106752d", "is too long"},
      {"106751d24h", "is too long"},
      {"9223372036854775807d", "is too long"},
      {"99999999999999999999s", "is too large"},
  };
  for (const auto& [text, want] : cases) {
    const std::string message = ErrorOf(ParseDuration(text).status());
    EXPECT_THAT(message, HasSubstr(want)) << text;
    EXPECT_THAT(message, HasSubstr("\"" + text + "\"")) << text;
    EXPECT_THAT(message, HasSubstr("; write for example 500ms")) << text;
  }
}

TEST(Percentages, AreReadWithAndWithoutTheirSign) {
  const std::vector<std::pair<std::string, double>> cases = {
      {"40", 40}, {"40%", 40}, {"40 %", 40}, {"0", 0}, {"100", 100}, {"100.0%", 100}, {"7.5", 7.5}};
  for (const auto& [text, want] : cases) {
    const auto got = ParsePercent(text);
    ASSERT_TRUE(got.ok()) << text << ": " << got.status();
    EXPECT_DOUBLE_EQ(got->value, want) << text;
  }
}

TEST(Percentages, ThatAreWrongAreNamedWithTheRange) {
  EXPECT_EQ(ErrorOf(ParsePercent("140").status()),
            "percentage \"140\": is above 100; write for example 40 or 40%, from 0 to 100");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "is empty"},
      {"%", "does not begin with a number"},
      {"-5", "must not be negative"},
      {"nan", "does not begin with a number"},
      {"1e1", "cannot read \"e1\""},
      {"40%%", "cannot read \"%\""},
      {"40 percent", "cannot read \"percent\""},
      {"100.0001", "is above 100"},
      {"99999999999999999999", "is too large"},
  };
  for (const auto& [text, want] : cases) {
    EXPECT_THAT(ErrorOf(ParsePercent(text).status()), HasSubstr(want)) << text;
  }
}

TEST(PrintedSizes, HaveThreePlacesAtMost) {
  const std::vector<std::pair<Bytes, std::string>> cases = {
      {Bytes(0), "0 B"},
      {Bytes(9), "9 B"},
      {Bytes(1023), "1023 B"},
      {Bytes(-1), "-1 B"},
      {KiB(1), "1 KiB"},
      {MiB(512), "512 MiB"},
      {MiB(1000), "1000 MiB"},
      {MiB(1024) - Bytes(1), "1 GiB"},
      {GiB(1) + MiB(512), "1.5 GiB"},
      {-(GiB(1) + MiB(512)), "-1.5 GiB"},
      {GiB(1) + MiB(340), "1.33 GiB"},
      {GiB(13) + MiB(307), "13.3 GiB"},
      {GiB(10) - KiB(1), "10 GiB"},
      {GiB(100) - KiB(1), "100 GiB"},
      {Bytes::Max(), "8 EiB"},
      {Bytes(INT64_MIN), "-8 EiB"},
  };
  for (const auto& [bytes, want] : cases) EXPECT_EQ(FormatBytes(bytes), want) << bytes.count();
}

TEST(PrintedSizes, ReadBackToTheSameWithinTheirPlaces) {
  for (std::int64_t count = 1; count < (std::int64_t{1} << 56); count = count * 5 / 3 + 1) {
    const std::string text = FormatBytes(Bytes(count));
    const auto back = ParseBytes(text);
    ASSERT_TRUE(back.ok()) << text << ": " << back.status();
    EXPECT_NEAR(back->AsDouble(), static_cast<double>(count), static_cast<double>(count) * 0.0051)
        << text;
  }
}

TEST(PrintedSpans, AreWhatAClockWouldShow) {
  const std::vector<std::pair<absl::Duration, std::string>> cases = {
      {absl::ZeroDuration(), "0s"},        {absl::Nanoseconds(1), "0s"},
      {absl::Microseconds(400), "0.4ms"},  {absl::Microseconds(9'940), "9.9ms"},
      {absl::Microseconds(9'960), "10ms"}, {absl::Microseconds(47'300), "47ms"},
      {absl::Milliseconds(50), "50ms"},    {absl::Microseconds(99'990), "0.1s"},
      {absl::Milliseconds(500), "0.5s"},   {absl::Milliseconds(9'970), "10s"},
      {absl::Seconds(42), "42s"},          {absl::Milliseconds(59'990), "59s"},
      {absl::Seconds(60), "1m00s"},        {absl::Seconds(192), "3m12s"},
      {absl::Minutes(125), "2h05m"},       {absl::Hours(24) - absl::Seconds(1), "23h59m"},
      {absl::Hours(28), "1d04h"},          {-absl::Seconds(192), "-3m12s"},
      {absl::InfiniteDuration(), "inf"},   {-absl::InfiniteDuration(), "-inf"},
  };
  for (const auto& [span, want] : cases) EXPECT_EQ(FormatSpan(span), want);
}

TEST(PrintedSpans, ReadBack) {
  for (const std::int64_t seconds : {1, 42, 60, 192, 3600, 7500, 86'400, 100'800}) {
    EXPECT_EQ(*ParseDuration(FormatSpan(absl::Seconds(seconds))), absl::Seconds(seconds));
  }
  EXPECT_EQ(*ParseDuration(FormatSpan(absl::Milliseconds(50))), absl::Milliseconds(50));
}

TEST(PrintedPercentages, NeverReadAsMoreThanThereIs) {
  EXPECT_EQ(FormatPercent(Percent{40}), "40 %");
  EXPECT_EQ(FormatPercent(Percent{7.5}), "7.5 %");
  EXPECT_EQ(FormatPercent(Percent{39.96}), "39.9 %");
  EXPECT_EQ(FormatPercent(Percent{100}), "100 %");
  EXPECT_EQ(FormatPercent(Percent{0}), "0 %");
}

TEST(PrintedPercentages, ReadBack) {
  for (int tenths = 0; tenths <= 1000; ++tenths) {
    const Percent percent{tenths / 10.0};
    EXPECT_DOUBLE_EQ(ParsePercent(FormatPercent(percent))->value, percent.value);
  }
}

}  // namespace
}  // namespace stageload
