// What is written is read back, also after a kill, a full disk and a name that is no text.
#include "base/trace_writer.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tests/file_size_limit.h"
#include "tests/fixture.h"

namespace stageload {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

std::string Contents(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TraceSample Sample(double t, std::int64_t footprint) {
  TraceSample sample;
  sample.t = t;
  sample.footprint = Bytes(footprint);
  sample.swap_used = Bytes(20);
  sample.level = Percent{80};
  return sample;
}

class Writer : public testing::Test {
 protected:
  TraceWriter Create(TraceWriter::Existing existing = TraceWriter::Existing::kRefuse) {
    absl::StatusOr<TraceWriter> writer = TraceWriter::Create(path_, existing);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }

  TemporaryFolder folder_;
  std::string path_ = folder_.path() + "/run.jsonl";
};

TEST_F(Writer, WritesNoEventThatWouldMakeTheFileUnreadable) {
  TraceWriter writer = Create();
  ASSERT_TRUE(writer.Write(Sample(0, 10)).ok());
  TraceEvent event;
  event.kind = "load";
  event.name = "vae";
  const auto refused = [&](std::optional<Bytes> nbytes, double seconds, const std::string& note) {
    event.nbytes = nbytes;
    event.seconds = seconds;
    event.note = note;
    return std::string(writer.Write(event).message());
  };
  EXPECT_EQ(refused(Bytes(1LL << 60), 1e10, ""), "") << "the most that a reader takes";
  EXPECT_EQ(
      refused(Bytes(1LL << 62), 1, ""),
      "write \"load\" of \"vae\" into a trace: 4611686018427387904 bytes (4 EiB) is more than "
      "any machine has: 1 EiB at most");
  EXPECT_THAT(refused(Bytes((1LL << 60) + 1), 1, ""), HasSubstr("1152921504606846977 bytes"));
  EXPECT_THAT(refused(Bytes(-1), 1, ""), HasSubstr("-1 is negative"));
  EXPECT_THAT(refused(Bytes(1), 2e10, ""), HasSubstr("2e+10 s is not a time from 0 to 1e+10 s"));
  EXPECT_THAT(refused(Bytes(1), std::nan(""), ""), HasSubstr("nan s is not a time"));
  EXPECT_THAT(refused(Bytes(1), 1, std::string(1 << 20, 'x')), HasSubstr("1 MiB is the most"));
  ASSERT_TRUE(writer.WriteEnd().ok());
  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->events.size(), 1U);
  EXPECT_EQ(trace->events[0].nbytes, Bytes(1LL << 60));
}

TEST_F(Writer, WritesWhatTheReaderReads) {
  TraceWriter writer = Create();
  TraceStart start;
  start.utc = "2026-01-02T03:04:05+00:00";
  start.interval_seconds = 0.25;
  start.rest = R"({"command":["a","b"],"pid":7})";
  ASSERT_TRUE(writer.Write(start).ok());
  TraceSample sample = Sample(1.5, 1 << 20);
  sample.level = Percent{93.25};
  sample.available = GiB(7);
  sample.rest = R"({"processes":3})";
  ASSERT_TRUE(writer.Write(sample).ok());
  TraceEvent event;
  event.t = 1.25;
  event.kind = "load";
  event.stage = "encode";
  event.name = "text \"encoder\"\n";
  event.nbytes = Bytes(1LL << 40);
  event.seconds = 0.5;
  event.note = "ä\t";
  event.rest = R"({"by":"us"})";
  ASSERT_TRUE(writer.Write(event).ok());
  ASSERT_TRUE(writer.WriteEnd().ok());

  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_THAT(trace->notes, testing::IsEmpty());
  EXPECT_TRUE(trace->ended);
  ASSERT_TRUE(trace->start);
  EXPECT_EQ(trace->start->utc, start.utc);
  EXPECT_EQ(trace->start->interval_seconds, 0.25);
  EXPECT_EQ(trace->start->rest, start.rest);
  ASSERT_EQ(trace->samples.size(), 1U);
  EXPECT_EQ(trace->samples[0].t, 1.5);
  EXPECT_EQ(trace->samples[0].footprint, MiB(1));
  EXPECT_EQ(trace->samples[0].swap_used, Bytes(20));
  EXPECT_EQ(trace->samples[0].level, Percent{93.25});
  EXPECT_EQ(trace->samples[0].available, GiB(7));
  EXPECT_EQ(trace->samples[0].rest, sample.rest);
  ASSERT_EQ(trace->events.size(), 1U);
  const TraceEvent& read = trace->events[0];
  EXPECT_EQ(read.t, 1.25);
  EXPECT_EQ(read.kind, "load");
  EXPECT_EQ(read.stage, "encode");
  EXPECT_EQ(read.name, event.name);
  EXPECT_EQ(read.nbytes, event.nbytes);
  EXPECT_EQ(read.seconds, 0.5);
  EXPECT_EQ(read.note, event.note);
  EXPECT_EQ(read.rest, event.rest);
}

TEST_F(Writer, WritesWholeMillisecondsAndLevelsAsTheyAreTold) {
  TraceWriter writer = Create();
  TraceSample sample = Sample(0.0005, 1);
  ASSERT_TRUE(writer.Write(sample).ok());
  sample.t = 12.3456789;
  sample.level = Percent{93.4567};
  sample.footprint.reset();
  ASSERT_TRUE(writer.Write(sample).ok());
  EXPECT_EQ(Contents(path_),
            "{\"type\":\"sample\",\"t\":0.001,\"footprint\":1,\"swap_used\":20,\"level\":80}\n"
            "{\"type\":\"sample\",\"t\":12.346,\"swap_used\":20,\"level\":93.46}\n");
}

TEST_F(Writer, AFieldOfItsOwnIsNotReplacedByOneOfTheRest) {
  TraceWriter writer = Create();
  TraceSample sample = Sample(1, 7);
  sample.rest = R"({"footprint":8,"more":1})";
  ASSERT_TRUE(writer.Write(sample).ok());
  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->samples[0].footprint, Bytes(7));
}

