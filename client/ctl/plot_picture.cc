// Where everything is.
#include "client/ctl/plot_picture.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/trace_name.h"

namespace stageload::ctl {
namespace {

using Anchor = TextShape::Anchor;

// Pixels.
constexpr double kWidth = 960;
constexpr double kLeft = 72;
constexpr double kRight = 56;
constexpr double kLegend = 40;
constexpr double kTitles = 44;
constexpr double kStrip = 18;  // of the stages' names
constexpr double kAbove = 15;  // of names that have no room in the strip
constexpr double kCurves = 220;
constexpr double kTicks = 22;
constexpr double kListLine = 15;
constexpr double kTooNarrow = 4;
constexpr double kDash = 3;
constexpr double kBetween = 14;
constexpr double kBottom = 8;

constexpr double kSmall = 11;
constexpr double kColumn = 0.6;     // of the size: of the fonts that are likely, on the safe side
constexpr std::size_t kListed = 6;  // marks under a panel
constexpr double kTagRoom = 22;     // marks that are nearer share a number
constexpr std::size_t kBuckets = 800;
constexpr int kStageTints = 6;
const Bytes kUsualBudget = GiB(8);
// A budget that nobody named is no reason to press the curves together.
constexpr double kBudgetAtMost = 1.8;

double TextWidth(const std::string& text, double size) {
  return static_cast<double>(Columns(text)) * size * kColumn;
}

// ---- What is drawn of a trace ----

// The positions in [begin, end) that a bucket needs: both ends and each extreme.
void KeepOf(const std::vector<PlotSample>& all, std::size_t begin, std::size_t end,
            std::vector<PlotSample>& kept) {
  std::vector<std::size_t> keep = {begin, end - 1};
  const auto extremes = [&](auto value_of) {
    std::optional<std::size_t> least;
    std::optional<std::size_t> most;
    for (std::size_t i = begin; i < end; ++i) {
      if (!value_of(all[i])) continue;
      if (!least || *value_of(all[i]) < *value_of(all[*least])) least = i;
      if (!most || *value_of(all[i]) > *value_of(all[*most])) most = i;
    }
    if (least) keep.insert(keep.end(), {*least, *most});
  };
  extremes([](const PlotSample& sample) { return sample.footprint; });
  extremes([](const PlotSample& sample) { return sample.swap; });
  extremes([](const PlotSample& sample) { return sample.level; });
  for (std::size_t i = begin; i < end; ++i) {
    if (all[i].after_gap) keep.push_back(i);
  }
  std::sort(keep.begin(), keep.end());
  keep.erase(std::unique(keep.begin(), keep.end()), keep.end());
  for (const std::size_t i : keep) kept.push_back(all[i]);
}

std::string Subtitle(const Trace& trace) {
  const TraceSummary summary = Summarise(trace);
  std::vector<std::string> parts;
  absl::Time begin;
  if (trace.start && absl::ParseTime(absl::RFC3339_full, trace.start->utc, &begin, nullptr)) {
    parts.push_back(absl::FormatTime("%Y-%m-%d %H:%M UTC", begin, absl::UTCTimeZone()));
  }
  if (summary.peak_footprint) {
    parts.push_back(absl::StrCat("peak footprint ", FormatBytes(*summary.peak_footprint)));
  }
  if (summary.swap) {
    const Bytes growth = summary.swap->peak - summary.swap->start;
    parts.push_back(growth == Bytes() ? "swap did not grow"
                                      : absl::StrCat("swap grew by ", FormatBytes(growth)));
  }
  if (summary.min_level) {
    parts.push_back(absl::StrCat("lowest level ", FormatPercent(*summary.min_level)));
  }
  return absl::StrJoin(parts, "  ·  ");
}

std::optional<Bytes> FirstSwap(const Trace& trace) {
  for (const TraceSample& sample : trace.samples) {
    if (sample.swap_used) return sample.swap_used;
  }
  return std::nullopt;
}

// Swap used at the start plus the budget.
std::optional<Bytes> BudgetLine(const Trace& trace, const PlotOptions& options) {
  const std::optional<Bytes> first = FirstSwap(trace);
  if (!first) return std::nullopt;
  return *first + BudgetOf(trace, options).size;
}

// ---- Axes ----

struct Unit {
  double size;
  const char* name;
};

Unit MemoryUnit(Bytes top) {
  for (const Unit& unit :
       {Unit{1ULL << 40, " TiB"}, Unit{1 << 30, " GiB"}, Unit{1 << 20, " MiB"}}) {
    if (top.AsDouble() >= unit.size) return unit;
  }
  return {1024, " KiB"};
}

Unit TimeUnit(double seconds) {
  if (seconds > 3 * 3600) return {3600, " h"};
  if (seconds > 180) return {60, " min"};
  return {1, " s"};
}

std::string TickLabel(double value, const char* unit) {
  if (value == 0) return "0";
  return absl::StrCat(absl::StrFormat("%g", value), unit);
}

Bytes HighestOf(const std::vector<Trace>& traces, const PlotOptions& options) {
  Bytes highest = KiB(1);
  for (const Trace& trace : traces) {
    for (const TraceSample& sample : trace.samples) {
      highest = std::max(
          {highest, sample.footprint.value_or(Bytes()), sample.swap_used.value_or(Bytes())});
    }
  }
  const double enough = highest.AsDouble() * kBudgetAtMost;
  Bytes with_budget = highest;
  for (const Trace& trace : traces) {
    const std::optional<Bytes> line = BudgetLine(trace, options);
    if (line && (options.swap_budget || line->AsDouble() <= enough)) {
      with_budget = std::max(with_budget, *line);
    }
  }
  return with_budget;
}

// ---- The drawing ----

class Drawing {
 public:
  Drawing(const std::vector<Trace>& traces, const PlotOptions& options)
      : traces_(traces), options_(options) {
    for (const Trace& trace : traces) {
      picture_.seconds =
          std::max({picture_.seconds, trace.samples.back().t, StagesOf(trace).back().end});
    }
    // A run of one sample has a width, too.
    if (picture_.seconds <= 0) picture_.seconds = 1;
    const Bytes highest = HighestOf(traces, options);
    memory_unit_ = MemoryUnit(highest);
    memory_step_ = TickStep(highest.AsDouble() / memory_unit_.size, 6);
    const double steps = std::ceil(highest.AsDouble() * 1.03 / memory_unit_.size / memory_step_);
    picture_.top = Bytes(static_cast<std::int64_t>(steps * memory_step_ * memory_unit_.size));
    picture_.width = kWidth;
    NumberTints();
  }

