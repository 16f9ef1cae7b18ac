// What a recording may look like after a crash, and what is no recording at all.
#include "base/trace.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/fixture.h"

namespace stageload {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

class TraceFile : public testing::Test {
 protected:
  std::string Write(const std::string& bytes) {
    std::string path = folder_.path() + "/run.jsonl";
    std::ofstream(path, std::ios::binary) << bytes;
    return path;
  }
  Trace Read(const std::string& bytes) {
    absl::StatusOr<Trace> trace = ReadTrace(Write(bytes));
    if (trace.ok()) return *std::move(trace);
    ADD_FAILURE() << trace.status();
    return {};
  }
  // The message without the folder; empty when it could be read.
  std::string Error(const std::string& bytes) {
    std::string message(ReadTrace(Write(bytes)).status().message());
    const std::size_t at = message.find(folder_.path() + "/");
    if (at != std::string::npos) message.erase(at, folder_.path().size() + 1);
    return message;
  }

  TemporaryFolder folder_;
};

std::vector<double> Times(const Trace& trace) {
  std::vector<double> times;
  for (const TraceSample& sample : trace.samples) times.push_back(sample.t);
  return times;
}

const std::string kStart = R"({"type":"start","utc":"2026-01-02T03:04:05+00:00","interval":0.5})"
                           "\n";
const std::string kFirst = R"({"type":"sample","t":0.5,"footprint":10,"swap_used":20,"level":80})"
                           "\n";
const std::string kSecond = R"({"type":"sample","t":1.0,"footprint":11,"swap_used":21,"level":79})"
                            "\n";
const std::string kEnd = R"({"type":"end"})"
                         "\n";

TEST_F(TraceFile, IsReadWithEveryFieldAndTheFieldsThatAreNotKnown) {
  const Trace trace = Read(
      R"({"type":"start","utc":"2026-01-02T03:04:05+00:00","interval":0.25,"mode":"eager","steps":20})"
      "\n"
      R"({"type":"sample","t":0.001,"footprint":1048576,"swap_used":9007199254740993,"level":92,"x":[1]})"
      "\n"
      R"({"type":"event","kind":"load","stage":"encode","name":"w","nbytes":7,"seconds":1.5,"note":"n","t":0.002,"y":null})"
      "\n"
      R"({"type":"error","t":0.003,"error":"read failed"})"
      "\n"
      R"({"type":"note","text":"x"})"
      "\n" +
      kEnd);
  ASSERT_TRUE(trace.start);
  EXPECT_EQ(trace.start->utc, "2026-01-02T03:04:05+00:00");
  EXPECT_EQ(trace.start->interval_seconds, 0.25);
  EXPECT_EQ(trace.start->rest, R"({"mode":"eager","steps":20})");
  ASSERT_EQ(trace.samples.size(), 1U);
  EXPECT_EQ(trace.samples[0].t, 0.001);
  EXPECT_EQ(trace.samples[0].footprint, MiB(1));
  EXPECT_EQ(trace.samples[0].swap_used, Bytes(9007199254740993));  // no double holds it
  EXPECT_EQ(trace.samples[0].level, Percent{92});
  EXPECT_EQ(trace.samples[0].rest, R"({"x":[1]})");
  ASSERT_EQ(trace.events.size(), 1U);
  const TraceEvent& event = trace.events[0];
  EXPECT_EQ(event.kind, "load");
  EXPECT_EQ(event.stage, "encode");
  EXPECT_EQ(event.name, "w");
  EXPECT_EQ(event.nbytes, Bytes(7));
  EXPECT_EQ(event.seconds, 1.5);
  EXPECT_EQ(event.note, "n");
  EXPECT_EQ(event.t, 0.002);
  EXPECT_EQ(event.rest, R"({"y":null})");
  ASSERT_EQ(trace.errors.size(), 1U);
  EXPECT_EQ(trace.errors[0].t, 0.003);
  EXPECT_EQ(trace.errors[0].error, "read failed");
  EXPECT_THAT(trace.others, ElementsAre(R"({"type":"note","text":"x"})"));
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.notes, IsEmpty());
}

TEST_F(TraceFile, HasNoValueWhereAFieldIsMissingOrNull) {
  const Trace trace = Read(R"({"type":"sample","t":1})"
                           "\n"
                           R"({"type":"sample","t":2,"footprint":null,"swap_used":3,"level":null})"
                           "\n");
  ASSERT_EQ(trace.samples.size(), 2U);
  EXPECT_EQ(trace.samples[0].footprint, std::nullopt);
  EXPECT_EQ(trace.samples[0].swap_used, std::nullopt);
  EXPECT_EQ(trace.samples[0].level, std::nullopt);
  EXPECT_EQ(trace.samples[1].footprint, std::nullopt);
  EXPECT_EQ(trace.samples[1].swap_used, Bytes(3));
  EXPECT_EQ(trace.samples[1].level, std::nullopt);
  EXPECT_FALSE(trace.start);
}

