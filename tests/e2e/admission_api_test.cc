// Leases and identities over the API, against the real daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/units.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/e2e/api_session.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;

Bytes ResidentOf(pid_t pid) {
  std::FILE* ps = popen(absl::StrCat("ps -o rss= -p ", pid).c_str(), "r");
  long kib = 0;
  if (ps == nullptr || fscanf(ps, "%ld", &kib) != 1) kib = 0;
  if (ps != nullptr) pclose(ps);
  return Bytes(kib * 1024);
}

class AdmissionApi : public DaemonTest {
 protected:
  // A process that a session can be of.
  ChildProcess Sleeper() {
    return ChildProcess({.argv = {"/bin/sleep", "1000"},
                         .environment = Environment(),
                         .directory = folder(),
                         .input = "",
                         .output = PathOf(absl::StrCat("sleeper", ++sleepers_))});
  }
  v1::RegisterRequest Registration(const ChildProcess& process, const std::string& name) const {
    v1::RegisterRequest request;
    request.set_name(name);
    request.set_pid(process.pid());
    request.mutable_policy()->set_wait_free_percent(0);
    return request;
  }
  void StartWithPool(const std::string& pool) {
    WriteConfig(absl::StrCat("memory_pool = \"", pool, "\"\nreserve = \"0\"\n"));
    StartDaemon();
  }

 private:
  int sleepers_ = 0;
};

TEST_F(AdmissionApi, S08_TheNextLeaseOfARunningPipelineGoesBeforeANewJob) {
  StartWithPool("1G");
  const ChildProcess process = Sleeper();
  ApiSession pipeline(paths().socket, Registration(process, "pipeline"));
  ASSERT_NE(pipeline.client_id(), 0);
  // One that waits for nothing: were all to wait, a lease would be forced.
  const ChildProcess idle = Sleeper();
  const ApiSession other(paths().socket, Registration(idle, "other"));
  const auto encode = pipeline.Acquire("encode", MiB(600).count());
  const v1::Granted first = GrantOf(*encode);
  const std::int64_t job = Submit({"--wait-free", "0", "--memory", "600M", "--", "sleep", "1000"});
  ASSERT_TRUE(Eventually([&] { return BlockerOf(job, "MEMORY").has_value(); }));
  const auto decode = pipeline.Acquire("decode", MiB(600).count());
  const auto waits = decode->Next();
  ASSERT_TRUE(waits && waits->has_waiting());
  EXPECT_EQ(waits->waiting().position(), 1);
  EXPECT_THAT(std::string(waits->waiting().blockers(0).text()),
              HasSubstr("left in the pool of 1 GiB"));
  ASSERT_TRUE(pipeline.Release(first.lease_id()).ok());
  const v1::Granted second = GrantOf(*decode);
  EXPECT_FALSE(second.forced());
  EXPECT_EQ(StateOf(job), "PENDING");
  ASSERT_TRUE(pipeline.Release(second.lease_id()).ok());
  EXPECT_TRUE(Reaches(job, "RUNNING"));
}

TEST_F(AdmissionApi, S08_OfTwoPipelinesThatWaitForEachOtherTheOldestGetsOnMarkedForced) {
  StartWithPool("1G");
  const ChildProcess process = Sleeper();
  const ChildProcess other = Sleeper();
  ApiSession older(paths().socket, Registration(process, "older"));
  ApiSession younger(paths().socket, Registration(other, "younger"));
  const v1::Granted first = GrantOf(*older.Acquire("a", MiB(500).count()));
  GrantOf(*younger.Acquire("b", MiB(500).count()));
  const auto more = older.Acquire("more", MiB(400).count());
  ASSERT_TRUE(more->Next()->has_waiting());
  const auto most = younger.Acquire("most", MiB(400).count());
  const v1::Granted forced = GrantOf(*more);
  EXPECT_TRUE(forced.forced());
  ASSERT_TRUE(most->Next()->has_waiting());
  // The other goes on when the first gives back what it has.
  EXPECT_TRUE(older.Release(first.lease_id()).ok());
  EXPECT_TRUE(older.Release(forced.lease_id()).ok());
  EXPECT_FALSE(GrantOf(*most).forced());
}