  PlotPicture Run() {
    picture_.shapes.emplace_back(RectShape{{0, 0}, 0, 0, Role::kPaper, ""});
    Legend();
    std::vector<std::string> paths;
    for (const Trace& trace : traces_) paths.push_back(trace.path);
    const std::vector<std::string> names = TraceNames(paths);
    y_ = kLegend;
    for (std::size_t i = 0; i < traces_.size(); ++i) Panel(traces_[i], names[i]);
    picture_.height = y_ - kBetween + kBottom;
    auto& paper = std::get<RectShape>(picture_.shapes.front());
    paper.width = picture_.width;
    paper.height = picture_.height;
    return std::move(picture_);
  }

 private:
  // ---- Shapes ----

  void Rect(double x, double y, double width, double height, Role role,
            const std::string& hint = "") {
    picture_.shapes.emplace_back(RectShape{{x, y}, width, height, role, hint});
  }
  void Line(std::vector<Point> points, Role role, double width = 1, bool dashed = false) {
    picture_.shapes.emplace_back(LineShape{std::move(points), role, width, dashed});
  }
  void Text(double x, double y, const std::string& text, Role role, double size,
            Anchor anchor = Anchor::kStart, bool bold = false) {
    picture_.shapes.emplace_back(
        TextShape{{x, y}, Printable(text), role, size, anchor, bold, false});
  }
  struct Box {
    double left;
    double top;
    double right;
    double bottom;
  };
  static Box BoxOf(double x, double y, const std::string& text, Anchor anchor) {
    const double width = TextWidth(text, kSmall) + 6;
    const double left = x - (anchor == Anchor::kMiddle ? width / 2 : width);
    return {left, y - kSmall - 4, left + width, y + 6};  // a curve has a width, too
  }
  bool HidesACurve(const Box& box) const {
    return std::any_of(curves_.begin(), curves_.end(), [&](const LineShape& curve) {
      for (std::size_t i = 1; i < curve.points.size(); ++i) {
        if (Meets(curve.points[i - 1], curve.points[i], box)) return true;
      }
      return false;
    });
  }
  // A segment that goes right and a box.
  static bool Meets(const Point& from, const Point& to, const Box& box) {
    if (to.x < box.left || from.x > box.right) return false;
    const double slope = to.x > from.x ? (to.y - from.y) / (to.x - from.x) : 0;
    double first = from.y + slope * (std::max(from.x, box.left) - from.x);
    double last = to.x > from.x ? from.y + slope * (std::min(to.x, box.right) - from.x) : to.y;
    if (first > last) std::swap(first, last);
    return last >= box.top && first <= box.bottom;
  }
  bool HidesATag(const Box& box) const {
    return std::any_of(tags_.begin(), tags_.end(), [&](const Box& tag) {
      return box.left < tag.right && tag.left < box.right && box.top < tag.bottom &&
             tag.top < box.bottom;
    });
  }
  // At the first of these places where it hides nothing; else at the first.
  void Tag(const std::vector<Point>& places, const std::string& text, Role role, Anchor anchor) {
    const auto free = std::find_if(places.begin(), places.end(), [&](const Point& place) {
      const Box box = BoxOf(place.x, place.y, text, anchor);
      return !HidesACurve(box) && !HidesATag(box);
    });
    const Point& at = free == places.end() ? places.front() : *free;
    tags_.push_back(BoxOf(at.x, at.y, text, anchor));
    picture_.shapes.emplace_back(TextShape{at, text, role, kSmall, anchor, false, true});
  }

