// Two sizes of which a sentence says that one is larger.
//
// Threading: a pure function.
#ifndef STAGELOAD_BASE_DIFFERING_SIZES_H_
#define STAGELOAD_BASE_DIFFERING_SIZES_H_

#include <string>

#include "base/units.h"

namespace stageload {

struct SizeTexts {
  std::string first;
  std::string second;
};

// As FormatBytes prints each. Where these are the same and the sizes are not, with more digits
// ("1.001 GiB" and "1 GiB"), or to the byte.
SizeTexts FormatDiffering(Bytes first, Bytes second);

}  // namespace stageload

#endif  // STAGELOAD_BASE_DIFFERING_SIZES_H_
