// The units that everything here is counted in. A number without a unit in its name or its type is
// a mistake waiting to happen, so sizes are Bytes and levels are Percent from the kernel's counter
// to the last printed line.
//
// Threading: plain values.
#ifndef STAGELOAD_BASE_UNITS_H_
#define STAGELOAD_BASE_UNITS_H_

#include <compare>
#include <cstdint>
#include <limits>

namespace stageload {

// A signed number of bytes: charges and growth can be negative. Arithmetic saturates, since the
// inputs are counters of a kernel or numbers that a user typed, and neither may wrap around.
class Bytes {
 public:
  constexpr Bytes() = default;
  constexpr explicit Bytes(std::int64_t count) : count_(count) {}

  static constexpr Bytes Max() { return Bytes(std::numeric_limits<std::int64_t>::max()); }
  // A kernel's unsigned counter; values that do not fit become Max().
  static constexpr Bytes FromUnsigned(std::uint64_t count) {
    return count > static_cast<std::uint64_t>(Max().count())
               ? Max()
               : Bytes(static_cast<std::int64_t>(count));
  }

  constexpr std::int64_t count() const { return count_; }
  constexpr double AsDouble() const { return static_cast<double>(count_); }

  friend constexpr auto operator<=>(Bytes, Bytes) = default;
  friend constexpr Bytes operator+(Bytes a, Bytes b) {
    std::int64_t sum = 0;
    if (__builtin_add_overflow(a.count_, b.count_, &sum)) return a.count_ > 0 ? Max() : Lowest();
    return Bytes(sum);
  }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    std::int64_t difference = 0;
    if (__builtin_sub_overflow(a.count_, b.count_, &difference)) {
      return a.count_ >= 0 ? Max() : Lowest();
    }
    return Bytes(difference);
  }
  friend constexpr Bytes operator-(Bytes a) { return Bytes(0) - a; }
  // a * fraction, rounded toward zero.
  friend constexpr Bytes operator*(Bytes a, double fraction) {
    const double product = a.AsDouble() * fraction;
    if (product >= Max().AsDouble()) return Max();
    if (product <= Lowest().AsDouble()) return Lowest();
    return Bytes(static_cast<std::int64_t>(product));
  }
  constexpr Bytes& operator+=(Bytes b) { return *this = *this + b; }
  constexpr Bytes& operator-=(Bytes b) { return *this = *this - b; }

 private:
  static constexpr Bytes Lowest() { return Bytes(std::numeric_limits<std::int64_t>::min()); }

  std::int64_t count_ = 0;
};

constexpr Bytes KiB(std::int64_t n) { return Bytes(n * 1024); }
constexpr Bytes MiB(std::int64_t n) { return Bytes(n * 1024 * 1024); }
constexpr Bytes GiB(std::int64_t n) { return Bytes(n * 1024 * 1024 * 1024); }

// 0 to 100.
struct Percent {
  double value = 0;
  friend constexpr auto operator<=>(Percent, Percent) = default;
};

}  // namespace stageload

#endif  // STAGELOAD_BASE_UNITS_H_
