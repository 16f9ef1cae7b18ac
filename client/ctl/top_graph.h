// Graphs made of characters: eighths of a block where the terminal knows Unicode, else ASCII.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_TOP_GRAPH_H_
#define STAGELOAD_CLIENT_CTL_TOP_GRAPH_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "client/ctl/top_picture.h"

namespace stageload::ctl {

// One column of a graph; without a height nothing is known of it.
struct GraphColumn {
  std::optional<double> height;  // 0 to 1
  Ink ink = Ink::kPlain;
};

// Adds line `row` of `rows` (0 is the top) to `line`, one character a column. What is known shows
// at the bottom, also where it is 0.
void PutGraphRow(PictureLine& line, const std::vector<GraphColumn>& graph, std::size_t row,
                 std::size_t rows, bool utf8);

// "███▌    " or "####    ", `columns` wide, filled to `share` of it; above 1 it is full.
std::string Bar(double share, std::size_t columns, bool utf8);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_GRAPH_H_
