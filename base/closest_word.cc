// The distance of Damerau and Levenshtein in its restricted form (optimal string alignment).
#include "base/closest_word.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace stageload {
namespace {

constexpr int kMostSteps = 3;
constexpr std::size_t kLongestWord = 64;  // nobody mistypes more, and the table stays small
constexpr std::size_t kShortestBegin = 2;

std::string Lower(std::string_view word) {
  std::string lower(word);
  absl::AsciiStrToLower(&lower);
  return lower;
}

int StepsAllowed(std::size_t letters) {
  return std::clamp(static_cast<int>(letters) / 3, 1, kMostSteps);
}

// The only one that begins so.
std::optional<std::string> OnlyOneThatBegins(const std::string& begin,
                                             const std::vector<std::string>& known) {
  std::optional<std::string> found;
  if (begin.size() < kShortestBegin) return found;
  for (const std::string& each : known) {
    if (Lower(each).compare(0, begin.size(), begin) != 0) continue;
    if (found) return std::nullopt;
    found = each;
  }
  return found;
}

}  // namespace

int EditDistance(std::string_view a, std::string_view b) {
  // Rows of the table: two letters ago, one ago, now.
  std::vector<int> older(b.size() + 1), old(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) old[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int changed = old[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({changed, old[j] + 1, row[j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], older[j - 2] + 1);
    }
    std::swap(older, old);
    std::swap(old, row);
  }
  return old[b.size()];
}

std::optional<std::string> ClosestWord(std::string_view word,
                                       const std::vector<std::string>& known) {
  if (word.empty() || word.size() > kLongestWord) return std::nullopt;
  const std::string meant = Lower(word);
  std::optional<std::string> closest;
  int fewest = 0;
  for (const std::string& each : known) {
    const int steps = EditDistance(meant, Lower(each));
    const bool close = steps <= StepsAllowed(std::max(each.size(), meant.size()));
    // A word of two letters is one step away from half of all such words.
    if (!close || static_cast<std::size_t>(steps) >= std::min(each.size(), meant.size())) continue;
    if (closest && steps >= fewest) continue;
    closest = each;
    fewest = steps;
  }
  return closest ? closest : OnlyOneThatBegins(meant, known);
}

std::string DidYouMean(std::string_view word, const std::vector<std::string>& known) {
  const std::optional<std::string> closest = ClosestWord(word, known);
  return closest ? absl::StrCat("; did you mean ", *closest, "?") : "";
}

}  // namespace stageload
