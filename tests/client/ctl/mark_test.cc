// `stageloadctl mark` against a scripted daemon: what is reported, and that nobody's watching is no
// error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/ctl/program.h"

namespace stageload::ctl {
namespace {

using testing::HasSubstr;

class Mark : public testing::Test {
 protected:
  Mark() {
    daemon_.on_marks = [this](const v1::ReportRequest& request, v1::ReportResponse& response) {
      request_ = request;
      response.set_recordings(recordings_);
      response.set_client_id(client_);
      return answer_;
    };
  }
  Result Run(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "mark");
    return RunProgram(daemon_.home(), std::move(arguments));
  }
  // What is reported by a call that must be silent.
  v1::Mark Reported(std::vector<std::string> arguments) {
    request_.Clear();
    const Result result = Run(std::move(arguments));
    EXPECT_EQ(result.code, 0);
    EXPECT_EQ(result.err + result.out, "");
    EXPECT_EQ(request_.client_id(), 0);
    EXPECT_EQ(request_.marks_size(), 1);
    return request_.marks_size() == 1 ? request_.marks(0) : v1::Mark();
  }

  FakeDaemon daemon_;
  v1::ReportRequest request_;
  int recordings_ = 1;
  int client_ = 0;
  grpc::Status answer_;
};

TEST_F(Mark, ReportsAStage) {
  const v1::Mark mark = Reported({"--stage", "decode \"x\""});
  EXPECT_EQ(mark.kind(), "stage");
  EXPECT_EQ(mark.stage(), "decode \"x\"");
  EXPECT_FALSE(mark.has_nbytes());
  EXPECT_FALSE(mark.has_seconds());
}

TEST_F(Mark, ReportsANoteOfSeveralWords) {
  const v1::Mark mark = Reported({"weights", "are", "loaded"});
  EXPECT_EQ(mark.kind(), "mark");
  EXPECT_EQ(mark.note(), "weights are loaded");
}

TEST_F(Mark, ReportsALoadWithItsSizeAndTime) {
  const v1::Mark mark = Reported({"--kind", "load", "--name", "transformer", "--bytes", "1.5G",
                                  "--seconds", "2.5", "--stage", "denoise"});
  EXPECT_EQ(mark.kind(), "load");
  EXPECT_EQ(mark.name(), "transformer");
  EXPECT_EQ(mark.stage(), "denoise");
  EXPECT_EQ(mark.nbytes(), 3LL << 29);
  EXPECT_EQ(mark.seconds(), 2.5);
}

TEST_F(Mark, AClientAloneIsSomebodyWhoWatches) {
  recordings_ = 0;
  client_ = 7;
  EXPECT_EQ(Reported({"--stage", "decode"}).stage(), "decode");
}

TEST_F(Mark, SaysThatNobodyWatchesAndFailsOnlyWhenThatIsRequired) {
  answer_ =
      Failure(grpc::StatusCode::NOT_FOUND, "process 7 is in nobody's tree", "CLIENT_NOT_FOUND");
  const Result lenient = Run({"--stage", "decode"});
  EXPECT_EQ(lenient.code, 0);
  EXPECT_EQ(lenient.out, "");
  EXPECT_EQ(lenient.err,
            "stageload: nobody records or manages the program that this is called from; the mark "
            "is lost\n");
  EXPECT_EQ(Run({"--stage", "decode", "--require"}).code, 1);
  answer_ = grpc::Status::OK;
  recordings_ = 0;
  EXPECT_EQ(Run({"--stage", "decode", "--require"}).code, 1);
}

TEST_F(Mark, WithoutADaemonItStartsNoneAndIsNoErrorEither) {
  const std::string home = daemon_.home() + "/none";
  const Result lenient = RunProgram(home, {"mark", "--stage", "decode"});
  EXPECT_EQ(lenient.code, 0);
  EXPECT_THAT(lenient.err, HasSubstr("no daemon answers"));
  EXPECT_EQ(RunProgram(home, {"mark", "--stage", "decode", "--require"}).code, 69);
  EXPECT_FALSE(std::filesystem::exists(home));
}

TEST_F(Mark, WhatTheDaemonRefusesIsAnError) {
  answer_ = Failure(grpc::StatusCode::INVALID_ARGUMENT, "marks[0].stage: 300 bytes, at most 256",
                    "INVALID_FIELD", "marks[0].stage");
  const Result result = Run({"--stage", "decode"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("at most 256"));
}

TEST_F(Mark, ADaemonThatCannotBeReportedToIsLikeNone) {
  answer_ = grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "no such call");
  EXPECT_EQ(Run({"--stage", "decode"}).code, 0);
  EXPECT_NE(Run({"--stage", "decode", "--require"}).code, 0);
}

TEST_F(Mark, WhatNoRecordingCouldBeReadWithIsRefusedWithTheMost) {
  const Result large = Run({"--kind", "load", "--name", "big", "--bytes", "4611686018427387904"});
  EXPECT_EQ(large.code, 2);
  EXPECT_THAT(large.err, HasSubstr("--bytes: 4611686018427387904 bytes (4 EiB) is more than any "
                                   "machine has: 1 EiB at most"));
  const Result longest = Run({"--kind", "load", "--name", "big", "--seconds", "200000d"});
  EXPECT_EQ(longest.code, 2);
  EXPECT_THAT(longest.err, HasSubstr("--seconds: duration \"200000d\": is too long"));
  EXPECT_EQ(request_.marks_size(), 0);
  EXPECT_EQ(
      Reported({"--kind", "load", "--name", "big", "--bytes", "1152921504606846976"}).nbytes(),
      1LL << 60);
}

TEST_F(Mark, SaysWhatIsMissing) {
  const std::pair<std::vector<std::string>, std::string> kCases[] = {
      {{}, "mark --stage decode"},
      {{""}, "nothing to mark"},
      {{"--kind", "mark"}, "nothing to mark"},
      {{"--kind", "load"}, "--name"},
      {{"--kind", "stage", "x"}, "--stage"},
      {{"--kind", "load", "--name", "x", "--bytes", "8X"}, "--bytes"},
      {{"--kind", "load", "--name", "x", "--seconds", "soon"}, "--seconds"},
      {{"--kind", "load", "--name", "x", "--bytes", ""}, "--bytes"},
      {{"--kind", "load", "--name", "x", "--seconds", ""}, "--seconds"},
  };
  for (const auto& [arguments, named] : kCases) {
    const Result result = Run(arguments);
    EXPECT_EQ(result.code, 2) << named;
    EXPECT_THAT(result.err, HasSubstr(named));
  }
  EXPECT_EQ(request_.marks_size(), 0);
}

}  // namespace
}  // namespace stageload::ctl
