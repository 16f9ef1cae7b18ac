// How things look to a person: aligned tables, colour only where it is seen, nothing wider than the
// terminal, and nothing from a job's name that could drive the terminal.
//
// Threading: pure functions, but for those that write.
#ifndef STAGELOAD_CLIENT_CTL_PRINT_H_
#define STAGELOAD_CLIENT_CTL_PRINT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/print_text.h"

namespace stageload::ctl {

// Writes all of it past stdio's buffers; false when the reader is gone.
[[nodiscard]] bool WriteAll(int fd, std::string_view bytes);
// To stdout. A false is the end of the command: nobody reads any more.
[[nodiscard]] bool Out(std::string_view text);

// Columns of the terminal behind `fd`; 0 when it is not a terminal.
std::size_t TerminalWidth(int fd);
// A terminal, NO_COLOR unset or empty (https://no-color.org), and not TERM=dumb.
bool UseColour(int fd);

enum class Colour { kNone, kGreen, kYellow, kRed, kBold };

struct Column {
  std::string title;
  bool right = false;     // aligned to the right
  std::size_t limit = 0;  // cut to this many columns; 0 is no limit
};
struct Cell {
  Cell(std::string value, Colour shade = Colour::kNone)  // NOLINT: a string is a plain cell
      : text(std::move(value)), colour(shade) {}
  std::string text;
  Colour colour;
};

// Rows under titles, two spaces between columns.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  void Add(std::vector<Cell> row) { rows_.push_back(std::move(row)); }
  bool empty() const { return rows_.empty(); }
  // The last column is cut so that no line is wider than `width`; 0 is no limit.
  std::string Text(std::size_t width, bool colour) const;

 private:
  std::vector<std::size_t> Widths(std::size_t width) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PRINT_H_
