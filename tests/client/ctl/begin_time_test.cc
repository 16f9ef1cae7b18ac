// Moments as people write them.
#include "client/ctl/begin_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/civil_time.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const absl::TimeZone kEast = absl::FixedTimeZone(2 * 60 * 60);  // +02:00

absl::Time At(int year, int month, int day, int hour, int minute, int second = 0,
              absl::TimeZone zone = kEast) {
  return absl::FromCivil(absl::CivilSecond(year, month, day, hour, minute, second), zone);
}

// A Tuesday evening, and not on a full second.
absl::Time Now() { return At(2026, 12, 1, 21, 30, 15) + absl::Milliseconds(500); }

absl::Time Read(const std::string& text) {
  const absl::StatusOr<absl::Time> time = ParseBeginTime(text, Now(), kEast);
  EXPECT_TRUE(time.ok()) << text << ": " << time.status();
  return time.value_or(absl::InfinitePast());
}

std::string ErrorOf(const std::string& text) {
  const absl::StatusOr<absl::Time> time = ParseBeginTime(text, Now(), kEast);
  EXPECT_TRUE(absl::IsInvalidArgument(time.status())) << text << ": " << time.status();
  return std::string(time.status().message());
}

TEST(BeginTime, DateAndTimeAreOfTheLocalZone) {
  EXPECT_EQ(Read("2026-12-24T22:00"), At(2026, 12, 24, 22, 0));
  EXPECT_EQ(Read("2026-12-24 22:00"), At(2026, 12, 24, 22, 0));
  EXPECT_EQ(Read("2026-12-24T22:00:30"), At(2026, 12, 24, 22, 0, 30));
  EXPECT_EQ(Read("2026-12-24 22:00:30"), At(2026, 12, 24, 22, 0, 30));
  EXPECT_EQ(Read("2026-12-24"), At(2026, 12, 24, 0, 0));
}

TEST(BeginTime, ZoneThatIsWrittenCounts) {
  EXPECT_EQ(Read("2026-12-24T22:00:00Z"), At(2026, 12, 24, 22, 0, 0, absl::UTCTimeZone()));
  EXPECT_EQ(Read("2026-12-24T22:00-05:00"), At(2026, 12, 25, 3, 0, 0, absl::UTCTimeZone()));
}

TEST(BeginTime, TimeOfDayIsTheNextSuchTime) {
  EXPECT_EQ(Read("22:00"), At(2026, 12, 1, 22, 0));
  EXPECT_EQ(Read("21:00"), At(2026, 12, 2, 21, 0));
  EXPECT_EQ(Read("6:05"), At(2026, 12, 2, 6, 5));
  EXPECT_EQ(Read("21:30:16"), At(2026, 12, 1, 21, 30, 16));
  EXPECT_EQ(Read("21:30:15"), At(2026, 12, 2, 21, 30, 15)) << "half a second ago";
  EXPECT_EQ(Read("00:00"), At(2026, 12, 2, 0, 0));
}

TEST(BeginTime, DistanceCountsFromNow) {
  EXPECT_EQ(Read("now"), Now());
  EXPECT_EQ(Read("+30m"), Now() + absl::Minutes(30));
  EXPECT_EQ(Read("now+30m"), Now() + absl::Minutes(30));
  EXPECT_EQ(Read("+1h30m"), Now() + absl::Minutes(90));
  EXPECT_EQ(Read("+0"), Now());
}

TEST(BeginTime, TimeOverWhichTheClockIsPutForwardIsTheMomentOfThat) {
  absl::TimeZone zone;
  if (!absl::LoadTimeZone("Europe/Berlin", &zone)) GTEST_SKIP() << "no time zone data here";
  const absl::Time evening = At(2026, 3, 28, 22, 0, 0, zone);
  EXPECT_EQ(*ParseBeginTime("02:30", evening, zone), At(2026, 3, 29, 3, 0, 0, zone));
  // The day after is 23 hours away.
  EXPECT_EQ(*ParseBeginTime("21:00", evening, zone), evening + absl::Hours(22));
}

TEST(BeginTime, WhatIsNoneIsNamedWithARightOne) {
  for (const char* wrong :
       {"", " ", "yesterday", "25:00", "22", "22:60", "22:00 ", " 22:00", "2026-02-30T10:00",
        "2026-13-01", "infinite-future", "infinite-past", "tomorrow 22:00", "22:00 2026-12-24",
        "-1h", "now-1h", "nowhere", "1795986664", "2026-12-24T22:00Zulu"}) {
    EXPECT_THAT(ErrorOf(wrong), AllOf(HasSubstr(std::string("time \"") + wrong + "\": is no time"),
                                      HasSubstr("22:00, +30m or 2026-12-01T22:00")));
  }
  EXPECT_THAT(ErrorOf("+3x"), AllOf(HasSubstr("time \"+3x\": "), HasSubstr("unknown unit")));
  EXPECT_THAT(ErrorOf("now+"), HasSubstr("time \"now+\": "));
  EXPECT_THAT(ErrorOf("2026-12-01T21:30"), HasSubstr("has passed"));
  EXPECT_THAT(ErrorOf("2026-12-01"), HasSubstr("has passed"));
}

TEST(BeginTime, MomentThatNanosecondsCannotHoldIsTooFarAway) {
  EXPECT_THAT(ErrorOf("2300-01-01"), HasSubstr("too far away"));
  EXPECT_THAT(ErrorOf("+280y"), HasSubstr("unknown unit"));
  EXPECT_THAT(ErrorOf("+100000d"), HasSubstr("too far away"));
}

}  // namespace
}  // namespace stageload::ctl