TEST_F(AdmissionApi, WhoDoesNotWaitIsNeverForcedAndHearsWhatBlocksIt) {
  StartWithPool("1G");
  const ChildProcess process = Sleeper();
  ApiSession only(paths().socket, Registration(process, "only"));
  GrantOf(*only.Acquire("a", MiB(600).count(), 0));
  const auto now = only.Acquire("b", MiB(600).count(), 0);
  const auto blocked = now->Next();
  ASSERT_TRUE(blocked && blocked->has_waiting());
  EXPECT_EQ(blocked->waiting().blockers(0).kind(), v1::BLOCKER_KIND_MEMORY);
  EXPECT_EQ(now->End().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_FALSE(now->Next().has_value());
  // Were it to wait, nobody else could make room for it.
  EXPECT_TRUE(GrantOf(*only.Acquire("b", MiB(600).count())).forced());
}

TEST_F(AdmissionApi, AFirstLeaseIsReservedBesideWhatItsProgramHeldBefore) {
  StartWithPool("1G");
  const ChildProcess process({.argv = {kLoadProgram, "--hold", "80M", "--for", "1000s"},
                              .environment = Environment(),
                              .directory = folder(),
                              .input = "",
                              .output = PathOf("holds")});
  ASSERT_TRUE(Eventually([&] { return ResidentOf(process.pid()) > MiB(80); }));
  ApiSession pipeline(paths().socket, Registration(process, "pipeline"));
  GrantOf(*pipeline.Acquire("a", MiB(100).count()));
  nlohmann::json frame;
  ASSERT_TRUE(Eventually([&] {
    frame = CtlJson({"status"}).at("frame");
    return !frame.at("clients").empty() && !frame.at("clients").at(0).at("leases").empty();
  }));
  EXPECT_GT(frame.at("reserved_bytes").get<std::int64_t>(), MiB(90).count()) << frame;
  EXPECT_LE(frame.at("reserved_bytes").get<std::int64_t>(), MiB(100).count()) << frame;
}

TEST_F(AdmissionApi, AGrantThatWasNotOnItsWayWhenItsCallerLeftIsGivenBack) {
  StartWithPool("1G");
  const ChildProcess process = Sleeper();
  const ApiSession session(paths().socket, Registration(process, "pipeline"));
  ASSERT_NE(session.client_id(), 0);
  // Of a call over this connection five bytes are taken at once: a grant stays with the daemon
  // until it is read.
  grpc::ChannelArguments narrow;
  narrow.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  narrow.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  narrow.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  const auto stub = v1::AdmissionService::NewStub(grpc::CreateCustomChannel(
      "unix:" + paths().socket, grpc::InsecureChannelCredentials(), narrow));
  v1::AcquireRequest request;
  request.set_client_id(session.client_id());
  request.set_stage("unread");
  request.set_memory_bytes(MiB(1).count());
  grpc::ClientContext context;
  const auto reader = stub->Acquire(&context, request);
  const auto leases = [&]() -> std::size_t {
    const nlohmann::json clients = CtlJson({"status"}).at("frame").at("clients");
    return clients.empty() ? 0 : clients.at(0).at("leases").size();
  };
  ASSERT_TRUE(Eventually([&] { return leases() == 1; }));
  context.TryCancel();
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Eventually([&] { return leases() == 0; }));
}

TEST_F(AdmissionApi, S29_AnotherUserWhoConnectsIsRefused) {
  StartDaemon();
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  // All doors open: what is left is the peer's identity.
  for (std::filesystem::path path = paths().socket; path != "/tmp" && path != "/";
       path = path.parent_path()) {
    ASSERT_EQ(::chmod(path.c_str(), 0777), 0) << path;
  }
  ChildProcess stranger({.argv = {"/usr/bin/setpriv", "--reuid=65534", "--regid=65534",
                                  "--clear-groups", kCtlProgram, "--no-autostart", "status"},
                         .environment = Environment(),
                         .directory = "/",
                         .input = "",
                         .output = PathOf("stranger")});
  const Result result = stranger.Wait();
  EXPECT_EQ(result.exit_code, 69) << result;
  EXPECT_EQ(Ctl({"daemon", "status"}).exit_code, 0) << "its own user is still served";
}