  double X(double t) const {
    const double inside = std::clamp(t, 0.0, picture_.seconds);
    return kLeft + inside / picture_.seconds * (kWidth - kLeft - kRight);
  }
  double Y(Bytes bytes) const {
    return area_.corner.y + kCurves * (1 - bytes.AsDouble() / picture_.top.AsDouble());
  }
  double Y(Percent level) const { return area_.corner.y + kCurves * (1 - level.value / 100); }

  // ---- Parts ----

  // By the order in which the names come, but for those that would be of one tint with a neighbour
  // in some trace.
  void NumberTints() {
    std::vector<std::string> names;
    std::map<std::string, std::set<std::string>> beside;
    for (const Trace& trace : traces_) {
      std::optional<std::string> before;
      for (const TraceStage& stage : StagesOf(trace)) {
        const auto [own, is_new] = beside.try_emplace(stage.name);
        if (is_new) names.push_back(stage.name);
        if (before) {
          own->second.insert(*before);
          beside[*before].insert(stage.name);
        }
        before = stage.name;
      }
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::set<int> taken;
      for (const std::string& other : beside[names[i]]) {
        const auto tint = tints_.find(other);
        if (tint != tints_.end()) taken.insert(tint->second);
      }
      int tint = static_cast<int>(i) % kStageTints;
      for (int k = 0; k < kStageTints && taken.contains(tint); ++k) tint = (tint + 1) % kStageTints;
      tints_.emplace(names[i], tint);
    }
  }
  Role TintOf(const std::string& stage) const {
    return static_cast<Role>(static_cast<int>(Role::kStage0) + tints_.at(stage));
  }

  bool SomeSample(bool (*has)(const TraceSample&)) const {
    return std::any_of(traces_.begin(), traces_.end(), [has](const Trace& trace) {
      return std::any_of(trace.samples.begin(), trace.samples.end(), has);
    });
  }
  bool HasLevel() const {
    return SomeSample([](const TraceSample& sample) { return sample.level.has_value(); });
  }

  // Of what some panel has.
  void Legend() {
    double x = kLeft;
    const auto entry = [&](const char* name, Role role, double width, bool dashed) {
      Line({{x, 20}, {x + 22, 20}}, role, width, dashed);
      Text(x + 28, 24, name, Role::kText, 12);
      x += 28 + TextWidth(name, 12) + 22;
    };
    if (SomeSample([](const TraceSample& sample) { return sample.footprint.has_value(); })) {
      entry("footprint", Role::kFootprint, 2.2, false);
    }
    if (SomeSample([](const TraceSample& sample) { return sample.swap_used.has_value(); })) {
      entry("swap used", Role::kSwap, 2.2, false);
    }
    if (std::any_of(traces_.begin(), traces_.end(),
                    [this](const Trace& trace) { return DrawnBudget(trace).has_value(); })) {
      entry("swap at the start + budget", Role::kSwap, 1.2, true);
    }
    if (HasLevel()) entry("level: memory available (right axis)", Role::kLevel, 1.3, false);
  }

