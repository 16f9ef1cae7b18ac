// How a job's output is printed.
#include "client/ctl/log_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

namespace stageload::ctl {
namespace {

using ::testing::ElementsAre;

v1::ReadLogsResponse Piece(const std::string& data, std::int64_t time_ms = 0,
                           v1::LogStream stream = v1::LOG_STREAM_STDOUT) {
  v1::ReadLogsResponse piece;
  piece.set_data(data);
  piece.set_time_ns(time_ms * 1'000'000);
  piece.set_stream(stream);
  return piece;
}

// ---- -t ----

TEST(LineTimes, StandBeforeEachLineInTheZoneOfTheReader) {
  LineTimes times(absl::FixedTimeZone(2 * 60 * 60));
  EXPECT_EQ(times.Stamp(Piece("a\n\nb\n", 1'700'000'000'123)),
            "2023-11-15T00:13:20.123+02:00 a\n"
            "2023-11-15T00:13:20.123+02:00 \n"
            "2023-11-15T00:13:20.123+02:00 b\n");
}

TEST(LineTimes, AreThoseAtWhichALineBeganAndEachOutputHasItsOwnLines) {
  LineTimes times(absl::UTCTimeZone());
  EXPECT_EQ(times.Stamp(Piece("half", 1)), "1970-01-01T00:00:00.001+00:00 half");
  EXPECT_EQ(times.Stamp(Piece("error\n", 2, v1::LOG_STREAM_STDERR)),
            "1970-01-01T00:00:00.002+00:00 error\n");
  EXPECT_EQ(times.Stamp(Piece(" and half\nnext", 3)),
            " and half\n1970-01-01T00:00:00.003+00:00 next");
}

// ---- --json ----

std::vector<nlohmann::json> Parse(const std::string& lines) {
  std::vector<nlohmann::json> parsed;
  std::istringstream text(lines);
  for (std::string line; std::getline(text, line);) parsed.push_back(nlohmann::json::parse(line));
  return parsed;
}

TEST(LogJson, TextIsTextAndOtherBytesAreBase64) {
  LogJson json;
  std::string printed = json.Lines(Piece(std::string("caf\xC3\xA9\0\n", 7), 5));
  printed += json.Lines(Piece("\xE9!"));
  const auto lines = Parse(printed);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].at("data"), std::string("caf\xC3\xA9\0\n", 7));
  EXPECT_EQ(lines[0].at("stream"), "STDOUT");
  EXPECT_EQ(lines[0].at("time_ns"), 5'000'000);
  EXPECT_FALSE(lines[0].contains("data_base64"));
  EXPECT_EQ(lines[1].at("data_base64"), "6SE=");
  EXPECT_FALSE(lines[1].contains("data"));
  EXPECT_EQ(json.Rest(), "");
}

TEST(LogJson, ACharacterThatTwoPiecesShareIsNotTornWhateverComesBetween) {
  LogJson json;
  std::string lines;
  for (const auto& piece :
       {Piece("a\xF0\x9F"), Piece("e", 0, v1::LOG_STREAM_STDERR), Piece("\x98"), Piece("\x80z")}) {
    lines += json.Lines(piece);
  }
  std::vector<std::string> data;
  for (const auto& line : Parse(lines)) data.push_back(line.at("data"));
  EXPECT_THAT(data, ElementsAre("a", "e", "\xF0\x9F\x98\x80z"));
}

TEST(LogJson, ACharacterThatNeverComesWholeIsGivenAsBytes) {
  LogJson json;
  EXPECT_EQ(Parse(json.Lines(Piece("a\xC3")))[0].at("data"), "a");
  const auto rest = Parse(json.Rest());
  ASSERT_EQ(rest.size(), 1u);
  EXPECT_EQ(rest[0].at("data_base64"), "ww==");

  EXPECT_EQ(json.Lines(Piece("\xC3")), "");
  v1::ReadLogsResponse after = Piece("\xA9");
  after.set_dropped_bytes(7);
  const auto lines = Parse(json.Lines(after));
  ASSERT_EQ(lines.size(), 2u) << "what was lost stood between the two";
  EXPECT_EQ(lines[0].at("data_base64"), "ww==");
  EXPECT_EQ(lines[1].at("data_base64"), "qQ==");
  EXPECT_EQ(lines[1].at("dropped_bytes"), 7);
}

}  // namespace
}  // namespace stageload::ctl
