// A picture of recorded runs as shapes in pixels, whoever draws them: one panel a run under one
// time axis, with footprint, swap, level, stages, marks and the swap budget.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_PLOT_PICTURE_H_
#define STAGELOAD_CLIENT_CTL_PLOT_PICTURE_H_

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/trace.h"
#include "base/units.h"
#include "client/ctl/trace_summary.h"

namespace stageload::ctl {

// What a shape means; whoever draws it chooses the colour.
enum class Role {
  kText,
  kMuted,
  kGrid,
  kFrame,
  kPaper,  // the background
  kFootprint,
  kSwap,
  kLevel,
  kMark,
  kStage0,  // and the five after it: tints of stages
  kStage1,
  kStage2,
  kStage3,
  kStage4,
  kStage5,
};

struct Point {
  double x = 0;
  double y = 0;
};

struct RectShape {
  Point corner;  // top left
  double width = 0;
  double height = 0;
  Role role = Role::kPaper;
  std::string hint;  // shown on demand where that can be
};
struct LineShape {
  std::vector<Point> points;
  Role role = Role::kFrame;
  double width = 1;
  bool dashed = false;
};
struct TextShape {
  enum class Anchor { kStart, kMiddle, kEnd };
  Point at;  // on the base line
  std::string text;
  Role role = Role::kText;
  double size = 12;
  Anchor anchor = Anchor::kStart;
  bool bold = false;
  bool boxed = false;  // stays readable over curves
};
using Shape = std::variant<RectShape, LineShape, TextShape>;

// One sample as it is drawn.
struct PlotSample {
  double t = 0;
  std::optional<Bytes> footprint;
  std::optional<Bytes> swap;
  std::optional<Percent> level;
  bool after_gap = false;  // samples are missing before it
};

struct PlotMark {
  double t = 0;
  std::string text;
};

struct PlotPanel {
  std::string title;
  RectShape area;  // of the curves
  std::vector<PlotSample> samples;
  std::vector<TraceStage> stages;
  std::vector<PlotMark> marks;
};

struct PlotPicture {
  double width = 0;
  double height = 0;
  std::vector<Shape> shapes;  // from back to front
  std::vector<PlotPanel> panels;
  double seconds = 0;  // all panels' widths
  Bytes top;           // all panels' heights
};

struct PlotOptions {
  // Else the recording's own, else 8 GiB.
  std::optional<Bytes> swap_budget;
};

// The budget that a run is drawn with, and whether anybody named it.
struct PlotBudget {
  Bytes size;
  bool given = false;
};
PlotBudget BudgetOf(const Trace& trace, const PlotOptions& options);

// "load transformer, 13.3 GiB in 5.3s".
std::string MarkText(const TraceEvent& event);

// As many of them as can be told apart, with every extreme and every gap.
std::vector<PlotSample> Thinned(const Trace& trace, std::size_t buckets);

// Where the ticks of an axis from 0 to at least `most` are: a multiple of 1, 2 or 5.
double TickStep(double most, int ticks);

PlotPicture Draw(const std::vector<Trace>& traces, const PlotOptions& options);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_PLOT_PICTURE_H_
