// Decodes UTF-8 and asks the platform how wide each character is.
#include "client/ctl/print_text.h"

#include <locale.h>
#include <wchar.h>
#ifdef __APPLE__
#include <xlocale.h>
#endif

#include <algorithm>

namespace stageload::ctl {
namespace {

constexpr char32_t kBad = 0xFFFFFFFF;
constexpr char32_t kEllipsis = 0x2026;
// curses keeps a letter and a few marks in one place of the screen, and drops the rest.
constexpr int kMaxMarks = 2;

bool IsAscii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

// A character, and the bytes that it takes; kBad for one byte that begins none (RFC 3629).
struct Decoded {
  char32_t value = kBad;
  std::size_t bytes = 1;
};

Decoded First(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < length) return {};
  char32_t value = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return {};
    value = value << 6 | (at(i) & 0x3FU);
  }
  const bool overlong = (length == 3 && value < 0x800) || (length == 4 && value < 0x10000);
  const bool surrogate = value >= 0xD800 && value <= 0xDFFF;
  if (overlong || surrogate || value > 0x10FFFF) return {};
  return {value, length};
}

// The thread's locale is one that knows Unicode while this lives, whatever the user's is.
class UnicodeLocale {
 public:
  UnicodeLocale() : before_(Unicode() == nullptr ? nullptr : uselocale(Unicode())) {}
  UnicodeLocale(const UnicodeLocale&) = delete;
  UnicodeLocale& operator=(const UnicodeLocale&) = delete;
  ~UnicodeLocale() {
    if (before_ != nullptr) uselocale(before_);
  }

  // Negative for what is not to be printed.
  int Width(char32_t c) const {
    if (c < 0x80) return c < 0x20 || c == 0x7F ? -1 : 1;
    // Without any such locale: better one place each than nothing.
    if (before_ == nullptr) return c < 0xA0 ? -1 : 1;
    return wcwidth(static_cast<wchar_t>(c));
  }

 private:
  static locale_t Unicode() {
    static const locale_t locale = [] {
      for (const char* name : {"C.UTF-8", "UTF-8", "en_US.UTF-8"}) {
        const locale_t found = newlocale(LC_CTYPE_MASK, name, nullptr);
        if (found != nullptr) return found;
      }
      return locale_t{};
    }();
    return locale;
  }

  locale_t before_;
};

bool In(char32_t c, char32_t first, char32_t last) { return first <= c && c <= last; }

// Marks, embeddings and isolates of the bidirectional algorithm: they reorder what is around them.
bool TurnsDirection(char32_t c) {
  return c == 0x061C || In(c, 0x200E, 0x200F) || In(c, 0x202A, 0x202E) || In(c, 0x2066, 0x2069);
}

// Some terminals draw a joined or varied emoji in two columns and some its parts beside each other.
bool JoinsOrVaries(char32_t c) {
  return In(c, 0x200B, 0x200D) || In(c, 0xFE00, 0xFE0F) || In(c, 0x1F3FB, 0x1F3FF) ||
         In(c, 0xE0000, 0xE0FFF) || c == 0xFEFF || c == 0x2060 || c == 0x00AD;
}

template <typename OnCharacter>
void ForEach(std::string_view text, OnCharacter on_character) {
  while (!text.empty()) {
    const Decoded next = First(text);
    if (!on_character(next.value, text.substr(0, next.bytes))) return;
    text.remove_prefix(next.bytes);
  }
}

// "GiB" behind "48", and "%" behind "63": no line ends between them.
bool IsUnit(std::string_view word) {
  word = word.substr(0, word.find_last_not_of(".,;:)") + 1);
  for (const std::string_view unit : {"%", "B", "KiB", "MiB", "GiB", "TiB"}) {
    if (word == unit) return true;
  }
  return false;
}

// The words of `text` and, as one word, figures with their units.
std::vector<std::string_view> Words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string_view word = text.substr(begin, end - begin);
    const bool joins = !words.empty() && !words.back().empty() && words.back().back() >= '0' &&
                       words.back().back() <= '9' && IsUnit(word);
    if (joins) {
      const auto from = static_cast<std::size_t>(words.back().data() - text.data());
      words.back() = text.substr(from, end - from);
    } else {
      words.push_back(word);
    }
    begin = end + 1;
  }
  return words;
}

std::size_t WidthOf(const UnicodeLocale& locale, char32_t c) {
  return static_cast<std::size_t>(std::max(0, c == kBad ? 1 : locale.Width(c)));
}

}  // namespace

std::string Printable(std::string_view text) {
  const UnicodeLocale locale;
  std::string printable;
  int room_for_marks = 0;  // none at the begin: a mark would stand on what is before the text
  ForEach(text, [&](char32_t c, std::string_view bytes) {
    if (c != kBad && JoinsOrVaries(c)) return true;
    const int width = c == kBad || TurnsDirection(c) ? -1 : locale.Width(c);
    if (width == 0 && room_for_marks-- <= 0) return true;
    if (width < 0) {
      printable += '?';
    } else {
      printable += bytes;
    }
    if (width != 0) room_for_marks = width < 0 ? 0 : kMaxMarks;
    return true;
  });
  return printable;
}

std::size_t Columns(std::string_view utf8) {
  if (IsAscii(utf8)) return utf8.size();
  const UnicodeLocale locale;
  std::size_t columns = 0;
  ForEach(utf8, [&](char32_t c, std::string_view) {
    columns += WidthOf(locale, c);
    return true;
  });
  return columns;
}

std::string Cut(std::string_view utf8, std::size_t columns) {
  if (Columns(utf8) <= columns) return std::string(utf8);
  if (columns == 0) return "";
  const UnicodeLocale locale;
  std::string cut;
  std::size_t used = 1;  // the ellipsis
  ForEach(utf8, [&](char32_t c, std::string_view bytes) {
    used += WidthOf(locale, c);
    if (used > columns) return false;
    cut += bytes;
    return true;
  });
  return cut + "…";
}

std::vector<std::string> WordLines(std::string_view utf8, std::size_t columns) {
  if (columns == 0) return {std::string(utf8)};
  std::vector<std::string> lines(1);
  std::size_t used = 0;
  for (const std::string_view word : Words(utf8)) {
    const std::size_t width = Columns(word);
    if (used > 0 && used + 1 + width > columns) {
      lines.emplace_back();
      used = 0;
    } else if (used > 0) {
      lines.back() += ' ';
      ++used;
    }
    lines.back() += word;
    used += width;
  }
  return lines;
}

std::string Hanging(std::string_view utf8, std::size_t columns, std::size_t indent) {
  std::string text;
  for (const std::string& line : WordLines(utf8, columns > indent ? columns - indent : columns)) {
    if (!text.empty()) text += "\n" + std::string(indent, ' ');
    text += line;
  }
  return text;
}

std::string Ascii(std::string_view utf8) {
  if (IsAscii(utf8)) return std::string(utf8);
  const UnicodeLocale locale;
  std::string ascii;
  ForEach(utf8, [&](char32_t c, std::string_view bytes) {
    if (c < 0x80) {
      ascii += bytes;
    } else if (c == kEllipsis) {
      ascii += '~';
    } else if (WidthOf(locale, c) > 0) {
      ascii += '?';
    }
    return true;
  });
  return ascii;
}

std::wstring Wide(std::string_view utf8) {
  std::wstring wide;
  ForEach(utf8, [&](char32_t c, std::string_view) {
    wide += c == kBad ? L'?' : static_cast<wchar_t>(c);
    return true;
  });
  return wide;
}

}  // namespace stageload::ctl
