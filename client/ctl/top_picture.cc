// Lines that never grow past their width.
#include "client/ctl/top_picture.h"

#include <algorithm>

#include "client/ctl/print_text.h"

namespace stageload::ctl {

// Before its width counts: what takes two columns may become one "?".
std::string PictureLine::Shown(std::string_view text) const {
  return utf8_ ? std::string(text) : Ascii(text);
}

PictureLine& PictureLine::Put(std::string_view text, Style style) {
  const std::string fitting = Cut(Shown(text), room());
  if (fitting.empty()) return *this;
  const std::string shown = Shown(fitting);  // Cut ends in an ellipsis
  used_ += Columns(shown);
  if (!spans_.empty() && spans_.back().style == style) {
    spans_.back().text += shown;
  } else {
    spans_.push_back({shown, style});
  }
  return *this;
}

PictureLine& PictureLine::To(std::size_t column, Style style) {
  const std::size_t end = std::min(column, width_);
  if (end > used_) Put(std::string(end - used_, ' '), style);
  return *this;
}

PictureLine& PictureLine::Right(std::string_view text, Style style) {
  const std::size_t columns = Columns(Shown(text));
  if (columns + (used_ > 0 ? 1 : 0) > room()) return *this;
  return To(width_ - columns).Put(text, style);
}

PictureLine& PictureLine::Cell(std::string_view text, std::size_t columns, bool right,
                               Style style) {
  const std::string cut = Cut(Shown(text), columns);
  const std::string padding(columns - std::min(columns, Columns(cut)), ' ');
  return right ? Put(padding + cut, style) : Put(cut + padding, style);
}

std::string PictureLine::Text() const {
  std::string text;
  for (const Span& span : spans_) text += span.text;
  return text;
}

}  // namespace stageload::ctl