  void Panel(const Trace& trace, const std::string& name) {
    PlotPanel panel;
    panel.title = name;
    panel.stages = StagesOf(trace);
    panel.samples = Thinned(trace, kBuckets);
    for (const TraceEvent& event : trace.events) {
      if (event.kind != "stage") panel.marks.push_back({event.t, MarkText(event)});
    }
    Text(kLeft, y_ + 14, Cut(name, 90), Role::kText, 14, Anchor::kStart, true);
    Text(kLeft, y_ + 31, Subtitle(trace), Role::kMuted, 12);
    y_ += kTitles;
    if (SomeNameIsWide(panel.stages)) y_ += kAbove;
    const double strip = OneUnnamed(panel.stages) ? 0 : kStrip;
    area_ = RectShape{{kLeft, y_ + strip}, kWidth - kLeft - kRight, kCurves, Role::kPaper, ""};
    panel.area = area_;
    Stages(panel.stages);
    Axes();
    FindCurves(panel.samples);
    Budget(trace);
    for (LineShape& curve : curves_) picture_.shapes.emplace_back(curve);
    BudgetTag(trace);
    y_ = area_.corner.y + kCurves + kTicks;
    Marks(panel.marks);
    y_ += kBetween;
    picture_.panels.push_back(std::move(panel));
  }

  // A "setup" of no width that anybody sees needs no name.
  bool Fits(const TraceStage& stage) const {
    if (stage.name == "setup" && X(stage.end) - X(stage.begin) < kTooNarrow) return true;
    return TextWidth(stage.name, kSmall) + 4 <= X(stage.end) - X(stage.begin);
  }
  bool SomeNameIsWide(const std::vector<TraceStage>& stages) const {
    return !OneUnnamed(stages) && !std::all_of(stages.begin(), stages.end(),
                                               [&](const TraceStage& one) { return Fits(one); });
  }
  // Nothing was marked.
  static bool OneUnnamed(const std::vector<TraceStage>& stages) {
    return stages.size() == 1 && stages.front().name == "setup";
  }

  // Names in the strip over their stage; those that have no room there over the strip, as long as
  // they have room beside each other.
  void Stages(const std::vector<TraceStage>& stages) {
    if (OneUnnamed(stages)) return;
    double free_from = 0;
    std::optional<Role> before;
    for (const TraceStage& stage : stages) {
      const double from = X(stage.begin);
      const double width = X(stage.end) - from;
      const std::string hint =
          absl::StrCat(stage.name, ", ", FormatSpan(absl::Seconds(stage.end - stage.begin)),
                       stage.peak_footprint
                           ? absl::StrCat(", peak footprint ", FormatBytes(*stage.peak_footprint))
                           : "");
      const Role tint = TintOf(stage.name);
      Rect(from, y_, width, kStrip + kCurves, tint, hint);
      // It had neighbours of every tint.
      if (before == tint) Line({{from, y_}, {from, y_ + kStrip + kCurves}}, Role::kFrame);
      before = tint;
      if (width < kTooNarrow && stage.name == "setup") continue;
      if (Fits(stage)) {
        Text(from + width / 2, y_ + 13, stage.name, Role::kText, kSmall, Anchor::kMiddle);
      } else if (from >= free_from) {
        const std::string name = Cut(stage.name, 40);
        Line({{from + 0.5, y_ - 3}, {from + 0.5, y_ + kStrip}}, Role::kMark);
        Text(from, y_ - 4, name, Role::kText, kSmall);
        free_from = from + TextWidth(name, kSmall) + 6;
      }
    }
  }

  void Axes() {
    const double left = area_.corner.x;
    const double right = left + area_.width;
    const double bottom = area_.corner.y + kCurves;
    const double top = picture_.top.AsDouble() / memory_unit_.size;
    for (int i = 0; i * memory_step_ <= top * 1.0001; ++i) {
      const double value = i * memory_step_;
      const double y = bottom - kCurves * value / top;
      Line({{left, y}, {right, y}}, Role::kGrid);
      Text(left - 7, y + 4, TickLabel(value, memory_unit_.name), Role::kMuted, kSmall,
           Anchor::kEnd);
    }
    for (int level = 0; HasLevel() && level <= 100; level += 25) {
      Text(right + 7, bottom - kCurves * level / 100 + 4, absl::StrCat(level, " %"), Role::kMuted,
           kSmall);
    }
    const Unit unit = TimeUnit(picture_.seconds);
    const double step = TickStep(picture_.seconds / unit.size, 10);
    for (int i = 0; i * step * unit.size <= picture_.seconds * 1.0001; ++i) {
      const double x = X(i * step * unit.size);
      Line({{x, bottom}, {x, bottom + 4}}, Role::kFrame);
      Text(x, bottom + 16, TickLabel(i * step, unit.name), Role::kMuted, kSmall, Anchor::kMiddle);
    }
    Line({{left, bottom}, {right, bottom}}, Role::kFrame);
  }

