#include "client/ctl/plot_svg.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

// A tenth of a pixel is more than is seen.
std::string Number(double value) {
  std::string text = absl::StrFormat("%.1f", value);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text;
}

std::string Element(const RectShape& rect) {
  std::string text = absl::StrFormat(
      "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"", ClassOf(rect.role),
      Number(rect.corner.x), Number(rect.corner.y), Number(rect.width), Number(rect.height));
  if (rect.hint.empty()) return text + "/>\n";
  return absl::StrCat(text, "><title>", EscapedMarkup(rect.hint), "</title></rect>\n");
}

std::string Element(const LineShape& line) {
  std::string text = absl::StrCat("<path class=\"line ", ClassOf(line.role), "\" stroke-width=\"",
                                  Number(line.width), "\"");
  if (line.dashed) text += " stroke-dasharray=\"5 4\"";
  text += " d=\"";
  char letter = 'M';
  for (const Point& point : line.points) {
    absl::StrAppend(&text, std::string(1, letter), Number(point.x), " ", Number(point.y));
    letter = 'L';
  }
  return text + "\"/>\n";
}

std::string Element(const TextShape& shape) {
  static constexpr const char* kAnchors[] = {"start", "middle", "end"};
  // The outline of a boxed one is painted first, in the paper's colour.
  return absl::StrFormat(
      "<text class=\"%s%s\" x=\"%s\" y=\"%s\" font-size=\"%s\" text-anchor=\"%s\"%s>%s</text>\n",
      ClassOf(shape.role), shape.boxed ? " boxed" : "", Number(shape.at.x), Number(shape.at.y),
      Number(shape.size), kAnchors[static_cast<int>(shape.anchor)],
      shape.bold ? " font-weight=\"bold\"" : "", EscapedMarkup(shape.text));
}

}  // namespace

std::string EscapedMarkup(std::string_view text) {
  std::string escaped;
  for (const char c : Printable(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

const char* ClassOf(Role role) {
  switch (role) {
    case Role::kText:
      return "text";
    case Role::kMuted:
      return "muted";
    case Role::kGrid:
      return "grid";
    case Role::kFrame:
      return "frame";
    case Role::kPaper:
      return "paper";
    case Role::kFootprint:
      return "footprint";
    case Role::kSwap:
      return "swap";
    case Role::kLevel:
      return "level";
    case Role::kMark:
      return "mark";
    case Role::kStage0:
      return "stage0";
    case Role::kStage1:
      return "stage1";
    case Role::kStage2:
      return "stage2";
    case Role::kStage3:
      return "stage3";
    case Role::kStage4:
      return "stage4";
    case Role::kStage5:
      return "stage5";
  }
  return "";
}

std::string SvgElement(const PlotPicture& picture) {
  std::string label = "Memory over time:";
  for (const PlotPanel& panel : picture.panels) absl::StrAppend(&label, " ", panel.title);
  std::string svg =
      absl::StrFormat("<svg viewBox=\"0 0 %s %s\" role=\"img\" aria-label=\"%s\">\n",
                      Number(picture.width), Number(picture.height), EscapedMarkup(label));
  for (const Shape& shape : picture.shapes) {
    svg += std::visit([](const auto& one) { return Element(one); }, shape);
  }
  return svg + "</svg>\n";
}

}  // namespace stageload::ctl
