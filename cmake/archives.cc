// Needs something of each library whose archive may be linked (StageloadArchives.cmake).
#include <google/protobuf/any.pb.h>
#include <grpcpp/grpcpp.h>
#include <re2/re2.h>

#include "absl/time/clock.h"

int main() {
  const auto channel = grpc::CreateChannel("unix:/none", grpc::InsecureChannelCredentials());
  grpc::ServerBuilder builder;
  google::protobuf::Any any;
  any.set_type_url(RE2::QuoteMeta("x"));
  return channel && builder.BuildAndStart() && absl::ToUnixSeconds(absl::Now()) == 0 &&
                 any.SerializeAsString().empty()
             ? 1
             : 0;
}