  std::optional<Bytes> DrawnBudget(const Trace& trace) const {
    const std::optional<Bytes> line = BudgetLine(trace, options_);
    return line && *line <= picture_.top ? line : std::nullopt;
  }

  void Budget(const Trace& trace) {
    const std::optional<Bytes> line = DrawnBudget(trace);
    if (!line) return;
    Line({{area_.corner.x, Y(*line)}, {area_.corner.x + area_.width, Y(*line)}}, Role::kSwap, 1.2,
         true);
  }

  void BudgetTag(const Trace& trace) {
    const std::optional<Bytes> line = BudgetLine(trace, options_);
    if (!line) return;
    const double top = area_.corner.y;
    std::string text = absl::StrCat("swap budget ", FormatBytes(BudgetOf(trace, options_).size));
    // At the line, then ever further below it: a curve may lie along it.
    std::vector<std::vector<double>> heights;
    double first = top + 13;
    if (*line > picture_.top) {
      text = absl::StrCat("↑ ", text, ", at ", FormatBytes(*line));
      heights = {{first}};
    } else {
      first = Y(*line) + 13;
      heights = {{first}};
      if (Y(*line) - top > 16) heights = {{Y(*line) - 5, first}};
    }
    for (double y = first + 8; y < top + kCurves - 6; y += 8) heights.push_back({y});
    std::vector<Point> places;
    for (const std::vector<double>& beside_each_other : heights) {
      for (double x = area_.corner.x + area_.width - 4; x > area_.corner.x + 160; x -= 20) {
        for (const double y : beside_each_other) places.push_back({x, y});
      }
    }
    Tag(places, text, Role::kSwap, Anchor::kEnd);
  }

  template <typename HeightOf>
  void Curve(const std::vector<PlotSample>& samples, Role role, double width, HeightOf height_of) {
    std::vector<Point> points;
    const auto finish = [&] {
      // One sample alone, or all of a run that is short beside another, is seen as a dash.
      if (!points.empty() && points.back().x - points.front().x < kDash) {
        points.push_back({points.front().x + kDash, points.back().y});
      }
      if (!points.empty()) curves_.push_back({std::move(points), role, width, false});
      points.clear();
    };
    for (const PlotSample& sample : samples) {
      const std::optional<double> height = height_of(sample);
      if (sample.after_gap || !height) finish();
      if (height) points.push_back({X(sample.t), *height});
    }
    finish();
  }

  void FindCurves(const std::vector<PlotSample>& samples) {
    curves_.clear();
    tags_.clear();
    const auto height = [this](const auto& value) {
      return value ? std::optional(Y(*value)) : std::nullopt;
    };
    Curve(samples, Role::kLevel, 1.3, [&](const PlotSample& one) { return height(one.level); });
    Curve(samples, Role::kSwap, 2.2, [&](const PlotSample& one) { return height(one.swap); });
    Curve(samples, Role::kFootprint, 2.2,
          [&](const PlotSample& one) { return height(one.footprint); });
  }

  // On the line of a mark from the bottom up, the ends before the middle; then beside it, for where
  // a curve jumps right there.
  std::vector<Point> PlacesAt(double x, const std::string& tag) const {
    const double top = area_.corner.y;
    const double bottom = top + kCurves;
    std::vector<double> heights = {bottom - 5, top + 13, top + 28};
    for (double y = bottom - 13; y > top + 28; y -= 8) heights.push_back(y);
    const double aside = TextWidth(tag, kSmall) / 2 + 5;
    std::vector<Point> places;
    for (const double shift : {0.0, aside, -aside}) {
      const double inside =
          std::clamp(x + shift, area_.corner.x + 8, area_.corner.x + area_.width - 8);
      for (const double y : heights) places.push_back({inside, y});
    }
    return places;
  }

