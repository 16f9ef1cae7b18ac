// How things look to a person: aligned tables, colour only where it is seen, nothing wider than the
// terminal, and nothing from a job's name that could drive the terminal.
//
// Threading: pure functions, but for those that write.
#ifndef STAGELOAD_CLIENT_CTL_PRINT_H_
#define STAGELOAD_CLIENT_CTL_PRINT_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/print_text.h"

namespace stageload::ctl {

// Writes all of it past stdio's buffers; false when the reader is gone.
[[nodiscard]] bool WriteAll(int fd, std::string_view bytes);
// To stdout. A false is the end of the command: it cannot be written, which is said on stderr, or
// nobody reads any more, which is not.
[[nodiscard]] bool Out(std::string_view text);
// Once, when nothing more is to be written: some file systems tell only here that it did not work.
[[nodiscard]] bool CloseOut();

// Columns of the terminal behind `fd`; 0 when it is not a terminal.
std::size_t TerminalWidth(int fd);
// TERM is "dumb" or empty: it knows no escape sequences.
bool IsDumbTerminal();
// A terminal, not a dumb one, and NO_COLOR unset or empty (https://no-color.org).
bool UseColour(int fd);

enum class Colour { kNone, kGreen, kYellow, kRed, kBold };

struct Column {
  std::string title;
  bool right = false;     // aligned to the right
  std::size_t limit = 0;  // cut to this many columns; 0 is no limit
  // On a terminal that is too narrow for all, the columns with the largest of these go first; 0
  // stays.
  int spare = 0;
  // Of the last column: what is too wide for it goes on below instead of being cut, all of it where
  // there is hardly room beside the others.
  bool wrap = false;
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
  // No line is wider than `width`, if that can be: spare columns are left out, then the last one is
  // cut or wrapped. 0 is no limit.
  std::string Text(std::size_t width, bool colour) const;

 private:
  // Of each column; none for what is left out.
  using Widths = std::vector<std::optional<std::size_t>>;
  Widths NaturalWidths() const;
  static std::size_t LastShown(const Widths& widths);
  // Leaves spare columns out until `fits` says that the others do.
  template <typename Fits>
  void LeaveOut(Widths& widths, Fits fits) const;
  Widths WidthsFor(std::size_t width) const;
  std::string Wrapped(const std::vector<Cell>& cells, const Widths& widths, std::size_t width,
                      bool colour) const;
  std::string Line(const std::vector<Cell>& cells, const Widths& widths, bool colour) const;

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PRINT_H_
