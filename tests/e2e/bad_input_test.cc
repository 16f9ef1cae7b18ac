// What is asked wrongly is refused with a message that names it, the right code, and no effect.
#include <SQLiteCpp/Database.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <sys/resource.h>

#include <filesystem>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "stageload/v1/error.pb.h"
#include "stageload/v1/job_service.grpc.pb.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class BadInput : public DaemonTest {
 protected:
  // It exits with `code`, says nothing on stdout, names `what` on stderr, and no job came of it.
  void ExpectRefused(const Arguments& arguments, int code, const std::string& what) {
    SCOPED_TRACE(::testing::PrintToString(arguments));
    const Result result = Ctl(arguments);
    EXPECT_EQ(result.exit_code, code) << result;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, HasSubstr(what));
    EXPECT_EQ(CountJobs(), 0u);
  }
  // The same for a daemon that cannot start: it ends, not with 0, and names each of `what`.
  void ExpectDaemonRefuses(const std::vector<std::string>& what,
                           const Arguments& environment = {}) {
    const Result result = StartDaemonProgram({"--log-stderr"}, environment).Wait();
    EXPECT_NE(result.exit_code, 0);
    for (const std::string& part : what) EXPECT_THAT(result.err, HasSubstr(part));
  }
};

// Past stageloadctl, which refuses much by itself: what the daemon says to any client.
class BadRequest : public BadInput {
 protected:
  void SetUp() override {
    BadInput::SetUp();
    StartDaemon();
    grpc::ChannelArguments arguments;
    arguments.SetMaxSendMessageSize(-1);
    stub_ = v1::JobService::NewStub(grpc::CreateCustomChannel(
        "unix:" + paths().socket, grpc::InsecureChannelCredentials(), arguments));
  }

  static v1::SubmitJobRequest Good() {
    v1::SubmitJobRequest request;
    request.add_arguments("true");
    request.set_working_directory("/");
    return request;
  }
  grpc::Status Submit(const v1::SubmitJobRequest& request) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::SubmitJobResponse response;
    return stub_->SubmitJob(&context, request, &response);
  }
  grpc::Status Get(std::int64_t id) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::GetJobRequest request;
    request.set_id(id);
    v1::GetJobResponse response;
    return stub_->GetJob(&context, request, &response);
  }

  static v1::ErrorInfo InfoOf(const grpc::Status& status) {
    v1::ErrorStatus details;
    EXPECT_TRUE(details.ParseFromString(status.error_details()));
    v1::ErrorInfo info;
    for (const v1::ErrorDetail& detail : details.details()) {
      if (detail.type_url() == "type.googleapis.com/google.rpc.ErrorInfo") {
        EXPECT_TRUE(info.ParseFromString(detail.value()));
      }
    }
    return info;
  }
  void ExpectInvalid(const v1::SubmitJobRequest& request, const std::string& field) {
    SCOPED_TRACE(field);
    const grpc::Status status = Submit(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
    const v1::ErrorInfo info = InfoOf(status);
    EXPECT_EQ(info.reason(), kInvalidField);
    ASSERT_TRUE(info.metadata().contains("field")) << info.ShortDebugString();
    EXPECT_EQ(info.metadata().at("field"), field);
    EXPECT_EQ(CountJobs(), 0u);
  }

  std::unique_ptr<v1::JobService::Stub> stub_;
};

TEST_F(BadInput, OnTheCommandLineExitsWith2AndNamesTheValue) {
  StartDaemon();
  ExpectRefused({"submit"}, 2, "command");
  ExpectRefused({"submit", "--"}, 2, "command");
  ExpectRefused({"submit", "--", ""}, 2, "command");
  ExpectRefused({"run", "--"}, 2, "command");
  ExpectRefused({"guard", "--"}, 2, "command");
  ExpectRefused({"submit", "--memory", "8X", "--", "true"}, 2, "8X");
  ExpectRefused({"guard", "--swap-budget", "8X", "--", "true"}, 2, "8X");
  ExpectRefused({"submit", "--start-timeout", "-1s", "--", "true"}, 2, "-1s");
  ExpectRefused({"guard", "--grace=-1s", "--", "true"}, 2, "-1s");
  ExpectRefused({"submit", "--wait-free", "140", "--", "true"}, 2, "140");
  ExpectRefused({"guard", "--kill-free", "140", "--", "true"}, 2, "140");
  ExpectRefused({"submit", "--priority", "1001", "--", "true"}, 2, "1001");
  ExpectRefused({"submit", "--no-such-option", "--", "true"}, 2, "no-such-option");
  ExpectRefused({"no-such-command"}, 2, "no-such-command");
}