  // Numbers at the curves, and what they stand for under them.
  void Marks(const std::vector<PlotMark>& marks) {
    const double bottom = area_.corner.y + kCurves;
    for (std::size_t first = 0; first < marks.size();) {
      const double x = X(marks[first].t);
      std::size_t last = first;
      while (last + 1 < marks.size() && X(marks[last + 1].t) - x < kTagRoom) ++last;
      for (std::size_t i = first; i <= last; ++i) {
        Line({{X(marks[i].t), area_.corner.y}, {X(marks[i].t), bottom}}, Role::kMark, 1, true);
      }
      const std::string tag =
          last == first ? absl::StrCat(first + 1) : absl::StrCat(first + 1, "–", last + 1);
      Tag(PlacesAt(x, tag), tag, Role::kText, Anchor::kMiddle);
      first = last + 1;
    }
    // One more line would only say that there is one more.
    const std::size_t listed = marks.size() > kListed + 1 ? kListed : marks.size();
    for (std::size_t i = 0; i < listed; ++i) {
      y_ += kListLine;
      Text(kLeft + 14, y_ - 2, absl::StrCat(i + 1), Role::kText, kSmall, Anchor::kEnd);
      Text(kLeft + 76, y_ - 2, absl::StrFormat("%.1f s", marks[i].t), Role::kMuted, kSmall,
           Anchor::kEnd);
      Text(kLeft + 86, y_ - 2, Cut(Printable(marks[i].text), 120), Role::kText, kSmall);
    }
    if (listed == marks.size()) return;
    y_ += kListLine;
    Text(kLeft + 86, y_ - 2, absl::StrCat("and ", marks.size() - listed, " more"), Role::kMuted,
         kSmall);
  }

  const std::vector<Trace>& traces_;
  const PlotOptions& options_;
  PlotPicture picture_;
  Unit memory_unit_{1, ""};
  double memory_step_ = 1;
  std::map<std::string, int> tints_;  // of stages, by name
  double y_ = 0;                      // how far down it is drawn
  RectShape area_;                    // of the panel's curves
  std::vector<LineShape> curves_;
  std::vector<Box> tags_;  // on the panel's curves
};

}  // namespace

PlotBudget BudgetOf(const Trace& trace, const PlotOptions& options) {
  if (options.swap_budget) return {*options.swap_budget, true};
  if (trace.start && !trace.start->rest.empty()) {
    const Json rest = Json::parse(trace.start->rest, nullptr, false);
    const auto found = rest.find("swap_budget");
    if (found != rest.end() && found->is_number_integer()) {
      return {Bytes(found->get<std::int64_t>()), true};
    }
  }
  return {kUsualBudget, false};
}

std::string MarkText(const TraceEvent& event) {
  if (event.kind == "mark") return event.note.empty() ? "mark" : event.note;
  std::string text = event.kind;
  if (!event.name.empty()) absl::StrAppend(&text, " ", event.name);
  if (event.nbytes) absl::StrAppend(&text, ", ", FormatBytes(*event.nbytes));
  if (event.seconds) absl::StrAppend(&text, " in ", FormatSpan(absl::Seconds(*event.seconds)));
  if (!event.note.empty()) absl::StrAppend(&text, ": ", event.note);
  return text;
}

std::vector<PlotSample> Thinned(const Trace& trace, std::size_t buckets) {
  const double usual = LongestUsualGap(trace);
  std::vector<PlotSample> all;
  for (const TraceSample& sample : trace.samples) {
    const bool after_gap = !all.empty() && sample.t - all.back().t > usual;
    all.push_back({sample.t, sample.footprint, sample.swap_used, sample.level, after_gap});
  }
  if (all.size() <= 4 * buckets) return all;
  std::vector<PlotSample> kept;
  for (std::size_t i = 0; i < buckets; ++i) {
    KeepOf(all, all.size() * i / buckets, all.size() * (i + 1) / buckets, kept);
  }
  return kept;
}

double TickStep(double most, int ticks) {
  const double least = most / ticks;
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1, 2, 5}) {
    if (factor * power >= least * 0.9999) return factor * power;
  }
  return 10 * power;
}

PlotPicture Draw(const std::vector<Trace>& traces, const PlotOptions& options) {
  return Drawing(traces, options).Run();
}

}  // namespace stageload::ctl
