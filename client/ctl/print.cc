// Tables and terminals.
#include "client/ctl/print.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stageload::ctl {
namespace {

// Columns that the last column of a table has at least, before others are left out for it; and
// below which it is not cut.
constexpr std::size_t kLeastForLast = 16;
constexpr std::size_t kLeastToWrap = 24;  // of one that is wrapped
constexpr char kBelow[] = "    ";         // before what has lines of its own
constexpr std::size_t kLeastToCut = 10;
constexpr std::size_t kLeastOfName = 8;

std::string_view Escape(Colour colour) {
  switch (colour) {
    case Colour::kNone:
      return "";
    case Colour::kGreen:
      return "\033[32m";
    case Colour::kYellow:
      return "\033[33m";
    case Colour::kRed:
      return "\033[31m";
    case Colour::kBold:
      return "\033[1m";
  }
  return "";
}

// One cell, padded to `width` unless it ends its line.
void AppendCell(std::string& line, const Cell& cell, const Column& column, std::size_t width,
                bool last, bool colour) {
  const std::string text = Cut(Printable(cell.text), width);
  const std::string padding(width - std::min(width, Columns(text)), ' ');
  if (column.right) line += padding;
  const std::string_view escape = colour ? Escape(cell.colour) : "";
  line += escape;
  line += text;
  if (!escape.empty()) line += "\033[0m";
  if (!column.right && !last) line += padding;
  line += last ? "\n" : "  ";
}

// Says why stdout could not be written; false, for whoever returns that.
bool OutFailed() {
  if (errno == EPIPE) return false;
  const std::string why = std::strerror(errno);
  (void)WriteAll(STDERR_FILENO, "stageload: write to stdout: " + why + "\n");
  return false;
}

// Empty cells at its end leave no blanks.
void EndLine(std::string& text) {
  text.resize(text.find_last_not_of(" \n") + 1);  // npos is none: 0
  text += '\n';
}

}  // namespace

bool WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

bool Out(std::string_view text) { return WriteAll(STDOUT_FILENO, text) || OutFailed(); }

bool CloseOut() {
  if (close(STDOUT_FILENO) == 0 || errno == EINTR || errno == EBADF) return true;
  return OutFailed();
}

std::size_t TerminalWidth(int fd) {
  if (isatty(fd) == 0) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool IsDumbTerminal() {
  const char* term = std::getenv("TERM");
  return term != nullptr && (*term == '\0' || std::string_view(term) == "dumb");
}

bool UseColour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  return !IsDumbTerminal() && isatty(fd) != 0;
}

Table::Widths Table::NaturalWidths() const {
  Widths widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = Columns(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, Columns(Printable(row[c].text)));
    if (columns_[c].limit > 0) widest = std::min(widest, columns_[c].limit);
    widths.emplace_back(widest);
  }
  return widths;
}

std::size_t Table::LastShown(const Widths& widths) {
  std::size_t last = widths.size() - 1;
  while (last > 0 && !widths[last]) --last;
  return last;
}

template <typename Fits>
void Table::LeaveOut(Widths& widths, Fits fits) const {
  while (!fits()) {
    std::size_t first = columns_.size();
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (!widths[c] || columns_[c].spare == 0) continue;
      if (first == columns_.size() || columns_[c].spare > columns_[first].spare) first = c;
    }
    if (first == columns_.size()) return;
    widths[first].reset();
  }
}

Table::Widths Table::WidthsFor(std::size_t width) const {
  Widths widths = NaturalWidths();
  if (width == 0) return widths;
  const auto last = [&] { return LastShown(widths); };
  // Where the last column begins.
  const auto before = [&] {
    std::size_t sum = 0;
    for (std::size_t c = 0; c < last(); ++c) sum += widths[c] ? *widths[c] + 2 : 0;
    return sum;
  };
  if (columns_.back().wrap && before() + std::min(*widths.back(), kLeastToWrap) > width) {
    widths.back().reset();  // it has lines of its own
  }
  const bool below = !widths.back();
  const auto least = [&] {
    return below ? *widths[last()] : std::min(*widths[last()], kLeastForLast);
  };
  LeaveOut(widths, [&] { return before() + least() <= width; });
  // Then those that are cut anyway give way.
  for (std::size_t c = 0; c < widths.size() && before() + least() > width; ++c) {
    if (!widths[c] || columns_[c].limit <= kLeastToCut || (c == last() && !below)) continue;
    const std::size_t over = before() + least() - width;
    widths[c] =
        std::max(*widths[c] - std::min(*widths[c], over), std::min(*widths[c], kLeastOfName));
  }
  // Below that a cut text says nothing: better let the terminal wrap it.
  if (width > before() + kLeastToCut) {
    widths[last()] = std::min(*widths[last()], width - before());
  }
  return widths;
}

std::string Table::Line(const std::vector<Cell>& cells, const Widths& widths, bool colour) const {
  const std::size_t last = LastShown(widths);
  std::string line;
  for (std::size_t c = 0; c <= last; ++c) {
    if (!widths[c]) continue;
    AppendCell(line, cells[c], columns_[c], *widths[c], c == last, colour);
  }
  return line;
}

// A row whose last cell goes on below.
std::string Table::Wrapped(const std::vector<Cell>& cells, const Widths& widths, std::size_t width,
                           bool colour) const {
  const std::string value = Printable(cells.back().text);
  std::vector<Cell> first = cells;
  std::string text;
  if (!widths.back()) {
    text = Line(first, widths, colour);
    EndLine(text);
    if (text == "\n") text.clear();
    if (value.empty()) return text;
    return absl::StrCat(text, kBelow, Hanging(value, width, std::strlen(kBelow)), "\n");
  }
  std::size_t indent = 0;
  for (std::size_t c = 0; c + 1 < widths.size(); ++c) indent += widths[c] ? *widths[c] + 2 : 0;
  const std::vector<std::string> lines = WordLines(value, *widths.back());
  first.back().text = lines.front();
  text = Line(first, widths, colour);
  EndLine(text);
  for (std::size_t i = 1; i < lines.size(); ++i) {
    absl::StrAppend(&text, std::string(indent, ' '), lines[i], "\n");
  }
  return text;
}

std::string Table::Text(std::size_t width, bool colour) const {
  const Widths widths = WidthsFor(width);
  std::vector<Cell> titles;
  for (const Column& column : columns_) titles.emplace_back(column.title, Colour::kBold);
  const bool wraps = width > 0 && columns_.back().wrap;
  std::string text = Line(titles, widths, colour);
  for (const auto& row : rows_) {
    if (wraps) {
      text += Wrapped(row, widths, width, colour);
      continue;
    }
    text += Line(row, widths, colour);
    EndLine(text);
  }
  return text;
}

}  // namespace stageload::ctl
