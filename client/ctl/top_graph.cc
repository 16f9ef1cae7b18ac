// Steps of a character's height and width.
#include "client/ctl/top_graph.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

namespace stageload::ctl {
namespace {

constexpr std::array<const char*, 9> kEighths = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
constexpr std::array<const char*, 4> kAsciiSteps = {" ", ".", ":", "#"};
constexpr std::array<const char*, 9> kLeftEighths = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉", "█"};

std::size_t Steps(double share, std::size_t of) {
  if (!(share > 0)) return 0;
  return static_cast<std::size_t>(std::lround(std::min(share, 1.0) * static_cast<double>(of)));
}

}  // namespace

void PutGraphRow(PictureLine& line, const std::vector<GraphColumn>& graph, std::size_t row,
                 std::size_t rows, bool utf8) {
  const auto glyphs = utf8 ? std::span<const char* const>(kEighths) : kAsciiSteps;
  const std::size_t full = glyphs.size() - 1;
  const std::size_t below = (rows - 1 - row) * full;
  for (const GraphColumn& column : graph) {
    std::size_t steps = 0;
    if (column.height) steps = std::max<std::size_t>(1, Steps(*column.height, rows * full));
    line.Put(glyphs[std::min(full, steps - std::min(steps, below))], {.ink = column.ink});
  }
}

std::string Bar(double share, std::size_t columns, bool utf8) {
  const std::size_t each = utf8 ? 8 : 1;
  std::size_t steps = Steps(share, columns * each);
  if (steps == 0 && share > 0 && utf8) steps = 1;
  std::string bar;
  for (std::size_t i = 0; i < steps / each; ++i) bar += utf8 ? "█" : "#";
  std::size_t used = steps / each;
  if (utf8 && steps % each != 0) {
    bar += kLeftEighths[steps % each];
    ++used;
  }
  return bar + std::string(columns - used, ' ');
}

}  // namespace stageload::ctl
