// The characters that the fonts of this machine have. gnuplot's PNG has for any other a box of hex
// digits, large enough to cover the whole picture.
//
// Threading: plain values; OfThisMachine blocks its thread, and SIGPIPE must be ignored.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_FONTS_H_
#define STAGELOAD_CLIENT_CTL_PLOT_FONTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "client/ctl/plot_picture.h"

namespace stageload::ctl {

class Fonts {
 public:
  // As fontconfig tells it, which finds fonts for gnuplot, too. Where it has no fc-list, likely
  // ones: of the basic plane, and of nobody's own.
  static Fonts OfThisMachine();
  // Lines of ranges in hex, "20-7e a0-17f 192", one a font.
  explicit Fonts(const std::string& ranges);

  bool Have(char32_t character) const;

 private:
  Fonts() = default;
  void Add(char32_t first, char32_t last);

  std::vector<bool> has_;
};

// With "?" where no font has the character.
std::string WithPlainSigns(std::string_view text, const Fonts& fonts);

// The same in all texts; asks for fonts only where one has characters that may lack one.
void ReplaceWhatHasNoFont(PlotPicture& picture);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_FONTS_H_
