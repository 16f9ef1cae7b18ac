// MemoryMeter against a daemon that the test plays; what it writes is read as any trace is.
#include "stageload/meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/awake_clock.h"
#include "base/trace.h"
#include "tests/client/lib/scripted_daemon.h"

namespace stageload::client {
namespace {

using ::testing::HasSubstr;
using Writer = grpc::ServerWriter<v1::WatchProcessResponse>;

class MeterTest : public ::testing::Test {
 protected:
  MeterTest() {
    daemon_.on_watch_process = [this](const v1::WatchProcessRequest& request,
                                      grpc::ServerContext& context, Writer& writer) {
      {
        const std::lock_guard lock(mutex_);
        request_ = request;
      }
      writer.Write(Sample(1000));
      v1::WatchProcessResponse second = Sample(3000);
      v1::Event& event = *second.add_events();
      event.set_kind("stage");
      event.set_time_ns(second.sample().time_ns());
      event.mutable_mark()->set_kind("stage");
      event.mutable_mark()->set_stage("from the session");
      second.set_dropped(3);
      writer.Write(second);
      EXPECT_TRUE(Eventually([&] { return context.IsCancelled(); }));
      return grpc::Status::OK;
    };
  }

  static v1::WatchProcessResponse Sample(std::int64_t footprint) {
    v1::WatchProcessResponse response;
    v1::ProcessSample& sample = *response.mutable_sample();
    sample.set_awake_ns(absl::ToInt64Nanoseconds(AwakeNow()));
    sample.set_time_ns(1'700'000'000'000'000'000);
    sample.set_footprint_bytes(footprint);
    sample.set_processes(1);
    sample.mutable_host()->set_swap_used_bytes(77);
    sample.mutable_host()->set_level_percent(50);
    return response;
  }
  MeterOptions Options() const {
    MeterOptions options;
    options.socket = daemon_.socket();
    options.autostart = false;
    return options;
  }
  std::string Path() const { return folder_.path() + "/run.trace.jsonl"; }
  std::string Text() const {
    std::ifstream file(Path());
    return {std::istreambuf_iterator<char>(file), {}};
  }
  bool HasSamples(std::ptrdiff_t count) const {
    return Eventually([&] {
      const std::string text = Text();
      std::ptrdiff_t found = 0;
      for (std::size_t at = text.find("\"sample\""); at != std::string::npos;
           at = text.find("\"sample\"", at + 1)) {
        ++found;
      }
      return found >= count;
    });
  }
  Trace Read() const {
    absl::StatusOr<Trace> trace = ReadTrace(Path());
    EXPECT_TRUE(trace.ok()) << trace.status();
    return trace.ok() ? *std::move(trace) : Trace();
  }

  TemporaryFolder folder_;
  std::mutex mutex_;
  v1::WatchProcessRequest request_;
  ScriptedDaemon daemon_;
};

TEST_F(MeterTest, WritesATraceOfItsOwnProcessAndOfWhatItDoes) {
  MeterOptions options = Options();
  options.interval = std::chrono::milliseconds(250);
  options.fields = {{"model", std::string("Qwen-Image")},
                    {"steps", std::int64_t{20}},
                    {"scale", 1.5},
                    {"eager", true}};
  {
    MemoryMeter meter(Path(), options);
    ASSERT_TRUE(HasSamples(2));
    meter.Stage("decode");
    meter.Load("vae", 250, 0.5);
    meter.Release("vae", 250, 0.25);
    meter.Mark("warm");
    // Each is in the file as soon as the call has returned.
    EXPECT_THAT(Text(), HasSubstr("warm"));
  }
  EXPECT_EQ(request_.pid(), 0);
  EXPECT_EQ(request_.interval_ns(), 250'000'000);
  const Trace trace = Read();
  EXPECT_TRUE(trace.ended);
  EXPECT_THAT(trace.notes, ::testing::IsEmpty());
  EXPECT_EQ(trace.start->interval_seconds, 0.25);
  const auto rest = nlohmann::json::parse(trace.start->rest);
  EXPECT_EQ(rest.at("model"), "Qwen-Image");
  EXPECT_EQ(rest.at("steps"), 20);
  EXPECT_EQ(rest.at("scale"), 1.5);
  EXPECT_EQ(rest.at("eager"), true);
  EXPECT_EQ(rest.at("pid"), getpid());
  ASSERT_EQ(trace.samples.size(), 2U);
  EXPECT_EQ(trace.samples[1].footprint, Bytes(3000));
  EXPECT_EQ(trace.samples[1].swap_used, Bytes(77));
  EXPECT_EQ(trace.samples[1].level, Percent{50});
  EXPECT_GE(trace.samples[0].t, 0);
  EXPECT_LT(trace.samples[0].t, 30);
  ASSERT_EQ(trace.events.size(), 6U);
  const auto dropped = std::find_if(
      trace.events.begin(), trace.events.end(),
      [](const TraceEvent& event) { return event.note.find("3 samples") != std::string::npos; });
  ASSERT_NE(dropped, trace.events.end());
  EXPECT_NEAR(dropped->t, trace.samples[0].t, 0.002) << "between the two samples";
  std::vector<TraceEvent> events = trace.events;
  std::erase_if(events, [&](const TraceEvent& event) { return event.note == dropped->note; });
  EXPECT_EQ(events[0].stage, "from the session");
  EXPECT_NEAR(events[0].t, trace.samples[1].t, 0.002);
  EXPECT_EQ(events[1].kind, "stage");
  EXPECT_EQ(events[1].stage, "decode");
  EXPECT_EQ(events[2].kind, "load");
  EXPECT_EQ(events[2].nbytes, Bytes(250));
  EXPECT_EQ(events[2].seconds, 0.5);
  EXPECT_EQ(events[3].kind, "release");
  EXPECT_EQ(events[4].note, "warm");
  EXPECT_GE(events[4].t, trace.samples[1].t) << "one clock for both";
}

TEST_F(MeterTest, OnceItIsMadeTheDaemonKnowsOfTheRecordingSoNoMarkIsLost) {
  const MemoryMeter meter(Path(), Options());
  EXPECT_THAT(Text(), HasSubstr("\"sample\""));
}

TEST_F(MeterTest, ATextThatNoReaderOfATraceCouldShowIsRefused) {
  MemoryMeter meter(Path(), Options());
  const auto reason = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.reason() + ", " + error.what();
    }
    return "it was taken";
  };
  EXPECT_THAT(reason([&] { meter.Mark("half\xC3"); }),
              HasSubstr("INVALID_FIELD, note: is not UTF-8"));
  EXPECT_THAT(reason([&] { meter.Mark(""); }), HasSubstr("INVALID_FIELD, note: is empty"));
  EXPECT_THAT(reason([&] { meter.Stage(""); }), HasSubstr("INVALID_FIELD, name: is empty"));
  EXPECT_THAT(reason([&] { meter.Load("v\nae", 1, 1); }),
              HasSubstr("INVALID_FIELD, name: holds a control character"));
  EXPECT_THAT(reason([&] { meter.Load("vae", -1, 1); }),
              HasSubstr("INVALID_FIELD, load of \"vae\": nbytes: -1 is negative"));
  EXPECT_THAT(reason([&] { meter.Release("vae", std::int64_t{1} << 62, 1); }),
              HasSubstr("nbytes: 4611686018427387904 bytes (4 EiB) is more than any machine has: 1 "
                        "EiB at most"));
  EXPECT_THAT(reason([&] { meter.Load("vae", 1, 2e10); }), HasSubstr("seconds: 2e+10 s is not"));
  EXPECT_THAT(reason([&] { meter.Mark(std::string(1 << 20, 'x')); }), HasSubstr("1 MiB"));
  EXPECT_EQ(Text().find("vae"), std::string::npos);
}

