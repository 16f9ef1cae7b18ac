// What comes to stand in the file when its disk is full meanwhile, or another program changes it.
#include "client/ctl/recording.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/trace.h"
#include "tests/file_size_limit.h"
#include "tests/fixture.h"

namespace stageload::ctl {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr std::int64_t kSecond = 1'000'000'000;

v1::WatchProcessResponse At(int t) {
  v1::WatchProcessResponse answer;
  v1::ProcessSample& sample = *answer.mutable_sample();
  sample.set_awake_ns((1000 + t) * kSecond);
  sample.set_time_ns((2000 + t) * kSecond);
  sample.set_footprint_bytes(1000 + t);
  sample.mutable_host()->set_swap_used_bytes(0);
  sample.mutable_host()->set_level_percent(50);
  return answer;
}

// With the stage that began half a second before.
v1::WatchProcessResponse At(int t, const std::string& stage) {
  v1::WatchProcessResponse answer = At(t);
  v1::Event& event = *answer.add_events();
  event.set_kind("stage");
  event.set_time_ns((2000 + t) * kSecond - kSecond / 2);
  event.mutable_mark()->set_kind("stage");
  event.mutable_mark()->set_stage(stage);
  return answer;
}

class RecordingTest : public testing::Test {
 protected:
  Recording Begin() {
    absl::StatusOr<TraceWriter> writer = TraceWriter::Create(path_, TraceWriter::Existing::kRefuse);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return Recording::Begin(*std::move(writer), absl::Seconds(1), {}, At(0));
  }
  // Until it is destroyed only so many bytes more fit into the file.
  std::unique_ptr<FileSizeLimit> Full(int left = 0) const {
    return std::make_unique<FileSizeLimit>(std::filesystem::file_size(path_) +
                                           static_cast<std::uintmax_t>(left));
  }
  // "t kind stage-or-note" each; and "t" of each sample.
  void Read() {
    absl::StatusOr<Trace> trace = ReadTrace(path_);
    ASSERT_TRUE(trace.ok()) << trace.status();
    trace_ = *std::move(trace);
    for (const TraceEvent& event : trace_.events) {
      events_.push_back(absl::StrCat(event.t, " ", event.kind, " ", event.stage, event.note));
    }
    for (const TraceSample& sample : trace_.samples) samples_.push_back(sample.t);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/run.jsonl";
  Trace trace_;
  std::vector<std::string> events_;
  std::vector<double> samples_;
};

TEST_F(RecordingTest, AFullDiskCostsSamplesButNoStageAndTheFileSaysSo) {
  // Also where it was full in the middle of a line, of a stage or of a sample.
  for (const int left : {0, 20, 90}) {
    std::filesystem::remove(path_);
    events_.clear();
    samples_.clear();
    Recording recording = Begin();
    {
      const auto full = Full(left);
      recording.Add(At(1, "denoise"));
      recording.Add(At(2));
      recording.Add(At(3, "decode"));
    }
    recording.Add(At(4));
    recording.Add(At(5, "save"));
    recording.End();
    Read();
    EXPECT_TRUE(trace_.ended);
    const bool begun = left == 90;  // the sample at 1
    EXPECT_EQ(samples_, begun ? std::vector<double>({0, 1, 4, 5}) : std::vector<double>({0, 4, 5}));
    ASSERT_EQ(events_.size(), 4U);
    const std::string& note = events_[begun ? 1 : 0];
    EXPECT_THAT(note, HasSubstr(begun ? "1 mark no samples for 3s: write "
                                      : "0 mark no samples for 4s: write "));
    EXPECT_THAT(note, EndsWith("run.jsonl: File too large"));
    EXPECT_EQ(events_[begun ? 0 : 1], "0.5 stage denoise");
    EXPECT_EQ(events_[2], "2.5 stage decode");
    EXPECT_EQ(events_[3], "4.5 stage save");
    EXPECT_TRUE(recording.incomplete());
    EXPECT_THAT(recording.Line(), HasSubstr(begun ? "4 of 6 samples" : "3 of 6 samples"));
    EXPECT_THAT(recording.Line(), Not(HasSubstr("mark")));
  }
}

TEST_F(RecordingTest, OfADiskThatStaysFullItSaysHowManyMarksAreLost) {
  Recording recording = Begin();
  const auto full = Full();
  recording.Add(At(1, "denoise"));
  recording.Add(At(2, "decode"));
  recording.End();
  EXPECT_TRUE(recording.incomplete());
  EXPECT_THAT(recording.Line(), HasSubstr("1 of 3 samples"));
  EXPECT_THAT(recording.Line(), HasSubstr("; 2 marks are lost"));
  Read();
  EXPECT_THAT(events_, IsEmpty());
}

TEST_F(RecordingTest, AGapAtTheEndIsNotedIfThereIsRoomForThatByThen) {
  Recording recording = Begin();
  {
    const auto full = Full();
    recording.Add(At(1));
    recording.Add(At(2, "decode"));
  }
  recording.End();
  Read();
  EXPECT_TRUE(trace_.ended);
  EXPECT_THAT(events_, ElementsAre(HasSubstr("0 mark no samples for 2s"), "1.5 stage decode"));
}

TEST_F(RecordingTest, ADiskThatIsFullForLongCostsTheOldestMarks) {
  Recording recording = Begin();
  {
    const auto full = Full();
    for (int t = 1; t <= 5000; ++t) recording.Add(At(t, absl::StrCat("s", t)));
  }
  recording.Add(At(5001));
  recording.End();
  Read();
  ASSERT_EQ(events_.size(), 4097U);
  EXPECT_THAT(events_.front(), HasSubstr("no samples for 1h23m"));
  EXPECT_THAT(events_.front(), HasSubstr("; 904 marks were left out, too"));
  EXPECT_EQ(events_.back(), "4999.5 stage s5000");
}

TEST_F(RecordingTest, AMarkThatNoTraceMayHaveHoldsUpNothing) {
  Recording recording = Begin();
  v1::WatchProcessResponse answer = At(1, "decode");
  answer.mutable_events(0)->mutable_mark()->set_nbytes(-1);
  recording.Add(answer);
  recording.Add(At(2, "save"));
  recording.End();
  Read();
  EXPECT_TRUE(recording.incomplete());
  EXPECT_THAT(samples_, ElementsAre(0, 1, 2));
  EXPECT_THAT(events_, ElementsAre("1.5 stage save"));
}

TEST_F(RecordingTest, AFileThatIsCutGoesOnBehindItsStartLineAndIsNotWhole) {
  Recording recording = Begin();
  recording.Add(At(1));
  testing::internal::CaptureStderr();
  for (const int t : {2, 3}) {
    std::filesystem::resize_file(path_, 0);
    recording.Add(At(t));
  }
  recording.Add(At(4));
  recording.End();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(said,
            absl::StrCat("stageload: ", path_,
                         " was cut while it was recorded; the recording there is not whole\n"));
  EXPECT_TRUE(recording.incomplete());
  EXPECT_THAT(recording.Line(), HasSubstr("2 of 5 samples"));
  EXPECT_THAT(recording.Line(), HasSubstr("run.jsonl, which was cut)"));
  Read();
  EXPECT_TRUE(trace_.ended);
  ASSERT_TRUE(trace_.start);
  EXPECT_EQ(trace_.start->interval_seconds, 1);
  EXPECT_THAT(samples_, ElementsAre(3, 4));
  EXPECT_THAT(events_, ElementsAre("2 mark the file was cut: what stood in it before is lost"));
}

TEST_F(RecordingTest, AFileThatIsCutAfterItsLastSampleIsNotWholeEither) {
  Recording recording = Begin();
  std::filesystem::resize_file(path_, 0);
  recording.End();
  EXPECT_TRUE(recording.incomplete());
  EXPECT_THAT(recording.Line(), HasSubstr("run.jsonl, which was cut)"));
}

TEST_F(RecordingTest, AFileThatIsGoneFromItsPathIsSaidAndIsAnError) {
  const auto remove = [&] { std::filesystem::remove(path_); };
  const auto rename = [&] { std::filesystem::rename(path_, path_ + ".1"); };
  const auto replace = [&] {
    std::ofstream(path_ + ".new") << "{}\n";
    std::filesystem::rename(path_ + ".new", path_);
  };
  const std::vector<std::pair<std::string, std::function<void()>>> cases = {
      {"was removed", remove}, {"was given another name", rename}, {"was replaced", replace}};
  for (const auto& [harm, change] : cases) {
    std::filesystem::remove(path_);
    Recording recording = Begin();
    testing::internal::CaptureStderr();
    change();
    recording.Add(At(1));
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              absl::StrCat("stageload: ", path_, " ", harm,
                           " while it was recorded; the recording there is not whole\n"));
    recording.Add(At(2));
    recording.End();
    EXPECT_TRUE(recording.incomplete());
    EXPECT_THAT(recording.Line(), HasSubstr("run.jsonl, which " + harm + ")"));
  }
}

TEST_F(RecordingTest, AFileThatIsBackAtItsPathInTheEndIsWhole) {
  Recording recording = Begin();
  std::filesystem::rename(path_, path_ + ".1");
  recording.Add(At(1));
  std::filesystem::rename(path_ + ".1", path_);
  recording.End();
  EXPECT_FALSE(recording.incomplete());
  EXPECT_THAT(recording.Line(), Not(HasSubstr("which")));
}

TEST_F(RecordingTest, ADaemonThatStoodStillLeavesANoteOfTheGap) {
  Recording recording = Begin();
  for (const int t : {1, 4, 13}) recording.Add(At(t));  // 3 s may be by chance
  v1::WatchProcessResponse slow = At(30);
  slow.set_dropped(16);  // it did, and this program had no time for it
  recording.Add(slow);
  recording.End();
  Read();
  EXPECT_FALSE(recording.incomplete());
  EXPECT_THAT(events_, ElementsAre("4 mark no samples for 9s: the daemon did not sample",
                                   HasSubstr("13 mark 16 samples were left out")));
}

}  // namespace
}  // namespace stageload::ctl
