#include "client/ctl/build_facts.h"

#include <google/protobuf/stubs/common.h>
#include <grpcpp/grpcpp.h>

#include "absl/base/config.h"
#include "absl/strings/str_cat.h"
#include "client/ctl/build_day.h"

namespace stageload::ctl {
namespace {

std::string Compiler() {
#if defined(__clang__)
  return absl::StrCat("clang ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  return absl::StrCat("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
}

std::string Platform() {
#if defined(__APPLE__)
  const char* const system = "Darwin";
#else
  const char* const system = "Linux";
#endif
#if defined(__aarch64__)
  const char* const processor = "arm64";
#elif defined(__x86_64__)
  const char* const processor = "x86_64";
#else
  const char* const processor = "of another processor";
#endif
  return absl::StrCat(system, " ", processor);
}

std::string Abseil() {
#ifdef ABSL_LTS_RELEASE_VERSION
  return absl::StrCat(ABSL_LTS_RELEASE_VERSION);
#else
  return "no release";
#endif
}

std::string Protobuf() {
  constexpr int kVersion = GOOGLE_PROTOBUF_VERSION;  // 3021012 is 3.21.12
  return absl::StrCat(kVersion / 1'000'000, ".", kVersion / 1000 % 1000, ".", kVersion % 1000);
}

}  // namespace

BuildFacts FactsOfThisBuild() {
  return {Compiler(),      STAGELOAD_BUILD_TYPE, Platform(), BuildDay(),
          grpc::Version(), Protobuf(),           Abseil()};
}

}  // namespace stageload::ctl
