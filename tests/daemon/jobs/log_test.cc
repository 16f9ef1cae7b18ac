// The log keeps the newest within its cap, tells what was lost, and never gives half a record.
#include "daemon/jobs/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "daemon/jobs/durable_file.h"
#include "daemon/jobs/log_format.h"
#include "daemon/jobs/log_writer.h"
#include "tests/daemon/jobs/fixture.h"

namespace stageload::jobs {
namespace {

using ::testing::HasSubstr;

std::string Record(const RecordHeader& header, const std::string& data) {
  std::string record;
  EncodeRecord(header, data, &record);
  return record;
}

class LogTest : public ::testing::Test {
 protected:
  LogReader Reader(LogStream stream = LogStream::kBoth) const {
    return LogReader(folder_.path(), stream);
  }
  static std::optional<LogPiece> Next(LogReader& reader) {
    const absl::StatusOr<std::optional<LogPiece>> piece = reader.Next();
    EXPECT_TRUE(piece.ok()) << piece.status();
    return piece.ok() ? *piece : std::nullopt;
  }
  struct Sum {
    std::string data;
    std::int64_t dropped = 0;
  };
  // All there is by now.
  static Sum ReadAll(LogReader& reader) {
    Sum sum;
    while (const std::optional<LogPiece> piece = Next(reader)) {
      sum.data += piece->data;
      sum.dropped += piece->dropped.count();
    }
    return sum;
  }
  std::uintmax_t SizeOnDisk() const {
    std::uintmax_t size = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
      size += entry.file_size();
    }
    return size;
  }
  std::string Segment(int number) const {
    return folder_.path() + "/log." + std::to_string(number);
  }

