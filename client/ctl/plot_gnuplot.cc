// gnuplot as a canvas: one coordinate system in pixels over the whole picture.
#include "client/ctl/plot_gnuplot.h"

#include <sys/wait.h>

#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/ctl/command_path.h"
#include "client/ctl/filter.h"
#include "client/ctl/print.h"

namespace stageload::ctl {
namespace {

const char* ColourOf(Role role) {
  switch (role) {
    case Role::kText:
      return "#1f2328";
    case Role::kMuted:
    case Role::kLevel:
      return "#59636e";
    case Role::kGrid:
      return "#d8dee4";
    case Role::kFrame:
    case Role::kMark:
      return "#818b98";
    case Role::kPaper:
      return "#ffffff";
    case Role::kFootprint:
      return "#0b5cad";
    case Role::kSwap:
      return "#b93b05";
    case Role::kStage0:
      return "#f1f3f5";
    case Role::kStage1:
      return "#e3eefa";
    case Role::kStage2:
      return "#fbf0dc";
    case Role::kStage3:
      return "#e4f3e6";
    case Role::kStage4:
      return "#f1e7f8";
    case Role::kStage5:
      return "#fbe6ea";
  }
  return "";
}

// Between single quotes gnuplot expands nothing; a quote is written twice.
std::string Quoted(std::string_view text) {
  return absl::StrCat("'", absl::StrReplaceAll(Printable(text), {{"'", "''"}}), "'");
}

// The script in the order in which gnuplot wants to be told: settings, then one plot command.
class Script {
 public:
  Script(const PlotPicture& picture, GnuplotFormat format) : picture_(picture), format_(format) {
    for (const Shape& shape : picture.shapes) {
      std::visit([this](const auto& one) { Add(one); }, shape);
    }
  }

  std::string Text() const {
    // Twice as many pixels, so that it is sharp on the screens of today.
    const std::string terminal =
        format_ == GnuplotFormat::kSvg
            ? absl::StrFormat("svg size %d,%d font 'Helvetica,12'",
                              static_cast<int>(picture_.width), static_cast<int>(picture_.height))
            : absl::StrFormat("pngcairo size %d,%d font 'Helvetica,12' fontscale 1.5 linewidth 2",
                              static_cast<int>(2 * picture_.width),
                              static_cast<int>(2 * picture_.height));
    return absl::StrCat(
        "set encoding utf8\nset terminal ", terminal, " noenhanced background '#ffffff'\n",
        "unset border\nunset tics\nunset key\n",
        "set lmargin at screen 0\nset rmargin at screen 1\n",
        "set bmargin at screen 0\nset tmargin at screen 1\n",
        absl::StrFormat("set xrange [0:%g]\nset yrange [%g:0]\n", picture_.width, picture_.height),
        "set style textbox opaque noborder margins 0.2,0.2\n", settings_, data_, "plot ",
        absl::StrJoin(plots_, ", \\\n  "), "\n");
  }

 private:
  void Add(const RectShape& rect) {
    if (rect.role == Role::kPaper || rect.width <= 0) return;
    absl::StrAppend(&settings_,
                    absl::StrFormat("set object rectangle from %.1f,%.1f to %.1f,%.1f behind fc "
                                    "rgb '%s' fs solid 1.0 noborder\n",
                                    rect.corner.x, rect.corner.y, rect.corner.x + rect.width,
                                    rect.corner.y + rect.height, ColourOf(rect.role)));
  }

  void Add(const TextShape& shape) {
    static constexpr const char* kAnchors[] = {"left", "center", "right"};
    // In SVG ":Bold" would be a part of the font's name.
    const bool bold = shape.bold && format_ == GnuplotFormat::kPng;
    // gnuplot centres the line's height on the point.
    absl::StrAppend(
        &settings_,
        absl::StrFormat("set label %s at %.1f,%.1f %s font '%s,%g' tc rgb '%s'%s front\n",
                        Quoted(shape.text), shape.at.x, shape.at.y - 0.36 * shape.size,
                        kAnchors[static_cast<int>(shape.anchor)],
                        bold ? "Helvetica:Bold" : "Helvetica", shape.size, ColourOf(shape.role),
                        shape.boxed ? " boxed" : ""));
  }

