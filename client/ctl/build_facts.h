// What this program was built with: for whoever reads a report of a fault.
//
// Threading: a pure function.
#ifndef STAGELOAD_CLIENT_CTL_BUILD_FACTS_H_
#define STAGELOAD_CLIENT_CTL_BUILD_FACTS_H_

#include <string>

namespace stageload::ctl {

struct BuildFacts {
  std::string compiler;    // "g++ 12.2.0"
  std::string build_type;  // CMake's, with the sanitizers if there are any
  std::string platform;    // "Linux x86_64"
  std::string day;         // build_day.h
  std::string grpc;        // as it is linked now
  std::string protobuf;
  std::string abseil;
};

BuildFacts FactsOfThisBuild();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_BUILD_FACTS_H_