TEST_F(BadInput, AnIdOfZeroOrOfNobodyIsRefusedByEveryCommandThatTakesOne) {
  StartDaemon();
  for (const char* command : {"show", "logs", "wait", "cancel", "history"}) {
    ExpectRefused({command, "0"}, 2, "0");
    ExpectRefused({command, "seven"}, 2, "seven");
    ExpectRefused({command, "4711"}, 1, "4711");
  }
}

TEST_F(BadInput, AnIdThatIsNamedTwiceIsTakenOnce) {
  StartDaemon();
  const std::int64_t id = Submit({"--memory", "1M", "--", "false"});
  Ctl({"wait", Id(id)});
  const Result again = Ctl({"retry", Id(id), Id(id)});
  EXPECT_EQ(again.exit_code, 0) << again;
  EXPECT_EQ(again.out, absl::StrCat(id + 1, "\n"));
}

TEST_F(BadInput, ADeclarationThatCanNeverFitIsRefusedWithTheArithmetic) {
  WriteConfig("memory_pool = \"1G\"\n");
  StartDaemon();
  ExpectRefused({"submit", "--memory", "2G", "--", "true"}, 2, "2 GiB never fits");
  ExpectRefused({"submit", "--memory", "1000T", "--", "true"}, 2, "never fits");
}

TEST_F(BadInput, ASocketPathOf120BytesIsRefusedByBothProgramsWithItsLengthAndTheLimit) {
  const std::string socket = "/tmp/" + std::string(115, 's');
  const Arguments environment = {"STAGELOAD_SOCKET=" + socket};
  ExpectDaemonRefuses({"120", "103"}, environment);
  const Result result = Ctl({"queue"}, {.environment = environment});
  EXPECT_EQ(result.exit_code, 2) << result;
  EXPECT_THAT(result.err, AllOf(HasSubstr("120"), HasSubstr("103")));
  EXPECT_FALSE(std::filesystem::exists(home()));
}

TEST_F(BadInput, AHomeThatIsAFileIsRefusedByBothProgramsAndLeftAsItIs) {
  WriteFile(home(), "precious\n");
  ExpectDaemonRefuses({home()});
  const Result result = Ctl({"queue"});
  EXPECT_EQ(result.exit_code, 69) << result;
  EXPECT_THAT(result.err, HasSubstr(home()));
  EXPECT_EQ(ReadFile(home()), "precious\n");
}