TEST_F(TraceFile, MayHaveItsLinesInAnyOrder) {
  const Trace trace = Read(kEnd + kSecond +
                           R"({"type":"event","kind":"mark","t":9})"
                           "\n" +
                           kFirst +
                           R"({"type":"event","kind":"stage","t":-0.1})"
                           "\n" +
                           kStart);
  EXPECT_THAT(Times(trace), ElementsAre(0.5, 1.0));
  EXPECT_EQ(trace.samples[0].swap_used, Bytes(20));
  ASSERT_EQ(trace.events.size(), 2U);
  EXPECT_EQ(trace.events[0].kind, "stage");
  EXPECT_TRUE(trace.start);
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.notes, ElementsAre("the time goes back after t = 1.0: lines out of order, or "
                                       "several recordings?"));
}

TEST_F(TraceFile, NotesWhatLooksLikeSeveralRecordings) {
  const std::string run = kFirst + kSecond + kEnd;
  EXPECT_THAT(Read(run + run + run).notes,
              ElementsAre("there is a second \"end\": are these several recordings?",
                          "the time goes back 2 times, first after t = 1.0: lines out of order, or "
                          "several recordings?"));
}

TEST_F(TraceFile, KeepsTheOrderOfSamplesOfOneTime) {
  const Trace trace = Read(kSecond +
                           R"({"type":"sample","t":1.0,"swap_used":1})"
                           "\n" +
                           R"({"type":"sample","t":1.0,"swap_used":2})"
                           "\n" +
                           kFirst);
  EXPECT_THAT(Times(trace), ElementsAre(0.5, 1.0, 1.0, 1.0));
  EXPECT_EQ(trace.samples[2].swap_used, Bytes(1));
  EXPECT_EQ(trace.samples[3].swap_used, Bytes(2));
}

TEST_F(TraceFile, WithoutAnEndIsReadAndSaysSo) {
  const Trace trace = Read(kStart + kFirst + kSecond);
  EXPECT_EQ(trace.samples.size(), 2U);
  EXPECT_THAT(trace.notes, ElementsAre("the trace ends without \"end\""));
}

TEST_F(TraceFile, MayBeCutAnywhereInItsLastLine) {
  const std::string last =
      R"({"type":"sample","t":1.5,"note":"a \" ü }","footprint":12,"swap_used":22,"level":78})";
  const std::string before = kStart + kFirst + kSecond;
  for (std::size_t length = 1; length < last.size(); ++length) {
    for (const char* after : {"", "\n"}) {
      const Trace trace = Read(absl::StrCat(before, last.substr(0, length), after));
      EXPECT_THAT(Times(trace), ElementsAre(0.5, 1.0)) << length;
      EXPECT_THAT(trace.notes,
                  ElementsAre("line 4 is cut: left out", "the trace ends without \"end\""));
    }
  }
  EXPECT_THAT(Times(Read(kStart + kFirst + last)), ElementsAre(0.5, 1.5))
      << "only the newline was cut off";
}

