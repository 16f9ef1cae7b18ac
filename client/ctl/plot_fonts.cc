#include "client/ctl/plot_fonts.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "client/ctl/command_path.h"
#include "client/ctl/filter.h"
#include "client/ctl/print_text.h"

namespace stageload::ctl {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kLastOfBasicPlane = 0xFFFF;
constexpr char32_t kFirstOfNobody = 0xE000;  // the private use area
constexpr char32_t kLastOfNobody = 0xF8FF;

// Latin, punctuation and arrows: what this program says itself, too.
bool EveryFontHas(char32_t c) { return c < 0x250 || (c >= 0x2010 && c < 0x2200); }

// How many bytes begin with this one, in valid UTF-8.
std::size_t LengthOf(char lead) {
  const auto byte = static_cast<unsigned char>(lead);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

}  // namespace

Fonts Fonts::OfThisMachine() {
  const absl::StatusOr<std::string> program = FindInPath("fc-list");
  if (program.ok()) {
    const absl::StatusOr<Filtered> listed = Filter({*program, "--format", "%{charset}\n"}, "");
    if (listed.ok() && listed->wait_status == 0) return Fonts(listed->out);
  }
  Fonts likely;
  likely.Add(0, kFirstOfNobody - 1);
  likely.Add(kLastOfNobody + 1, kLastOfBasicPlane);
  return likely;
}

Fonts::Fonts(const std::string& ranges) {
  for (const auto range : absl::StrSplit(ranges, absl::ByAnyChar(" \n"), absl::SkipEmpty())) {
    const std::pair<std::string, std::string> ends = absl::StrSplit(range, absl::MaxSplits('-', 1));
    std::uint32_t first = 0;
    std::uint32_t last = 0;
    if (!absl::SimpleHexAtoi(ends.first, &first)) continue;
    if (!absl::SimpleHexAtoi(ends.second, &last)) last = first;
    Add(first, last);
  }
}

void Fonts::Add(char32_t first, char32_t last) {
  const std::size_t end = std::size_t{std::min(last, kLast)} + 1;
  if (has_.size() < end) has_.resize(end);
  for (std::size_t i = first; i < end; ++i) has_[i] = true;
}

bool Fonts::Have(char32_t character) const {
  return EveryFontHas(character) || (character < has_.size() && has_[character]);
}

std::string WithPlainSigns(std::string_view text, const Fonts& fonts) {
  std::string plain;
  std::size_t at = 0;
  for (const wchar_t c : Wide(text)) {
    const std::size_t length = LengthOf(text[at]);
    if (fonts.Have(static_cast<char32_t>(c))) {
      plain += text.substr(at, length);
    } else {
      plain += '?';
    }
    at += length;
  }
  return plain;
}

void ReplaceWhatHasNoFont(PlotPicture& picture) {
  std::vector<std::string*> unsure;
  for (Shape& shape : picture.shapes) {
    auto* text = std::get_if<TextShape>(&shape);
    if (text == nullptr) continue;
    text->text = Printable(text->text);
    const std::wstring wide = Wide(text->text);
    const bool sure = std::all_of(wide.begin(), wide.end(),
                                  [](wchar_t c) { return EveryFontHas(static_cast<char32_t>(c)); });
    if (!sure) unsure.push_back(&text->text);
  }
  if (unsure.empty()) return;
  const Fonts fonts = Fonts::OfThisMachine();
  for (std::string* text : unsure) *text = WithPlainSigns(*text, fonts);
}

}  // namespace stageload::ctl