TEST_F(BadInput, AStoreOfANewerVersionIsRefusedWithBothVersionsAndLeftAsItIs) {
  StartDaemon();
  Submit({"--wait-free", "100", "--", "true"});
  EXPECT_EQ(Ctl({"daemon", "stop"}).exit_code, 0);
  EXPECT_EQ(daemon().Wait().exit_code, 0);
  try {
    SQLite::Database store(paths().store, SQLite::OPEN_READWRITE);
    store.exec("PRAGMA user_version = 4711");
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
  ExpectDaemonRefuses({"4711", paths().store});
  const Result result = Ctl({"queue"});
  EXPECT_EQ(result.exit_code, 69) << result;
  EXPECT_THAT(result.err, HasSubstr("4711"));
  try {
    SQLite::Database store(paths().store, SQLite::OPEN_READWRITE);
    EXPECT_EQ(store.execAndGet("PRAGMA user_version").getInt(), 4711);
    EXPECT_EQ(store.execAndGet("SELECT count(*) FROM jobs").getInt(), 1);
  } catch (const std::exception& error) {
    FAIL() << error.what();
  }
}

TEST_F(BadInput, AnUnknownKeyOrABadValueInTheConfigIsRefusedWithLineAndKey) {
  WriteConfig("# ours\nmemory_poool = \"1G\"\n");
  ExpectDaemonRefuses({"memory_poool", "2"});
  WriteConfig("memory_pool = \"8X\"\n");
  ExpectDaemonRefuses({"memory_pool", "8X"});
}

TEST_F(BadInput, AHomeThatOthersMayWriteToIsRefused) {
  std::filesystem::create_directory(home());
  std::filesystem::permissions(home(), std::filesystem::perms::all);
  ExpectDaemonRefuses({home()});
}

TEST_F(BadInput, ACommandOfMoreThan4MiBIsRefused) {
  StartDaemon();
  // The kernel allows a quarter of the stack's limit, and 6 MiB at most (execve(2)).
  const rlimit unlimited{RLIM_INFINITY, RLIM_INFINITY};
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_STACK, &before), 0);
  if (before.rlim_max != RLIM_INFINITY && setrlimit(RLIMIT_STACK, &unlimited) != 0) {
    GTEST_SKIP() << "the stack's limit may not be raised, so no such command can be made";
  }
  rlimit raised = before;
  raised.rlim_cur = RLIM_INFINITY;
  raised.rlim_max = RLIM_INFINITY;
  ASSERT_EQ(setrlimit(RLIMIT_STACK, &raised), 0);
  Arguments big;
  for (int i = 0; i < 45; ++i)
    big.push_back(absl::StrCat("BIG", i, "=", std::string(100'000, 'x')));
  const Result result = Ctl({"submit", "--", "true"}, {.environment = big});
  EXPECT_EQ(setrlimit(RLIMIT_STACK, &before), 0);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 MiB"));
  EXPECT_EQ(CountJobs(), 0u);
}

TEST_F(BadRequest, EachWrongFieldIsNamedInTheErrorsDetails) {
  v1::SubmitJobRequest request = Good();
  request.clear_arguments();
  ExpectInvalid(request, "arguments");

  request = Good();
  request.mutable_policy()->set_wait_free_percent(140);
  ExpectInvalid(request, "policy.wait_free_percent");
  request.mutable_policy()->set_wait_free_percent(std::numeric_limits<double>::quiet_NaN());
  ExpectInvalid(request, "policy.wait_free_percent");

  request = Good();
  request.mutable_policy()->set_start_timeout_ns(-1'000'000'000);
  ExpectInvalid(request, "policy.start_timeout_ns");

  request = Good();
  request.mutable_policy()->set_swap_budget_bytes(-1);
  ExpectInvalid(request, "policy.swap_budget_bytes");

  request = Good();
  request.set_working_directory("not/absolute");
  ExpectInvalid(request, "working_directory");

  request = Good();
  request.add_environment("no equals sign");
  ExpectInvalid(request, "environment");
}

TEST_F(BadRequest, ZeroIsNoIdAndAnUnknownIdIsNotFound) {
  EXPECT_EQ(Get(0).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const grpc::Status unknown = Get(4711);
  EXPECT_EQ(unknown.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(InfoOf(unknown).reason(), kJobNotFound);
  EXPECT_THAT(unknown.error_message(), HasSubstr("4711"));
}

TEST_F(BadRequest, OneThatCanNeverFitSaysSoForPrograms) {
  v1::SubmitJobRequest request = Good();
  request.mutable_policy()->set_memory_bytes(std::int64_t{1} << 50);
  const grpc::Status status = Submit(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(InfoOf(status).reason(), kNeverFits);
  EXPECT_EQ(CountJobs(), 0u);
}

TEST_F(BadRequest, OverTheLimitsOfACommandItIsInvalidAndOver4MiBItIsResourceExhausted) {
  v1::SubmitJobRequest request = Good();
  for (int i = 0; i < 30; ++i) {
    request.add_environment(absl::StrCat("BIG", i, "=", std::string(100'000, 'x')));
  }
  EXPECT_EQ(Submit(request).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  for (int i = 30; i < 60; ++i) {
    request.add_environment(absl::StrCat("BIG", i, "=", std::string(100'000, 'x')));
  }
  EXPECT_EQ(Submit(request).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(CountJobs(), 0u);
  EXPECT_TRUE(Submit(Good()).ok()) << "the daemon did not outlive it";
}

}  // namespace
}  // namespace stageload::e2e