TEST_F(AdmissionApi, S29_AProcessThatIsNotTheCallersIsNotNamed) {
  StartDaemon();
  if (::geteuid() != 0) GTEST_SKIP() << "only root can be two users";
  // Of another user, and no descendant: the shell that starts it ends.
  ChildProcess shell({.argv = {"/bin/sh", "-c",
                               "setpriv --reuid=65534 --regid=65534 --clear-groups sleep 1000 "
                               ">/dev/null 2>&1 & echo $!"},
                      .environment = Environment(),
                      .directory = folder(),
                      .input = "",
                      .output = PathOf("shell")});
  std::int32_t pid = 0;
  ASSERT_TRUE(absl::SimpleAtoi(shell.Wait().out, &pid));
  struct stat owner {};
  ASSERT_TRUE(Eventually([&] {
    return ::stat(absl::StrCat("/proc/", pid).c_str(), &owner) == 0 && owner.st_uid == kNobody;
  }));

  v1::RegisterRequest request;
  request.set_pid(pid);
  request.set_enforce(true);
  ApiSession session(paths().socket, request);
  EXPECT_EQ(session.client_id(), 0);
  const grpc::Status refused = session.stream().End();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(),
              HasSubstr(absl::StrCat("pid: process ", pid, " belongs to user 65534")));

  const auto telemetry = v1::TelemetryService::NewStub(ApiChannel(paths().socket));
  ApiStream<v1::WatchProcessResponse> recording([&](grpc::ClientContext* context) {
    v1::WatchProcessRequest watch;
    watch.set_pid(pid);
    return telemetry->WatchProcess(context, watch);
  });
  EXPECT_EQ(recording.End().error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(::kill(pid, 0), 0) << "nothing was signalled";
  ::kill(pid, SIGKILL);
}

TEST_F(AdmissionApi, ALeaseForWhoIsNotRegisteredIsRefused) {
  StartDaemon();
  const ChildProcess process = Sleeper();
  ApiSession session(paths().socket, Registration(process, "mine"));
  v1::AcquireRequest request;
  request.set_client_id(session.client_id() + 1000);
  request.set_stage("load");
  request.set_memory_bytes(1);
  LeaseWait unknown(
      [&](grpc::ClientContext* context) { return session.stub().Acquire(context, request); });
  EXPECT_EQ(unknown.End().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(AdmissionApi, ASessionOfAJobsOwnCommandIsThatJobAndIsCancelledWithIt) {
  StartDaemon();
  const std::int64_t job = Submit({"--wait-free", "0", "--memory", "100M", "--", "sleep", "1000"});
  ASSERT_TRUE(Reaches(job, "RUNNING"));
  ASSERT_TRUE(Eventually([&] { return Show(job).contains("pid"); }));
  v1::RegisterRequest request;
  request.set_pid(Show(job)["pid"].get<std::int32_t>());
  ApiSession session(paths().socket, request);
  EXPECT_EQ(session.client_id(), job);
  EXPECT_EQ(CountJobs(), 1u);
  EXPECT_EQ(Ctl({"cancel", Id(job)}).exit_code, 0);
  const auto told = session.stream().Next();
  ASSERT_TRUE(told && told->has_stop_requested());
  EXPECT_EQ(told->stop_requested().reason(), v1::REASON_CANCELLED);
  EXPECT_TRUE(session.stream().End().ok());
  EXPECT_TRUE(Reaches(job, "CANCELLED"));
}

TEST_F(AdmissionApi, WaitingReasonsAndLeasesAreInTheFrames) {
  StartWithPool("1G");
  const ChildProcess process = Sleeper();
  const ChildProcess other = Sleeper();
  ApiSession first(paths().socket, Registration(process, "first"));
  ApiSession second(paths().socket, Registration(other, "second"));
  GrantOf(*first.Acquire("encode", MiB(800).count()));
  const auto waits = second.Acquire("decode", MiB(800).count());
  ASSERT_TRUE(waits->Next()->has_waiting());
  const auto frame = [&] { return CtlJson({"status"})["frame"]; };
  ASSERT_TRUE(Eventually([&] { return frame()["waiting"].size() == 1; }));
  const nlohmann::json now = frame();
  EXPECT_EQ(now["clients"][0]["leases"][0]["stage"], "encode");
  EXPECT_EQ(now["clients"][0]["leases"][0]["memory_bytes"], MiB(800).count());
  EXPECT_EQ(now["clients"][0]["stage"], "encode");
  EXPECT_EQ(now["clients"][0]["kind"], "SESSION");
  EXPECT_EQ(now["clients"][0]["pid"], process.pid());
  EXPECT_EQ(now["waiting"][0]["stage"], "decode");
  EXPECT_EQ(now["waiting"][0]["name"], "second");
  EXPECT_EQ(now["waiting"][0]["blockers"][0]["kind"], "MEMORY");
}

}  // namespace
}  // namespace stageload::e2e