TEST_F(MeterTest, GoesOnWithTheNextDaemon) {
  MemoryMeter meter(Path(), Options());
  ASSERT_TRUE(HasSamples(2));
  daemon_.Stop();
  meter.Mark("alone");
  EXPECT_THAT(Text(), ::testing::Not(HasSubstr("no samples for")));
  daemon_.Start();
  EXPECT_TRUE(HasSamples(4));
  const Trace trace = Read();
  std::vector<TraceEvent> gaps = trace.events;
  std::erase_if(gaps, [](const TraceEvent& event) {
    return event.note.find("no samples for ") == std::string::npos;
  });
  ASSERT_EQ(gaps.size(), 1U) << "the note that `record` leaves, too";
  EXPECT_THAT(gaps[0].note, ::testing::EndsWith(": the daemon went away"));
  EXPECT_NEAR(gaps[0].t, trace.samples[1].t, 0.002) << "where they begin to be missing";
}

TEST_F(MeterTest, OneThatEndsWithoutTheNextDaemonSaysSinceWhenNobodySampled) {
  {
    MemoryMeter meter(Path(), Options());
    ASSERT_TRUE(HasSamples(2));
    daemon_.Stop();
    meter.Mark("alone");
    absl::SleepFor(absl::Milliseconds(300));  // its stream ends on another thread
  }
  EXPECT_THAT(Read().events,  // on a busy machine there may be one of samples left out behind it
              ::testing::Contains(::testing::Field(
                  &TraceEvent::note, ::testing::AllOf(HasSubstr("no samples for "),
                                                      HasSubstr("the daemon went away")))));
}

TEST_F(MeterTest, WithoutADaemonTheEventsAreWrittenWhereNoneIsRequired) {
  daemon_.Stop();
  EXPECT_THROW(MemoryMeter(Path(), Options()), NoDaemon);
  EXPECT_EQ(Text(), "") << "no file is left behind";
  MeterOptions options = Options();
  options.require = false;
  MemoryMeter meter(Path(), options);
  meter.Mark("alone");
  EXPECT_THAT(Text(), HasSubstr("alone"));
  daemon_.Start();
  EXPECT_TRUE(HasSamples(2));
  EXPECT_THAT(Text(), HasSubstr(": no daemon answered"));
}

TEST_F(MeterTest, AnIntervalOrAFileThatCannotBeIsRefused) {
  MeterOptions options = Options();
  options.interval = std::chrono::milliseconds(1);
  try {
    MemoryMeter meter(Path(), options);
    FAIL() << "an interval of 1 ms";
  } catch (const Error& error) {
    EXPECT_EQ(error.reason(), "INVALID_FIELD");
    EXPECT_THAT(error.what(), HasSubstr("1ms"));
  }
  try {
    MemoryMeter meter(folder_.path() + "/none/run.jsonl", Options());
    FAIL() << "a folder that is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_THAT(error.what(), HasSubstr("/none/run.jsonl"));
  }
}

}  // namespace
}  // namespace stageload::client
