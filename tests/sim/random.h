// The simulator's only source of chance. One seed gives one sequence, the same on every platform
// and with every standard library, which std::uniform_int_distribution and its like do not promise.
//
// Threading: one owner.
#ifndef STAGELOAD_TESTS_SIM_RANDOM_H_
#define STAGELOAD_TESTS_SIM_RANDOM_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"
#include "base/units.h"

namespace stageload::sim {

class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  // Steele, Lea and Flood's split-mix step: a counter, well stirred. Seeds that differ by one give
  // sequences that have nothing in common.
  std::uint64_t Next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }

  // A generator of its own, so that what one part draws doesn't move what another sees.
  Random Fork() { return Random(Next() ^ 0x6a09e667f3bcc909ULL); }

  // 0 to n - 1, of n > 0. The bias of the plain remainder is below 2^-32 for every n used here.
  std::uint64_t Below(std::uint64_t n) { return Next() % n; }
  int Between(int low, int high) {
    return low + static_cast<int>(Below(static_cast<std::uint64_t>(high - low + 1)));
  }
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }
  double Between(double low, double high) { return low + (high - low) * Unit(); }
  bool Chance(double probability) { return Unit() < probability; }
  absl::Duration Between(absl::Duration low, absl::Duration high) {
    return low + absl::Nanoseconds(static_cast<std::int64_t>(
                     Unit() * static_cast<double>(absl::ToInt64Nanoseconds(high - low))));
  }
  Bytes Between(Bytes low, Bytes high) { return low + (high - low) * Unit(); }

  template <typename T>
  const T& Pick(const std::vector<T>& from) {
    return from[static_cast<std::size_t>(Below(from.size()))];
  }
  template <typename T, std::size_t kSize>
  const T& Pick(const std::array<T, kSize>& from) {
    return from[static_cast<std::size_t>(Below(kSize))];
  }

 private:
  std::uint64_t state_;
};

}  // namespace stageload::sim

#endif  // STAGELOAD_TESTS_SIM_RANDOM_H_
