#include "daemon/rpc/typed_call.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/proto_buffer_writer.h>

#include <algorithm>

namespace stageload::rpc {
namespace {

constexpr int kMaxSliceBytes = 1 << 20;

}  // namespace

grpc::ByteBuffer Serialized(const google::protobuf::MessageLite& message) {
  grpc::ByteBuffer bytes;
  const int size = static_cast<int>(message.ByteSizeLong());
  grpc::ProtoBufferWriter writer(&bytes, std::clamp(size, 1, kMaxSliceBytes), size);
  // Into memory that is as large as it asks for, it cannot fail.
  static_cast<void>(message.SerializePartialToZeroCopyStream(&writer));
  return bytes;
}

bool Parse(grpc::ByteBuffer& bytes, google::protobuf::MessageLite& message) {
  grpc::ProtoBufferReader reader(&bytes);
  return reader.status().ok() && message.ParseFromZeroCopyStream(&reader);
}

}  // namespace stageload::rpc
