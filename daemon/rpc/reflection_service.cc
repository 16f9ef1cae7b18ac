#include "daemon/rpc/reflection_service.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <set>
#include <string>

#include "daemon/rpc/services.h"
#include "daemon/rpc/typed_call.h"

namespace stageload::rpc {
namespace {

namespace pb = google::protobuf;

using Request = grpc::reflection::v1::ServerReflectionRequest;
using Response = grpc::reflection::v1::ServerReflectionResponse;

const pb::DescriptorPool& Pool() { return *pb::DescriptorPool::generated_pool(); }

// The file and all that it imports, each once.
void AddFile(const pb::FileDescriptor* file, std::set<const pb::FileDescriptor*>& seen,
             grpc::reflection::v1::FileDescriptorResponse& response) {
  if (!seen.insert(file).second) return;
  pb::FileDescriptorProto proto;
  file->CopyTo(&proto);
  response.add_file_descriptor_proto(proto.SerializeAsString());
  for (int i = 0; i < file->dependency_count(); ++i) AddFile(file->dependency(i), seen, response);
}

void AnswerError(grpc::StatusCode code, const std::string& text, Response& response) {
  response.mutable_error_response()->set_error_code(static_cast<int>(code));
  response.mutable_error_response()->set_error_message(text);
}

void AnswerFile(const pb::FileDescriptor* file, const std::string& asked, Response& response) {
  if (file == nullptr) {
    return AnswerError(grpc::StatusCode::NOT_FOUND, asked + " is not known here", response);
  }
  std::set<const pb::FileDescriptor*> seen;
  AddFile(file, seen, *response.mutable_file_descriptor_response());
}

void Answer(const Request& request, Response& response) {
  response.set_valid_host(request.host());
  *response.mutable_original_request() = request;
  switch (request.message_request_case()) {
    case Request::kFileByFilename:
      return AnswerFile(Pool().FindFileByName(request.file_by_filename()),
                        request.file_by_filename(), response);
    case Request::kFileContainingSymbol:
      return AnswerFile(Pool().FindFileContainingSymbol(request.file_containing_symbol()),
                        request.file_containing_symbol(), response);
    case Request::kListServices:
      for (const std::string& name : ServiceNames()) {
        response.mutable_list_services_response()->add_service()->set_name(name);
      }
      return;
    case Request::kFileContainingExtension:
    case Request::kAllExtensionNumbersOfType:
      return AnswerError(grpc::StatusCode::NOT_FOUND, "there are no extensions here", response);
    case Request::MESSAGE_REQUEST_NOT_SET:
      return AnswerError(grpc::StatusCode::INVALID_ARGUMENT, "nothing was asked", response);
  }
}

// Read one, write one; deletes itself.
class Reactor final : public grpc::ServerGenericBidiReactor {
 public:
  Reactor() { StartRead(&message_); }

  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    Request request;
    if (!Parse(message_, request)) {
      return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                 "the request is not of the method's type"));
    }
    Response response;
    Answer(request, response);
    message_ = Serialized(response);
    StartWrite(&message_);
  }
  void OnWriteDone(bool ok) override {
    if (!ok) return Finish(grpc::Status(grpc::StatusCode::CANCELLED, "the caller went away"));
    StartRead(&message_);
  }
  void OnDone() override { delete this; }

 private:
  grpc::ByteBuffer message_;
};

}  // namespace

grpc::ServerGenericBidiReactor* NewReflection() { return new Reactor; }

}  // namespace stageload::rpc
