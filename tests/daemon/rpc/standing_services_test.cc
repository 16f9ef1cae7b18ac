// What needs no engine: the end of streams, version, health and reflection.
#include <google/protobuf/descriptor.pb.h>
#include <grpcpp/generic/generic_stub.h>
#include <unistd.h>

#include <atomic>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error_reason.h"
#include "base/version.h"
#include "daemon/rpc/services.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "gtest/gtest.h"
#include "stageload/v1/admin_service.grpc.pb.h"
#include "stageload/v1/telemetry_service.grpc.pb.h"
#include "tests/daemon/rpc/hub_fixture.h"

namespace stageload::rpc {
namespace {

using ::testing::Contains;
using ::testing::UnorderedElementsAre;

class StandingServicesTest : public HubFixture {};

// ---- The end ----

TEST_F(StandingServicesTest, StopEndsAllStreamsWithAWordWithinItsTime) {
  constexpr std::size_t kStreams = 50;
  std::vector<std::unique_ptr<Context>> contexts;
  std::vector<Reader> readers;
  for (std::size_t i = 0; i < kStreams; ++i) {
    contexts.push_back(std::make_unique<Context>());
    readers.push_back(Watch(*contexts.back()));
  }
  // One that has a write under way and does not read.
  for (int i = 0; i < 100; ++i) Publish(absl::ZeroDuration(), 64 << 10);
  std::vector<grpc::Status> ends(kStreams);
  std::thread reading([&] {  // all but the first
    for (std::size_t i = 1; i < kStreams; ++i) {
      v1::WatchTelemetryResponse response;
      while (readers[i]->Read(&response)) {
      }
      ends[i] = readers[i]->Finish();
    }
  });
  const absl::Time before = absl::Now();
  api_.Stop(absl::Milliseconds(1500));
  EXPECT_LT(absl::Now() - before, absl::Seconds(2));
  reading.join();
  for (std::size_t i = 1; i < kStreams; ++i) {
    EXPECT_EQ(ends[i].error_code(), grpc::StatusCode::UNAVAILABLE) << ends[i].error_message();
  }
  EXPECT_EQ(hub_.subscribers(), 0);
}

TEST_F(StandingServicesTest, AStreamThatReadsIsToldThatTheDaemonShutsDown) {
  Context context;
  const Reader reader = Watch(context);
  api_.Stop(absl::Milliseconds(1500));
  v1::WatchTelemetryResponse response;
  EXPECT_FALSE(reader->Read(&response));
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ReasonOnWire(status), kShuttingDown);
}

TEST_F(StandingServicesTest, AClientThatIsIdleDoesNotHoldUpTheEnd) {
  // Greets as HTTP/2 has it (RFC 9113, 3.4 and 6.5: the preface and empty SETTINGS) and then
  // answers nothing, as a client whose program does something else. Not through gRPC: its threads
  // in this process would look after it.
  const Socket client = Socket::ConnectedTo(api_.path());
  const std::string greeting("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", 33);
  ASSERT_EQ(::write(client.fd(), greeting.data(), greeting.size()), 33);
  char first = 0;
  ASSERT_EQ(::read(client.fd(), &first, 1), 1) << "the server's greeting";
  const absl::Time before = absl::Now();
  api_.Stop(absl::Seconds(20));
  EXPECT_LT(absl::Now() - before, absl::Seconds(10));
}

// Streams a frame that must wait for its reader, and returns when all of it was read.
absl::Time ServeALargeFrame() {
  telemetry::Hub hub{EncodeFrame};
  Parts parts;
  parts.hub = &hub;
  Api api(parts);
  const auto stub = v1::TelemetryService::NewStub(api.Connect());
  Context context;
  const Reader reader = stub->WatchTelemetry(&context, {});
  EXPECT_TRUE(Eventually([&] { return hub.subscribers() == 1; }));
  telemetry::Frame frame;
  frame.clients.resize(1);
  frame.clients[0].name = std::string(1 << 20, 'x');
  for (int i = 0; i < 3; ++i) {
    hub.Publish(frame);
    hub.Deliver();
  }
  v1::WatchTelemetryResponse response;
  while (response.frame().sequence() < 3 && reader->Read(&response)) {
  }
  return absl::Now();
}

TEST(EndOfTheServerTest, AnAnswerThatHadToWaitForItsReaderDoesNotHoldUpTheEndOfTheProcess) {
  for (int round = 0; round < 5; ++round) {
    const absl::Time read = ServeALargeFrame();
    // gRPC's own poller would wait for 10 s.
    EXPECT_LT(absl::Now() - read, absl::Seconds(8));
  }
}

// ---- Calls ----

grpc::Status CallWith(const std::shared_ptr<grpc::Channel>& channel, const std::string& path,
                      const std::string& bytes) {
  grpc::GenericStub stub(channel);
  Context context;
  const grpc::Slice slice(bytes);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::ByteBuffer response;
  std::promise<grpc::Status> done;
  stub.UnaryCall(&context, path, {}, &request, &response,
                 [&](grpc::Status status) { done.set_value(std::move(status)); });
  return done.get_future().get();
}

TEST_F(StandingServicesTest, EachMethodOfTheApiIsThereAndRefusesWhatIsNotItsRequest) {
  const auto channel = api_.Connect();
  int methods = 0;
  for (const std::string& name : ServiceNames()) {
    const auto* const service =
        google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(name);
    ASSERT_NE(service, nullptr) << name;
    for (int i = 0; i < service->method_count(); ++i, ++methods) {
      const std::string path =
          absl::StrCat("/", name, "/", std::string(service->method(i)->name()));
      const grpc::Status status = CallWith(channel, path, "\xff");
      EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << path;
      EXPECT_EQ(status.error_message(), "the request is not of the method's type") << path;
    }
  }
  EXPECT_GT(methods, 30);
}

TEST_F(StandingServicesTest, AMethodThatIsNotThereIsNamedWithTheVersion) {
  const grpc::Status status = CallWith(api_.Connect(), "/stageload.v1.JobService/Teleport", "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message().find(absl::StrCat(
                "stageloadd ", kVersion, " has no method /stageload.v1.JobService/Teleport")),
            0u)
      << status.error_message();
}

