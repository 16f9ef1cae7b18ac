// A run in 64 bits: two runs of a seed are the same if every event and every effect of theirs is.
// And one line for each, to read when a run has failed.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_DIGEST_H_
#define STAGELOAD_TESTS_SIM_DIGEST_H_

#include <cstdint>
#include <string>

#include "base/instant.h"
#include "daemon/core/effects.h"
#include "daemon/core/events.h"
#include "daemon/core/job.h"

namespace stageload::sim {

class Digest {
 public:
  void Add(std::uint64_t word) {
    value_ = (value_ ^ word) * 0x9e3779b97f4a7c15ULL;
    value_ ^= value_ >> 29;
  }
  void Add(const std::string& text);
  void Add(const Instant& now);
  void Add(const core::JobRecord& record);
  void Add(const core::Event& event);
  void Add(const core::Effect& effect);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325ULL;
};

std::string Describe(const core::Event& event);
std::string Describe(const core::Effect& effect);
std::string Describe(const Instant& now);

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_DIGEST_H_
