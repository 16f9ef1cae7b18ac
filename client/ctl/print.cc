// Tables and terminals.
#include "client/ctl/print.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

namespace stageload::ctl {
namespace {

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

bool Out(std::string_view text) { return WriteAll(STDOUT_FILENO, text); }

std::size_t TerminalWidth(int fd) {
  if (isatty(fd) == 0) return 0;
  winsize size{};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

bool UseColour(int fd) {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* term = std::getenv("TERM");
  if (term != nullptr && std::string_view(term) == "dumb") return false;
  return isatty(fd) != 0;
}

std::vector<std::size_t> Table::Widths(std::size_t width) const {
  std::vector<std::size_t> widths;
  std::size_t before = 0;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t widest = Columns(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, Columns(Printable(row[c].text)));
    if (columns_[c].limit > 0) widest = std::min(widest, columns_[c].limit);
    const bool last = c + 1 == columns_.size();
    // Below 10 columns a cut text says nothing: better let the terminal wrap it.
    if (last && width > before + 10) widest = std::min(widest, width - before);
    widths.push_back(widest);
    before += widest + 2;
  }
  return widths;
}

std::string Table::Text(std::size_t width, bool colour) const {
  const std::vector<std::size_t> widths = Widths(width);
  std::string text;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    AppendCell(text, Cell(columns_[c].title, Colour::kBold), columns_[c], widths[c],
               c + 1 == columns_.size(), colour);
  }
  for (const auto& row : rows_) {
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      AppendCell(text, row[c], columns_[c], widths[c], c + 1 == columns_.size(), colour);
    }
    EndLine(text);
  }
  return text;
}

}  // namespace stageload::ctl
