// What a full screen shows, before any terminal has a part in it: lines of text with inks.
//
// Threading: plain values.
#ifndef STAGELOAD_CLIENT_CTL_TOP_PICTURE_H_
#define STAGELOAD_CLIENT_CTL_TOP_PICTURE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace stageload::ctl {

enum class Ink { kPlain, kGreen, kYellow, kRed, kCyan };

struct Style {
  Ink ink = Ink::kPlain;
  bool bold = false;
  bool dim = false;
  bool reverse = false;
  friend bool operator==(const Style&, const Style&) = default;
};

struct Span {
  std::string text;  // Printable, and ASCII where the terminal knows no more
  Style style;
};

// One line of a known width: what does not fit is cut.
class PictureLine {
 public:
  PictureLine(std::size_t width, bool utf8) : width_(width), utf8_(utf8) {}

  // Printable text of ours, or of others after Printable.
  PictureLine& Put(std::string_view text, Style style = {});
  // Blanks up to this column; none when it is there already.
  PictureLine& To(std::size_t column, Style style = {});
  // Ends at the line's end, if there is room for it and a blank in front.
  PictureLine& Right(std::string_view text, Style style = {});
  // In `columns`, cut and aligned.
  PictureLine& Cell(std::string_view text, std::size_t columns, bool right = false,
                    Style style = {});

  std::size_t used() const { return used_; }
  std::size_t room() const { return width_ - used_; }
  const std::vector<Span>& spans() const { return spans_; }
  std::string Text() const;  // without styles

 private:
  std::string Shown(std::string_view text) const;

  std::size_t width_;
  bool utf8_;
  std::size_t used_ = 0;
  std::vector<Span> spans_;
};

struct Picture {
  std::vector<PictureLine> lines;  // at most as many as the screen has
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_PICTURE_H_
