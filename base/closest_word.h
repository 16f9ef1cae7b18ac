// Which of the words that are known somebody meant who has written another: for "did you mean".
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_CLOSEST_WORD_H_
#define STAGELOAD_BASE_CLOSEST_WORD_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stageload {

// How many letters have to be put in, left out, changed or swapped with their neighbour.
int EditDistance(std::string_view a, std::string_view b);

// The one that is fewest steps away, if it is close enough to be a slip: a third of its letters, at
// most three. Else the only one that `word` begins. Upper and lower case are the same.
std::optional<std::string> ClosestWord(std::string_view word,
                                       const std::vector<std::string>& known);

// "; did you mean queue?", or nothing where no word is close.
std::string DidYouMean(std::string_view word, const std::vector<std::string>& known);

}  // namespace stageload

#endif  // STAGELOAD_BASE_CLOSEST_WORD_H_