TEST_F(StandingServicesTest, ARequestThatIsTooLargeIsRefusedAndTheConnectionGoesOn) {
  const auto channel = api_.Connect();
  const std::string path = "/stageload.v1.AdminService/GetVersion";
  EXPECT_EQ(CallWith(channel, path, std::string((4 << 20) + 1, '\n')).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_TRUE(CallWith(channel, path, "").ok());
}

TEST_F(StandingServicesTest, ACallWithoutARequestIsRefused) {
  grpc::GenericStub stub(api_.Connect());
  class NoRequest final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
   public:
    void OnDone(const grpc::Status& status) override { done.set_value(status); }
    std::promise<grpc::Status> done;
  } call;
  Context context;
  stub.PrepareBidiStreamingCall(&context, "/stageload.v1.AdminService/GetVersion", {}, &call);
  call.StartWritesDone();
  call.StartCall();
  EXPECT_EQ(call.done.get_future().get().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

// ---- Admin ----

TEST_F(StandingServicesTest, TheVersionSaysWhoServes) {
  Context context;
  v1::GetVersionResponse response;
  const auto admin = v1::AdminService::NewStub(channel_);
  ASSERT_TRUE(admin->GetVersion(&context, {}, &response).ok());
  EXPECT_EQ(response.version(), kVersion);
  EXPECT_EQ(response.api_level(), kApiLevel);
  EXPECT_EQ(response.pid(), ::getpid());
  EXPECT_EQ(response.start_time_ns(), 1'000'000'000);
  EXPECT_EQ(response.state_directory(), "/state");
  EXPECT_EQ(response.started_by(), v1::STARTED_BY_USER);
  EXPECT_EQ(shutdowns_, 0);
}

TEST_F(StandingServicesTest, ShutdownIsAnsweredAndAskedForOnce) {
  Context context;
  v1::ShutdownResponse response;
  const auto admin = v1::AdminService::NewStub(channel_);
  ASSERT_TRUE(admin->Shutdown(&context, {}, &response).ok());
  EXPECT_EQ(response.pid(), ::getpid());
  EXPECT_TRUE(Eventually([&] { return shutdowns_ == 1; }));
}

// ---- Health ----

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

TEST_F(StandingServicesTest, HealthIsServingForTheWholeAndForEachServiceAndNotFoundForOthers) {
  const auto health = Health::NewStub(channel_);
  for (const char* name : {"", "stageload.v1.JobService", "grpc.health.v1.Health"}) {
    Context context;
    HealthCheckRequest request;
    request.set_service(name);
    HealthCheckResponse response;
    ASSERT_TRUE(health->Check(&context, request, &response).ok()) << name;
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << name;
  }
  Context context;
  HealthCheckRequest request;
  request.set_service("no.such.Service");
  HealthCheckResponse response;
  EXPECT_EQ(health->Check(&context, request, &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(StandingServicesTest, AHealthWatchStaysOpenAndEndsWithTheDaemon) {
  const auto health = Health::NewStub(channel_);
  Context known_context;
  const auto known = health->Watch(&known_context, {});
  HealthCheckResponse response;
  ASSERT_TRUE(known->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVING);
  Context unknown_context;
  HealthCheckRequest request;
  request.set_service("no.such.Service");
  const auto unknown = health->Watch(&unknown_context, request);
  ASSERT_TRUE(unknown->Read(&response));
  EXPECT_EQ(response.status(), HealthCheckResponse::SERVICE_UNKNOWN);
  api_.Stop(absl::Milliseconds(1500));
  EXPECT_FALSE(known->Read(&response));
  EXPECT_EQ(known->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_FALSE(unknown->Read(&response));
  EXPECT_EQ(unknown->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// ---- Reflection ----

template <typename Service, typename Request, typename Response>
class Reflection {
 public:
  explicit Reflection(const std::shared_ptr<grpc::Channel>& channel)
      : stub_(Service::NewStub(channel)), stream_(stub_->ServerReflectionInfo(&context_)) {}

  Response Ask(const Request& request) {
    Response response;
    EXPECT_TRUE(stream_->Write(request) && stream_->Read(&response));
    return response;
  }
  std::set<std::string> Services() {
    Request request;
    request.set_list_services("*");
    std::set<std::string> names;
    const Response response = Ask(request);
    for (const auto& service : response.list_services_response().service()) {
      names.emplace(service.name());
    }
    return names;
  }
  // Names of the files in the answer about `symbol`.
  std::set<std::string> FilesOf(const std::string& symbol) {
    Request request;
    request.set_file_containing_symbol(symbol);
    std::set<std::string> names;
    const Response response = Ask(request);
    for (const auto& bytes : response.file_descriptor_response().file_descriptor_proto()) {
      google::protobuf::FileDescriptorProto file;
      EXPECT_TRUE(file.ParseFromString(std::string(bytes)));
      names.emplace(file.name());
    }
    return names;
  }
  grpc::Status End() {
    EXPECT_TRUE(stream_->WritesDone());
    return stream_->Finish();
  }

 private:
  Context context_;
  std::unique_ptr<typename Service::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};

template <typename Service, typename Request, typename Response>
void ExpectReflects(const std::shared_ptr<grpc::Channel>& channel) {
  Reflection<Service, Request, Response> reflection(channel);
  EXPECT_THAT(reflection.Services(),
              UnorderedElementsAre("stageload.v1.JobService", "stageload.v1.AdmissionService",
                                   "stageload.v1.TelemetryService", "stageload.v1.AdminService",
                                   "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                   "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_THAT(reflection.FilesOf("stageload.v1.JobService"),
              UnorderedElementsAre("stageload/v1/job_service.proto", "stageload/v1/job.proto",
                                   "stageload/v1/policy.proto"));
  EXPECT_THAT(reflection.FilesOf("stageload.v1.JobService.SubmitJob"),
              Contains("stageload/v1/job_service.proto"));
  Request request;
  request.set_file_by_filename("stageload/v1/policy.proto");
  EXPECT_EQ(reflection.Ask(request).file_descriptor_response().file_descriptor_proto_size(), 1);
  request.set_file_containing_symbol("no.such.Symbol");
  const Response response = reflection.Ask(request);
  EXPECT_EQ(response.error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(response.original_request().file_containing_symbol(), "no.such.Symbol");
  EXPECT_EQ(reflection.Ask(Request()).error_response().error_code(),
            grpc::StatusCode::INVALID_ARGUMENT)
      << "the stream goes on after an error";
  EXPECT_TRUE(reflection.End().ok());
}

TEST_F(StandingServicesTest, ReflectionListsAndDescribesWhatIsServed) {
  using namespace grpc::reflection::v1;
  ExpectReflects<ServerReflection, ServerReflectionRequest, ServerReflectionResponse>(channel_);
}

TEST_F(StandingServicesTest, ReflectionAnswersUnderItsOlderNameToo) {
  using namespace grpc::reflection::v1alpha;
  ExpectReflects<ServerReflection, ServerReflectionRequest, ServerReflectionResponse>(channel_);
}

}  // namespace
}  // namespace stageload::rpc