TEST_F(TraceFile, MayEndInZerosThatACrashLeft) {
  const std::string zeros(4096, '\0');
  EXPECT_THAT(Times(Read(kFirst + zeros)), ElementsAre(0.5));
  EXPECT_THAT(Times(Read(kFirst + R"({"type":"sam)" + zeros)), ElementsAre(0.5));
}

TEST_F(TraceFile, MayHaveBlankLinesAndWindowsLineEnds) {
  const Trace trace = Read("\n" + kStart + "  \t \r\n" +
                           R"({"type":"sample","t":0.5,"footprint":10,"swap_used":20,"level":80})"
                           "\r\n\r\n" +
                           kEnd + "\n\n");
  EXPECT_THAT(Times(trace), ElementsAre(0.5));
  EXPECT_THAT(trace.notes, IsEmpty());
  EXPECT_THAT(Error(kFirst + "\n\nwhat\n" + kSecond), StartsWith("run.jsonl:4: "))
      << "blank lines count";
}

TEST_F(TraceFile, SaysWhereItHasALongGap) {
  const auto notes = [&](const std::vector<std::string>& times) {
    std::string bytes = kStart + kEnd;  // an interval of 0.5 s
    for (const std::string& t : times) {
      bytes +=
          "{\"type\":\"sample\",\"t\":" + t + R"(,"footprint":1,"swap_used":1,"level":1})" + "\n";
    }
    return Read(bytes).notes;
  };
  EXPECT_THAT(notes({"0.0", "2.0", "4.0"}), IsEmpty());
  EXPECT_THAT(notes({"0.0", "20.5", "69.5"}),
              ElementsAre("2 gaps between samples, one of 49s after t = 20.5"));
  EXPECT_THAT(notes({"0.0", "5.4"}), ElementsAre("no sample for 5.4s after t = 0.0"));
}

TEST_F(TraceFile, SaysWhichValuesAreMissing) {
  const Trace trace = Read(kFirst +
                           R"({"type":"sample","t":1,"footprint":1,"level":2})"
                           "\n" +
                           kEnd);
  EXPECT_THAT(trace.notes, ElementsAre("1 of 2 samples have no \"swap_used\""));
}

TEST_F(TraceFile, ThatIsNoTraceIsRefusedWithTheReason) {
  EXPECT_EQ(Error(""), "run.jsonl: the file is empty");
  EXPECT_EQ(Error("\n\n"), "run.jsonl: no sample in 2 lines");
  EXPECT_EQ(Error(kStart + kEnd), "run.jsonl: no sample in 2 lines");
  EXPECT_EQ(Error(kStart.substr(0, 20)), "run.jsonl: no sample in 1 line; line 1 is cut: left out");
  EXPECT_EQ(Error(std::string("\x1f\x8b\x08\x00\x01\x02 {", 8)),
            "run.jsonl:1: binary data, not a trace");
  EXPECT_EQ(Error("\x89PNG\r\n\x1a\n"), "run.jsonl:1: binary data, not a trace");
  EXPECT_THAT(Error("Größe: 5\n"), StartsWith("run.jsonl:1: no JSON"));
  EXPECT_EQ(Error(std::string(5000, '\0')), "run.jsonl:1: binary data, not a trace");
  EXPECT_EQ(Error(std::string(3 << 20, '\x01')), "run.jsonl:1: binary data, not a trace");
  EXPECT_EQ(Error("# Recorded runs\n\nOn a real machine.\n"),
            "run.jsonl:1: no JSON: a trace has one JSON object a line");
  EXPECT_EQ(Error("{\"foo\":1}\n"), "run.jsonl:1: there is no \"type\"");
  EXPECT_EQ(Error("{\"type\":5}\n"), "run.jsonl:1: \"type\" is 5: not text");
  EXPECT_EQ(Error("[1,2]\n"), "run.jsonl:1: [1,2] is no JSON object");
}

TEST_F(TraceFile, WithALineInTheMiddleThatIsNoJsonIsRefusedWithItsNumber) {
  EXPECT_EQ(Error(kStart + kFirst + "{\"type\":\"sam\n" + kSecond),
            "run.jsonl:3: no JSON: a trace has one JSON object a line");
  EXPECT_EQ(Error(kStart + kFirst + std::string("\0\0", 2) + "\n" + kSecond),
            "run.jsonl:3: binary data, not a trace");
  EXPECT_EQ(Error(kStart + kFirst + "rubbish"),
            "run.jsonl:3: no JSON: a trace has one JSON object a line")
      << "nothing that was cut begins like that";
}

TEST_F(TraceFile, WithAValueThatCannotBeIsRefusedWithTheValue) {
  const auto with = [&](const std::string& fields) {
    return Error(kFirst + "{\"type\":\"sample\"," + fields + "}\n" + kEnd);
  };
  EXPECT_EQ(with(R"("level":5)"), "run.jsonl:2: there is no \"t\"");
  EXPECT_EQ(with(R"("t":null)"), "run.jsonl:2: there is no \"t\"");
  EXPECT_EQ(with(R"("t":"NaN")"), "run.jsonl:2: \"t\" is \"NaN\": not a number");
  EXPECT_EQ(with(R"("t":NaN)"), "run.jsonl:2: no JSON: NaN and Infinity are no JSON numbers");
  EXPECT_EQ(with(R"("t":-1)"), "run.jsonl:2: \"t\" is -1: not from 0 to 1e+10");
  EXPECT_THAT(with(R"("t":1e300)"), StartsWith("run.jsonl:2: \"t\" is 1e+300: not from 0"));
  EXPECT_EQ(with(R"("t":1,"level":-3)"), "run.jsonl:2: \"level\" is -3: not from 0 to 100");
  EXPECT_EQ(with(R"("t":1,"level":101)"), "run.jsonl:2: \"level\" is 101: not from 0 to 100");
  EXPECT_EQ(with(R"("t":1,"level":true)"), "run.jsonl:2: \"level\" is true: not a number");
  EXPECT_EQ(with(R"("t":1,"swap_used":-5)"), "run.jsonl:2: \"swap_used\" is -5: negative");
  EXPECT_EQ(with(R"("t":1,"swap_used":18446744073709551615)"),
            "run.jsonl:2: \"swap_used\" is 18446744073709551615: more than any machine has");
  EXPECT_EQ(with(R"("t":1,"swap_used":1152921504606846977)"),
            "run.jsonl:2: \"swap_used\" is 1152921504606846977: more than any machine has")
      << "one above 2^60, which a double cannot tell from it";
  EXPECT_THAT(
      with(R"("t":1,"footprint":99999999999999999999)"),
      AllOf(StartsWith("run.jsonl:2: \"footprint\" is "), EndsWith("more than any machine has")));
  EXPECT_THAT(with(R"("t":1,"footprint":1.5)"), HasSubstr("not a whole number of bytes"));
  EXPECT_THAT(with(R"("t":1,"footprint":)" + std::string(400, '9')), StartsWith("run.jsonl:2: "));
  EXPECT_EQ(Error(kFirst + R"({"type":"sample","t":NaN})"),
            "run.jsonl:2: no JSON: NaN and Infinity are no JSON numbers")
      << "a last line that is whole was not cut";
  EXPECT_EQ(Error(kFirst + R"({"type":"event","t":1})"
                           "\n"),
            "run.jsonl:2: there is no \"kind\"");
}

TEST_F(TraceFile, TakesSizesThatAreWrittenAsFractionsOfNothing) {
  EXPECT_EQ(Read(R"({"type":"sample","t":1,"swap_used":8.0e9})"
                 "\n")
                .samples[0]
                .swap_used,
            Bytes(8'000'000'000));
}

TEST_F(TraceFile, WithALineThatIsTooLongOrTooDeepIsRefused) {
  const std::string note(1 << 20, 'x');
  EXPECT_EQ(Error(kFirst + R"({"type":"note","text":")" + note + "\"}\n" + kSecond),
            "run.jsonl:2: longer than 1 MiB");
  const std::string deep =
      R"({"type":"note","x":)" + std::string(500'000, '[') + std::string(500'000, ']') + "}\n";
  EXPECT_EQ(Error(kFirst + deep + kSecond), "run.jsonl:2: nested deeper than 100");
  const std::string fits(500'000, 'x');
  EXPECT_EQ(Read(kFirst + R"({"type":"note","text":")" + fits + "\"}\n").others.size(), 1U);
}

TEST_F(TraceFile, WithTwoRecordingsIsRefusedSinceTheirTimesWouldMix) {
  EXPECT_THAT(Error(kStart + kFirst + kEnd + kStart + kFirst),
              AllOf(StartsWith("run.jsonl:4: a second \"start\""), HasSubstr("split it")));
}

TEST_F(TraceFile, ThatCannotBeReadSaysWhyAndWhich) {
  const std::string none = folder_.path() + "/none";
  EXPECT_TRUE(absl::IsNotFound(ReadTrace(none).status())) << ReadTrace(none).status();
  EXPECT_THAT(std::string(ReadTrace(none).status().message()), HasSubstr(none));
  const absl::Status folder = ReadTrace(folder_.path()).status();
  EXPECT_THAT(std::string(folder.message()),
              AllOf(HasSubstr(folder_.path()), HasSubstr("Is a directory")));
}

TEST_F(TraceFile, ThatMayNotBeReadSaysSo) {
  const std::string path = Write(kFirst);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  // Root may read every file, so for this one it is nobody.
  constexpr uid_t kNobody = 65534;
  const uid_t user = geteuid();
  if (user == 0) {
    ASSERT_EQ(seteuid(kNobody), 0);
  }
  const absl::Status status = ReadTrace(path).status();
  if (user == 0) {
    ASSERT_EQ(seteuid(user), 0);
  }
  EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
}

TEST_F(TraceFile, MayBeAPipe) {
  const std::string path = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  std::thread writer([&] { std::ofstream(path) << kStart << kFirst << kSecond << kEnd; });
  const absl::StatusOr<Trace> trace = ReadTrace(path);
  writer.join();
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->samples.size(), 2U);
}

}  // namespace
}  // namespace stageload
