// Lays out what `top` knows on a screen of a given size, leaving out what does not fit: a tall and
// wide one has graphs, a table with bars, what waits, and events; one of 40 by 10 still has the
// level, the swap and the rows.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TOP_LAYOUT_H_
#define STAGELOAD_CLIENT_CTL_TOP_LAYOUT_H_

#include <cstddef>

#include "absl/time/time.h"
#include "client/ctl/top_model.h"
#include "client/ctl/top_picture.h"

namespace stageload::ctl {

struct TopScreen {
  std::size_t width = 80;
  std::size_t height = 24;
  bool utf8 = true;
  absl::Time now;
  absl::TimeZone zone;
};

struct TopPicture : Picture {
  std::size_t page = 1;  // rows that Page Down should move by
};

TopPicture Compose(const TopModel& model, const TopScreen& screen);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_LAYOUT_H_
