// Text from elsewhere, such as a job's name, as it may stand on a terminal: valid UTF-8, nothing
// that could drive the terminal or turn the direction of what follows, and of a width that is
// known.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_PRINT_TEXT_H_
#define STAGELOAD_CLIENT_CTL_PRINT_TEXT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stageload::ctl {

// Control characters, bytes that are no UTF-8, and code points that have no width become '?'. What
// terminals disagree about is left out: emoji are not joined or varied, and no letter carries more
// than two marks.
std::string Printable(std::string_view text);

// The rest speak of text that is Printable.

// Columns that it takes: two for a wide character, none for a mark. The platform's table (wcwidth),
// which curses goes by, too.
std::size_t Columns(std::string_view utf8);
// At most `columns` wide; what is cut ends in "…".
std::string Cut(std::string_view utf8, std::size_t columns);
// Its lines where none may be wider than `columns`; 0 is no limit. Words stay whole, also one that
// is wider, and so does a figure with its unit.
std::vector<std::string> WordLines(std::string_view utf8, std::size_t columns);
// The same as a text in which all lines but the first begin with `indent` blanks, and which stands
// behind as many columns.
std::string Hanging(std::string_view utf8, std::size_t columns, std::size_t indent);
// For terminals that know ASCII only: "…" is "~", all else that is not ASCII is "?".
std::string Ascii(std::string_view utf8);
std::wstring Wide(std::string_view utf8);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PRINT_TEXT_H_