  const absl::Time time_ = absl::FromUnixNanos(1'700'000'000'000'000'123);
  TemporaryFolder folder_;
  Descriptor descriptor_ = *OpenFolder(folder_.path());
};

TEST_F(LogTest, PiecesComeBackWithStreamDataAndTime) {
  LogWriter writer(descriptor_.get());
  writer.Append(LogStream::kStdout, "out\n", time_);
  writer.Append(LogStream::kStderr, std::string("e\0\xff", 3), time_ + absl::Nanoseconds(1));
  LogReader reader = Reader();
  const std::optional<LogPiece> first = Next(reader);
  EXPECT_EQ(first->stream, LogStream::kStdout);
  EXPECT_EQ(first->data, "out\n");
  EXPECT_EQ(first->time, time_);
  EXPECT_EQ(first->dropped, Bytes(0));
  const std::optional<LogPiece> second = Next(reader);
  EXPECT_EQ(second->stream, LogStream::kStderr);
  EXPECT_EQ(second->data, std::string("e\0\xff", 3));
  EXPECT_EQ(second->time, time_ + absl::Nanoseconds(1));
  EXPECT_FALSE(Next(reader).has_value());
}

TEST_F(LogTest, AReaderMayComeBeforeTheLogAndBeforeItsFolder) {
  LogReader nowhere(folder_.path() + "/later", LogStream::kBoth);
  EXPECT_FALSE(Next(nowhere).has_value());
  LogReader reader = Reader();
  EXPECT_FALSE(Next(reader).has_value());
  LogWriter writer(descriptor_.get());
  writer.Append(LogStream::kStdout, "a", time_);
  EXPECT_EQ(ReadAll(reader).data, "a");
  writer.Append(LogStream::kStdout, "b", time_);
  EXPECT_EQ(ReadAll(reader).data, "b");
}

TEST_F(LogTest, AReaderOfOneStreamSeesTheOtherNeitherAsDataNorAsLoss) {
  LogWriter writer(descriptor_.get());
  for (int i = 0; i < 3; ++i) {
    writer.Append(LogStream::kStdout, "o", time_);
    writer.Append(LogStream::kStderr, "ee", time_);
  }
  LogReader out = Reader(LogStream::kStdout);
  LogReader err = Reader(LogStream::kStderr);
  const Sum from_out = ReadAll(out);
  const Sum from_err = ReadAll(err);
  EXPECT_EQ(from_out.data, "ooo");
  EXPECT_EQ(from_out.dropped, 0);
  EXPECT_EQ(from_err.data, "eeeeee");
  EXPECT_EQ(from_err.dropped, 0);
}

TEST_F(LogTest, APieceIsNoLongerThan64KiB) {
  LogWriter writer(descriptor_.get());
  std::string data(200'000, 'x');
  data.back() = 'y';
  writer.Append(LogStream::kStdout, data, time_);
  LogReader reader = Reader();
  std::string read;
  while (const std::optional<LogPiece> piece = Next(reader)) {
    EXPECT_LE(piece->data.size(), 64u * 1024);
    read += piece->data;
  }
  EXPECT_EQ(read, data);
}

TEST_F(LogTest, AHundredMegabytesStayWithinACapOfOneMebibyteAndTheNewestIsKept) {
  LogWriter writer(descriptor_.get(), MiB(1));
  const std::string block(50'000, 'x');
  for (int i = 0; i < 2000; ++i) {
    writer.Append(LogStream::kStdout, block, time_);
    if (i % 50 == 0) {
      EXPECT_LE(SizeOnDisk(), 1024u * 1024);
    }
  }
  writer.Append(LogStream::kStdout, "the end", time_);
  EXPECT_LE(SizeOnDisk(), 1024u * 1024);
  EXPECT_EQ(writer.dropped(), Bytes(0));  // all of it was written once
  LogReader reader = Reader();
  const Sum sum = ReadAll(reader);
  EXPECT_GT(sum.data.size(), 512u * 1024);
  EXPECT_EQ(sum.data.substr(sum.data.size() - 7), "the end");
  EXPECT_EQ(static_cast<std::int64_t>(sum.data.size()) + sum.dropped, 100'000'007);
}

TEST_F(LogTest, AReaderThatFollowsSeesEveryByteAcrossRotation) {
  LogWriter writer(descriptor_.get(), MiB(1));
  LogReader reader = Reader();
  std::size_t read = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::string line = "line " + std::to_string(i) + std::string(9000, '.') + "\n";
    writer.Append(i % 2 == 0 ? LogStream::kStdout : LogStream::kStderr, line, time_);
    const Sum sum = ReadAll(reader);
    ASSERT_EQ(sum.data, line);
    ASSERT_EQ(sum.dropped, 0);
    read += sum.data.size();
  }
  EXPECT_GT(read, 8u * 1024 * 1024);
  EXPECT_FALSE(std::filesystem::exists(Segment(0)));
}

TEST_F(LogTest, AReaderThatIsOvertakenIsToldHowMuchItMissed) {
  LogWriter writer(descriptor_.get(), MiB(1));
  LogReader both = Reader();
  LogReader err = Reader(LogStream::kStderr);
  writer.Append(LogStream::kStdout, "start", time_);
  EXPECT_EQ(ReadAll(both).data, "start");
  for (int i = 0; i < 100; ++i) {
    writer.Append(LogStream::kStdout, std::string(40'000, 'o'), time_);
    writer.Append(LogStream::kStderr, std::string(10'000, 'e'), time_);
  }
  const Sum sum = ReadAll(both);
  EXPECT_GT(sum.dropped, 0);
  EXPECT_EQ(static_cast<std::int64_t>(sum.data.size()) + sum.dropped, 5'000'000);
  const Sum of_err = ReadAll(err);
  EXPECT_GT(of_err.dropped, 0);
  EXPECT_EQ(of_err.data.find('o'), std::string::npos);
  EXPECT_EQ(static_cast<std::int64_t>(of_err.data.size()) + of_err.dropped, 1'000'000);
}

TEST_F(LogTest, ARecordThatIsCutAtTheEndIsWaitedFor) {
  const std::string record = Record({.length = 5}, "whole");
  LogReader reader = Reader();
  for (std::size_t size = 0; size < record.size(); ++size) {
    WriteFile(Segment(0), record.substr(0, size));
    ASSERT_FALSE(Next(reader).has_value()) << size;
  }
  WriteFile(Segment(0), record);
  EXPECT_EQ(Next(reader)->data, "whole");
}

TEST_F(LogTest, ARecordThatIsCutBeforeALaterSegmentIsPassedOver) {
  const std::string record = Record({.length = 5}, "first");
  const std::string cut = Record({.length = 4, .stdout_before = 5}, "lost");
  WriteFile(Segment(0), record + cut.substr(0, cut.size() - 1));
  WriteFile(Segment(1), Record({.length = 4, .stdout_before = 9}, "next"));
  LogReader reader = Reader();
  EXPECT_EQ(Next(reader)->data, "first");
  const std::optional<LogPiece> piece = Next(reader);
  EXPECT_EQ(piece->data, "next");
  EXPECT_EQ(piece->dropped, Bytes(4));
}

TEST_F(LogTest, DamageIsAnErrorWithFileAndOffsetAndStaysOne) {
  const std::string good = Record({.length = 4}, "good");
  for (const std::size_t at : {std::size_t{0}, std::size_t{5}, std::size_t{20}, std::size_t{42}}) {
    std::string bad = Record({.length = 3, .stdout_before = 4}, "bad");
    bad[at] = static_cast<char>(bad[at] ^ 1);
    WriteFile(Segment(0), good + bad + std::string(70'000, 'x'));
    LogReader reader = Reader();
    EXPECT_EQ(Next(reader)->data, "good");
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = reader.Next().status();
      EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("log.0 is damaged at byte 44"));
    }
  }
}

TEST_F(LogTest, WhatCouldNotBeWrittenIsCountedAndToldByTheNextRecord) {
  bool full = false;
  LogWriter writer(descriptor_.get(), MiB(1), [&](int file, const void* data, std::size_t size) {
    if (!full) return ::write(file, data, size);
    errno = ENOSPC;
    return ssize_t{-1};
  });
  writer.Append(LogStream::kStdout, "before", time_);
  full = true;
  writer.Append(LogStream::kStdout, "12345", time_);
  writer.Append(LogStream::kStderr, "123", time_);
  EXPECT_EQ(writer.dropped(), Bytes(8));
  full = false;
  writer.Append(LogStream::kStdout, "after", time_);

  LogReader reader = Reader();
  EXPECT_EQ(Next(reader)->data, "before");
  const std::optional<LogPiece> piece = Next(reader);
  EXPECT_EQ(piece->data, "after");
  EXPECT_EQ(piece->dropped, Bytes(8));
  LogReader err = Reader(LogStream::kStderr);
  const std::optional<LogPiece> loss = Next(err);
  EXPECT_EQ(loss->data, "");
  EXPECT_EQ(loss->stream, LogStream::kStderr);
  EXPECT_EQ(loss->dropped, Bytes(3));
}

TEST_F(LogTest, ALossAtTheEndIsToldByFinish) {
  bool full = true;
  LogWriter writer(descriptor_.get(), MiB(1), [&](int file, const void* data, std::size_t size) {
    if (!full) return ::write(file, data, size);
    errno = ENOSPC;
    return ssize_t{-1};
  });
  writer.Append(LogStream::kStdout, "lost", time_);
  writer.Finish(time_);
  full = false;
  writer.Finish(time_);
  LogReader reader = Reader();
  const std::optional<LogPiece> piece = Next(reader);
  ASSERT_TRUE(piece.has_value());
  EXPECT_EQ(piece->data, "");
  EXPECT_EQ(piece->dropped, Bytes(4));
}

TEST_F(LogTest, AWriteThatEndsInTheMiddleOfARecordIsTakenBack) {
  // The disk has room for some bytes of each third record, then for none.
  int calls = 0;
  bool failing = false;
  LogWriter writer(descriptor_.get(), MiB(1), [&](int file, const void* data, std::size_t size) {
    if (failing || ++calls % 3 != 0) {
      if (!failing) return ::write(file, data, size);
      failing = false;
      errno = ENOSPC;
      return ssize_t{-1};
    }
    failing = true;
    return ::write(file, data, size / 2);
  });
  LogReader reader = Reader();
  std::string expected;
  std::int64_t lost = 0;
  Sum sum;
  for (int i = 0; i < 300; ++i) {
    const std::string line = "line " + std::to_string(i) + "\n";
    const Bytes before = writer.dropped();
    writer.Append(LogStream::kStdout, line, time_);
    if (writer.dropped() == before) {
      expected += line;
    } else {
      lost += static_cast<std::int64_t>(line.size());
    }
    if (i % 7 == 0) {
      const Sum now = ReadAll(reader);
      sum.data += now.data;
      sum.dropped += now.dropped;
    }
  }
  writer.Finish(time_);
  const Sum rest = ReadAll(reader);
  EXPECT_GT(lost, 0);
  EXPECT_EQ(sum.data + rest.data, expected);
  EXPECT_EQ(sum.dropped + rest.dropped, lost);
}

TEST_F(LogTest, ASegmentThatCannotBeMadeDropsOutputAndNothingElse) {
  std::filesystem::create_directory(Segment(0));
  LogWriter writer(descriptor_.get());
  writer.Append(LogStream::kStdout, "lost", time_);
  EXPECT_EQ(writer.dropped(), Bytes(4));
  writer.Append(LogStream::kStdout, "kept", time_);
  EXPECT_EQ(writer.dropped(), Bytes(4));
}

// ---- The last lines ----

class LogTailTest : public LogTest {
 protected:
  LogWriter Writer() const { return LogWriter(descriptor_.get(), MiB(1)); }
  void Out(LogWriter& writer, const std::string& data) const {
    writer.Append(LogStream::kStdout, data, time_);
  }
  void Err(LogWriter& writer, const std::string& data) const {
    writer.Append(LogStream::kStderr, data, time_);
  }
  LogReader Tail(std::int64_t lines, LogStream stream = LogStream::kBoth) const {
    return LogReader(folder_.path(), stream, lines);
  }
  std::string Last(std::int64_t lines, LogStream stream = LogStream::kBoth) const {
    LogReader reader = Tail(lines, stream);
    const Sum sum = ReadAll(reader);
    EXPECT_EQ(sum.dropped, 0);
    return sum.data;
  }
};

TEST_F(LogTailTest, TheLastLinesOfOneOutputAreItsOwn) {
  LogWriter writer = Writer();
  Out(writer, "o1\no2\n");
  Err(writer, "e1\n");
  Out(writer, "o3\n");
  Err(writer, "e2\n");
  EXPECT_EQ(Last(2, LogStream::kStdout), "o2\no3\n");
  EXPECT_EQ(Last(1, LogStream::kStderr), "e2\n");
  EXPECT_EQ(Last(9, LogStream::kStderr), "e1\ne2\n");
  EXPECT_EQ(Last(0, LogStream::kStdout), "");
}

TEST_F(LogTailTest, TheLastLinesOfBothAreThoseThatEndLast) {
  LogWriter writer = Writer();
  Out(writer, "o1\n");
  Err(writer, "e1\ne2\n");
  Out(writer, "o2\n");
  EXPECT_EQ(Last(1), "o2\n");
  EXPECT_EQ(Last(2), "e2\no2\n");
  EXPECT_EQ(Last(3), "e1\ne2\no2\n");
  EXPECT_EQ(Last(4), "o1\ne1\ne2\no2\n");
  EXPECT_EQ(Last(5), "o1\ne1\ne2\no2\n");
}

TEST_F(LogTailTest, ALineIsGivenFromItsBeginAlsoWhenTheOtherOutputCameBetween) {
  LogWriter writer = Writer();
  Out(writer, "x\nbegin ");
  Err(writer, "e1\n");
  Out(writer, "end\n");
  EXPECT_EQ(Last(1), "begin end\n");
  EXPECT_EQ(Last(2), "begin e1\nend\n");
}

TEST_F(LogTailTest, WhatHasNoNewlineYetIsALineAndCountsWhereItStands) {
  LogWriter writer = Writer();
  Out(writer, "o1\nprogress 1 %");
  EXPECT_EQ(Last(1), "progress 1 %");
  EXPECT_EQ(Last(2), "o1\nprogress 1 %");
  Err(writer, "e1\ne2\n");
  EXPECT_EQ(Last(2), "e1\ne2\n");
  EXPECT_EQ(Last(3), "progress 1 %e1\ne2\n");
}

TEST_F(LogTailTest, WhatComesAfterTheLookIsAllRead) {
  LogWriter writer = Writer();
  Out(writer, "o1\nhalf");
  Err(writer, "e1\n");
  LogReader one = Tail(1);
  LogReader none = Tail(0);
  EXPECT_EQ(ReadAll(one).data, "e1\n");
  EXPECT_EQ(ReadAll(none).data, "");
  Out(writer, " and half\n");
  Err(writer, "e2\n");
  EXPECT_EQ(ReadAll(one).data, " and half\ne2\n");
  EXPECT_EQ(ReadAll(none).data, " and half\ne2\n");
}

TEST_F(LogTailTest, AnEmptyLogIsReadFromItsBeginOnceItIsThere) {
  LogReader reader = Tail(3);
  EXPECT_EQ(ReadAll(reader).data, "");
  LogWriter writer = Writer();
  Out(writer, "1\n2\n3\n4\n");
  EXPECT_EQ(ReadAll(reader).data, "1\n2\n3\n4\n");
}

TEST_F(LogTailTest, WhatIsLeftOutIsToldApartFromWhatIsLost) {
  LogWriter writer = Writer();
  Out(writer, "o1\n");
  Err(writer, "e1\n");
  Out(writer, "o2\n");
  LogReader both = Tail(1);
  std::optional<LogPiece> piece = Next(both);
  EXPECT_EQ(piece->skipped, Bytes(6));
  EXPECT_EQ(piece->dropped, Bytes(0));
  LogReader out = Tail(1, LogStream::kStdout);
  piece = Next(out);
  EXPECT_EQ(piece->skipped, Bytes(3));
  EXPECT_EQ(piece->dropped, Bytes(0));
}

// The reader against one that holds the whole log in memory.
TEST_F(LogTailTest, AnyNumberOfLinesIsFoundAcrossSegmentsAndRotation) {
  LogWriter writer = Writer();
  std::vector<std::pair<std::size_t, std::string>> lines;  // by their end; output, text
  std::uint64_t random = 1;
  const auto next = [&random] { return (random = random * 6364136223846793005 + 1) >> 33; };
  std::array<std::string, 2> open;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t output = next() % 4 == 0 ? 1 : 0;
    std::string data(next() % 2000, static_cast<char>('a' + i % 26));
    if (next() % 3 > 0) data += "\n";
    if (data.empty()) continue;
    output == 0 ? Out(writer, data) : Err(writer, data);
    open[output] += data;
    if (data.back() == '\n') lines.emplace_back(output, std::exchange(open[output], ""));
  }
  ASSERT_FALSE(std::filesystem::exists(Segment(0))) << "it has rotated";
  Out(writer, "\n");
  lines.emplace_back(0, open[0] + "\n");
  Err(writer, "\n");
  lines.emplace_back(1, open[1] + "\n");

  for (const std::size_t count : {1, 2, 3, 5, 10, 50, 100, 200, 300, 400, 500}) {
    std::array<std::string, 2> expected;
    for (std::size_t i = lines.size() - count; i < lines.size(); ++i) {
      expected[lines[i].first] += lines[i].second;
    }
    LogReader reader = Tail(static_cast<std::int64_t>(count));
    std::array<std::string, 2> read;
    while (const std::optional<LogPiece> piece = Next(reader)) {
      EXPECT_EQ(piece->dropped, Bytes(0)) << count;
      read[piece->stream == LogStream::kStderr ? 1 : 0] += piece->data;
    }
    EXPECT_TRUE(read == expected) << count << " lines: " << read[0].size() << " and "
                                  << read[1].size() << " bytes instead of " << expected[0].size()
                                  << " and " << expected[1].size();
  }
}

TEST_F(LogTailTest, ALineWhoseBeginWasDroppedSaysHowMuchOfItIsMissing) {
  LogWriter writer = Writer();
  Out(writer, std::string(3'000'000, 'x'));
  LogReader reader = Tail(1, LogStream::kStdout);
  const Sum sum = ReadAll(reader);
  EXPECT_GT(sum.dropped, 1'900'000);
  EXPECT_EQ(sum.dropped + static_cast<std::int64_t>(sum.data.size()), 3'000'000);
}

}  // namespace
}  // namespace stageload::jobs