TEST_F(Writer, RefusesARestThatIsNoObjectAndWritesNothing) {
  TraceWriter writer = Create();
  TraceSample sample = Sample(1, 7);
  sample.rest = "[1]";
  EXPECT_EQ(writer.Write(sample).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Contents(path_), "");
}

TEST_F(Writer, ANameThatIsNoUtf8DoesNotCostItsLine) {
  TraceWriter writer = Create();
  ASSERT_TRUE(writer.Write(Sample(0, 1)).ok());
  TraceEvent event;
  event.kind = "stage";
  event.stage = "caf\xe9";
  ASSERT_TRUE(writer.Write(event).ok());
  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->events.at(0).stage, "caf\xef\xbf\xbd");
}

TEST_F(Writer, WritesOverAFileOnlyWhenTold) {
  std::ofstream(path_) << "of somebody\n";
  const absl::Status refused = TraceWriter::Create(path_, TraceWriter::Existing::kRefuse).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(refused.message()), StartsWith(path_));
  EXPECT_EQ(Contents(path_), "of somebody\n");
  ASSERT_TRUE(Create(TraceWriter::Existing::kOverwrite).WriteEnd().ok());
  EXPECT_EQ(Contents(path_), "{\"type\":\"end\"}\n");
}

TEST_F(Writer, TakesAFileWithNothingInItAndAPipe) {
  std::ofstream(path_) << "";  // as mktemp makes it
  ASSERT_TRUE(Create().WriteEnd().ok());
  EXPECT_EQ(Contents(path_), "{\"type\":\"end\"}\n");

  path_ = folder_.path() + "/pipe";
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = Contents(path_); });
  ASSERT_TRUE(Create().WriteEnd().ok());
  reader.join();
  EXPECT_EQ(read, "{\"type\":\"end\"}\n");
}