  // What looks alike and follows each other is one plot.
  void Add(const LineShape& line) {
    const std::string look = absl::StrFormat("with lines lc rgb '%s' lw %g%s", ColourOf(line.role),
                                             line.width, line.dashed ? " dt (5,4)" : "");
    std::string points;
    for (const Point& point : line.points) {
      absl::StrAppend(&points, absl::StrFormat("%.1f %.1f\n", point.x, point.y));
    }
    if (look == look_) {
      data_.insert(data_.size() - std::string_view("EOD\n").size(), "\n" + points);
      return;
    }
    look_ = look;
    const std::string name = absl::StrCat("$lines", plots_.size());
    absl::StrAppend(&data_, name, " << EOD\n", points, "EOD\n");
    plots_.push_back(absl::StrCat(name, " ", look));
  }

  const PlotPicture& picture_;
  const GnuplotFormat format_;
  std::string settings_;
  std::string data_;
  std::string look_;  // of the last line
  std::vector<std::string> plots_;
};

// What it says first.
std::string FirstLineOf(const std::string& text) {
  for (const auto line : absl::StrSplit(text, '\n')) {
    std::string said(line);
    said.erase(said.find_last_not_of(" ^") + 1);
    if (!said.empty()) return said;
  }
  return "";
}

std::string WhyItFailed(const Filtered& ran) {
  const std::string said = FirstLineOf(ran.err);
  if (!said.empty()) return said;
  return WIFSIGNALED(ran.wait_status)
             ? absl::StrCat("it was ended by signal ", WTERMSIG(ran.wait_status))
             : absl::StrCat("it exited with ", WEXITSTATUS(ran.wait_status), ", and said nothing");
}

// Both end with what no picture that was cut has: PNG with the chunk IEND (its length, name and
// checksum), SVG with its root's end.
bool IsWhole(std::string_view file, GnuplotFormat format) {
  if (format == GnuplotFormat::kPng) {
    constexpr std::string_view kEnd("\0\0\0\0IEND\xae\x42\x60\x82", 12);
    return file.starts_with("\x89PNG") && file.ends_with(kEnd);
  }
  while (file.ends_with('\n')) file.remove_suffix(1);
  return file.ends_with("</svg>");
}

// gnuplot writes a '>' as it is, and XML wants it escaped behind "]]" (XML 1.0, 2.4).
std::string WellFormed(const std::string& svg) {
  return absl::StrReplaceAll(svg, {{"]]>", "]]&gt;"}});
}

std::string ForWantOfGnuplot(std::string what) {
  return what + "; a file that ends in .html does not need it";
}

}  // namespace

std::string GnuplotScript(const PlotPicture& picture, GnuplotFormat format) {
  return Script(picture, format).Text();
}

absl::StatusOr<std::string> RunGnuplot(const std::string& script, GnuplotFormat format) {
  const absl::StatusOr<std::string> program = FindInPath("gnuplot");
  if (!program.ok()) {
    return absl::NotFoundError(
        "SVG and PNG are drawn by gnuplot, which is not in PATH: `apt install gnuplot-nox` or "
        "`brew install gnuplot`, or name a file that ends in .html, which needs nothing");
  }
  // What it draws comes through us, since gnuplot heeds no error of a write: on a full disk it
  // would leave half a picture and exit with 0. The option: not what the user has set for himself.
  absl::StatusOr<Filtered> ran = Filter({*program, "--default-settings"}, script);
  if (!ran.ok()) return ran.status();
  if (!WIFEXITED(ran->wait_status) || WEXITSTATUS(ran->wait_status) != 0) {
    return absl::InternalError(
        ForWantOfGnuplot(absl::StrCat(*program, " failed: ", WhyItFailed(*ran))));
  }
  if (!IsWhole(ran->out, format)) {
    return absl::InternalError(ForWantOfGnuplot(
        absl::StrCat(*program, " drew no whole picture and said that all went well")));
  }
  if (format == GnuplotFormat::kSvg) return WellFormed(ran->out);
  return std::move(ran->out);
}

}  // namespace stageload::ctl
