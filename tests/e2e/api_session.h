// Registrations and leases over the API itself, as any program could ask for them; the C++ library
// is not in it.
//
// Threading: each object belongs to one thread; streams are read in a thread of their own.
#ifndef STAGELOAD_TESTS_E2E_API_SESSION_H_
#define STAGELOAD_TESTS_E2E_API_SESSION_H_

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "stageload/v1/admission_service.grpc.pb.h"

namespace stageload::e2e {

// A connection of its own.
inline std::shared_ptr<grpc::Channel> ApiChannel(const std::string& socket) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel("unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
}

// What a server stream brings, in order; cancelled when destroyed.
template <typename Response>
class ApiStream {
 public:
  using Open = std::function<std::unique_ptr<grpc::ClientReader<Response>>(grpc::ClientContext*)>;

  explicit ApiStream(const Open& open) : reader_(open(&context_)), thread_([this] { Read(); }) {}
  ~ApiStream() {
    context_.TryCancel();
    thread_.join();
  }
  ApiStream(const ApiStream&) = delete;
  ApiStream& operator=(const ApiStream&) = delete;

  // Absent when the stream has ended, or nothing came within 30 s.
  std::optional<Response> Next() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kWait, [this] { return !read_.empty() || status_; })) {
      ADD_FAILURE() << "nothing came within 30 s";
    }
    if (read_.empty()) return std::nullopt;
    Response next = std::move(read_.front());
    read_.pop_front();
    return next;
  }
  bool HasNext() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return !read_.empty();
  }
  // How it ended.
  grpc::Status End() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (!changed_.wait_for(lock, kWait, [this] { return status_.has_value(); })) {
      ADD_FAILURE() << "the stream goes on for 30 s";
      return grpc::Status(grpc::StatusCode::UNKNOWN, "it goes on");
    }
    return *status_;
  }

 private:
  static constexpr std::chrono::seconds kWait{30};

  void Read() {
    Response response;
    while (reader_->Read(&response)) {
      const std::lock_guard<std::mutex> lock(mutex_);
      read_.push_back(std::move(response));
      changed_.notify_all();
    }
    const grpc::Status status = reader_->Finish();
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = status;
    changed_.notify_all();
  }

  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Response>> reader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Response> read_;
  std::optional<grpc::Status> status_;
  std::thread thread_;  // last: it uses the others
};

using LeaseWait = ApiStream<v1::AcquireResponse>;

// One registration over a connection of its own.
class ApiSession {
 public:
  ApiSession(const std::string& socket, const v1::RegisterRequest& request)
      : stub_(v1::AdmissionService::NewStub(ApiChannel(socket))),
        stream_([&](grpc::ClientContext* context) { return stub_->Register(context, request); }) {
    const auto first = stream_.Next();
    if (first && first->has_registered()) client_id_ = first->registered().client_id();
  }

  std::int64_t client_id() const { return client_id_; }  // 0 when it was refused
  ApiStream<v1::RegisterResponse>& stream() { return stream_; }
  v1::AdmissionService::Stub& stub() { return *stub_; }

  std::unique_ptr<LeaseWait> Acquire(const std::string& stage, std::int64_t memory,
                                     std::optional<std::int64_t> start_timeout_ns = std::nullopt) {
    v1::AcquireRequest request;
    request.set_client_id(client_id_);
    request.set_stage(stage);
    request.set_memory_bytes(memory);
    if (start_timeout_ns) request.set_start_timeout_ns(*start_timeout_ns);
    return std::make_unique<LeaseWait>(
        [&](grpc::ClientContext* context) { return stub_->Acquire(context, request); });
  }
  grpc::Status Release(std::int64_t lease_id) {
    grpc::ClientContext context;
    v1::ReleaseRequest request;
    request.set_client_id(client_id_);
    request.set_lease_id(lease_id);
    v1::ReleaseResponse response;
    return stub_->Release(&context, request, &response);
  }

 private:
  std::unique_ptr<v1::AdmissionService::Stub> stub_;
  std::int64_t client_id_ = 0;
  ApiStream<v1::RegisterResponse> stream_;
};

// Of a wait: its grant, past what it was told before.
inline v1::Granted GrantOf(LeaseWait& wait) {
  while (const auto next = wait.Next()) {
    if (next->has_granted()) return next->granted();
  }
  ADD_FAILURE() << "no grant: " << wait.End().error_message();
  return {};
}

}  // namespace stageload::e2e

#endif  // STAGELOAD_TESTS_E2E_API_SESSION_H_