TEST_F(Writer, APipeThatNobodyReadsIsRefused) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  for (const auto existing : {TraceWriter::Existing::kRefuse, TraceWriter::Existing::kOverwrite}) {
    const absl::Status refused = TraceWriter::Create(path_, existing).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(std::string(refused.message()),
                testing::HasSubstr(path_ + " is a pipe that nobody reads; start its reader first"));
  }
}

TEST_F(Writer, ToWhatIsOpenAlreadySaysWhenNobodyReadsIt) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  absl::StatusOr<TraceWriter> writer = TraceWriter::To(ends[1], "stdout");
  close(ends[1]);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE(writer->WriteEnd().ok());
  EXPECT_FALSE(writer->reader_gone());
  close(ends[0]);
  void (*const handler)(int) = signal(SIGPIPE, SIG_IGN);
  const absl::Status status = writer->WriteEnd();
  signal(SIGPIPE, handler);
  EXPECT_THAT(std::string(status.message()), StartsWith("write stdout"));
  EXPECT_TRUE(writer->reader_gone());
  EXPECT_FALSE(TraceWriter::To(-1, "stdout").ok());
}

TEST_F(Writer, ToAPipeWithANameSaysWhenNobodyReadsItAndWhenThereIsAnotherReader) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const auto read_it = [&] { return open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC); };
  int reader = read_it();
  TraceWriter writer = Create();
  ASSERT_TRUE(writer.WriteEnd().ok());
  close(reader);
  void (*const handler)(int) = signal(SIGPIPE, SIG_IGN);
  EXPECT_FALSE(writer.WriteEnd().ok());
  EXPECT_TRUE(writer.reader_gone());
  reader = read_it();
  EXPECT_TRUE(writer.WriteEnd().ok());
  EXPECT_FALSE(writer.reader_gone());
  close(reader);
  signal(SIGPIPE, handler);
}

TEST_F(Writer, NamesWhatCannotBeMade) {
  path_ = folder_.path() + "/none/run.jsonl";
  const absl::Status status = TraceWriter::Create(path_, TraceWriter::Existing::kRefuse).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_EQ(TraceWriter::Create(folder_.path(), TraceWriter::Existing::kOverwrite).status().code(),
            absl::ErrnoToStatus(EISDIR, "").code());
}

TEST_F(Writer, OnceThereIsRoomAgainTheLineThatWasCutIsWhole) {
  TraceWriter writer = Create();
  ASSERT_TRUE(writer.Write(Sample(0, 1)).ok());
  const auto line = static_cast<rlim_t>(Contents(path_).size());
  {
    const FileSizeLimit limit(line + 5);
    for (int t = 1; t < 3; ++t) {
      const absl::Status status = writer.Write(Sample(t, 1));
      EXPECT_FALSE(status.ok());
      EXPECT_THAT(std::string(status.message()), StartsWith("write " + path_));
    }
    const absl::StatusOr<Trace> meanwhile = ReadTrace(path_);
    ASSERT_TRUE(meanwhile.ok()) << meanwhile.status();
    EXPECT_THAT(meanwhile->notes,
                ElementsAre("line 2 is cut: left out", "the trace ends without \"end\""));
  }
  {
    const FileSizeLimit limit(line + 10);  // a little room, not enough for the rest of it
    EXPECT_FALSE(writer.Write(Sample(3, 1)).ok());
  }
  ASSERT_TRUE(writer.Write(Sample(4, 1)).ok());
  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  ASSERT_EQ(trace->samples.size(), 3U);  // the second was the one that was cut
  EXPECT_EQ(trace->samples[1].t, 1);
  EXPECT_EQ(trace->samples[2].t, 4);
}

TEST_F(Writer, AKilledProcessLeavesWhatItWrote) {
  const pid_t pid = fork();
  if (pid == 0) {
    absl::StatusOr<TraceWriter> writer = TraceWriter::Create(path_, TraceWriter::Existing::kRefuse);
    for (int t = 0; t < 100; ++t) (void)writer->Write(Sample(t, 1));
    kill(getpid(), SIGKILL);
  }
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  const absl::StatusOr<Trace> trace = ReadTrace(path_);
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->samples.size(), 100U);
}

}  // namespace
}  // namespace stageload
