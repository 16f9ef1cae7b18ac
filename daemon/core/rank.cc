#include "daemon/core/rank.h"

#include <algorithm>
#include <iterator>

namespace stageload::core {

std::size_t Places::PieceOf(const Rank& rank) const {
  const auto piece =
      std::partition_point(pieces_.begin(), pieces_.end(),
                           [&rank](const std::vector<Rank>& ranks) { return ranks.back() < rank; });
  const auto index = static_cast<std::size_t>(piece - pieces_.begin());
  return index == pieces_.size() && index > 0 ? index - 1 : index;
}

void Places::Insert(const Rank& rank) {
  if (pieces_.empty()) {
    pieces_.push_back({rank});
    return;
  }
  const std::size_t index = PieceOf(rank);
  std::vector<Rank>& piece = pieces_[index];
  piece.insert(std::lower_bound(piece.begin(), piece.end(), rank), rank);
  if (piece.size() <= kLargest) return;
  const auto half = piece.begin() + static_cast<std::ptrdiff_t>(kLargest / 2);
  std::vector<Rank> rest(half, piece.end());
  piece.erase(half, piece.end());
  pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(rest));
}

void Places::Erase(const Rank& rank) {
  const std::size_t index = PieceOf(rank);
  std::vector<Rank>& piece = pieces_[index];
  piece.erase(std::lower_bound(piece.begin(), piece.end(), rank));
  if (piece.empty()) pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(index));
}

std::int64_t Places::Of(const Rank& rank) const {
  const std::size_t index = PieceOf(rank);
  std::int64_t before = 0;
  for (std::size_t i = 0; i < index; ++i) before += static_cast<std::int64_t>(pieces_[i].size());
  const std::vector<Rank>& piece = pieces_[index];
  return before + 1 + (std::lower_bound(piece.begin(), piece.end(), rank) - piece.begin());
}

}  // namespace stageload::core
