// The order of starts, and the place of each in it.
//
// Threading: one owner; no I/O, no clock.
#ifndef STAGELOAD_DAEMON_CORE_RANK_H_
#define STAGELOAD_DAEMON_CORE_RANK_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "daemon/core/ids.h"

namespace stageload::core {

// Higher priority, then arrival.
struct Rank {
  int priority = 0;
  JobId id{};
  friend bool operator==(const Rank&, const Rank&) = default;
  friend std::strong_ordering operator<=>(const Rank& a, const Rank& b) {
    if (a.priority != b.priority) return b.priority <=> a.priority;
    return a.id <=> b.id;
  }
};

// Tells how many go before one without walking over them: ranks in order, in pieces of bounded
// size. With 100,000 of them each call looks at some two hundred sizes.
class Places {
 public:
  void Insert(const Rank& rank);
  void Erase(const Rank& rank);             // must be there
  std::int64_t Of(const Rank& rank) const;  // from 1; must be there

 private:
  static constexpr std::size_t kLargest = 1024;

  // Of the first piece that ends at `rank` or after it, else of the last.
  std::size_t PieceOf(const Rank& rank) const;

  std::vector<std::vector<Rank>> pieces_;  // none is empty
};

}  // namespace stageload::core

#endif  // STAGELOAD_DAEMON_CORE_RANK_H_
