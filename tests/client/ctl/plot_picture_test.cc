// What a picture shows, before anybody draws it.
#include "client/ctl/plot_picture.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "client/ctl/plot_fonts.h"
#include "client/ctl/plot_gnuplot.h"
#include "client/ctl/plot_html.h"
#include "client/ctl/plot_svg.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TraceSample Sample(double t, Bytes footprint, Bytes swap, double level) {
  TraceSample sample;
  sample.t = t;
  sample.footprint = footprint;
  sample.swap_used = swap;
  sample.level = Percent{level};
  return sample;
}

TraceEvent Event(double t, const std::string& kind, const std::string& stage,
                 const std::string& note = "") {
  TraceEvent event;
  event.t = t;
  event.kind = kind;
  event.stage = stage;
  event.note = note;
  return event;
}

Trace Recorded() {
  Trace trace;
  trace.path = "/a/run.trace.jsonl";
  for (int i = 0; i <= 100; ++i) {
    trace.samples.push_back(
        Sample(i, MiB(20 * i), GiB(1) + MiB(i), 90 - i / 2.0));  // NOLINT: 90 to 40
  }
  trace.events = {Event(10, "stage", "encode"), Event(50, "stage", "decode"),
                  Event(60, "mark", "", "half of it")};
  return trace;
}

std::vector<std::string> Texts(const PlotPicture& picture) {
  std::vector<std::string> texts;
  for (const Shape& shape : picture.shapes) {
    if (const auto* text = std::get_if<TextShape>(&shape)) texts.push_back(text->text);
  }
  return texts;
}

// The curve of a role that begins furthest to the left in the panels.
LineShape CurveOf(const PlotPicture& picture, Role role, bool dashed = false) {
  for (const Shape& shape : picture.shapes) {
    const auto* line = std::get_if<LineShape>(&shape);
    if (line == nullptr || line->role != role || line->dashed != dashed) continue;
    if (line->points.front().y > 40) return *line;  // not the legend's
  }
  return {};
}

TEST(PlotPicture, PutsEachValueWhereItBelongs) {
  const PlotPicture picture = Draw({Recorded()}, {});
  ASSERT_EQ(picture.panels.size(), 1U);
  const RectShape& area = picture.panels[0].area;
  EXPECT_EQ(picture.seconds, 100);
  const LineShape footprint = CurveOf(picture, Role::kFootprint);
  ASSERT_EQ(footprint.points.size(), 101U);
  EXPECT_EQ(footprint.points.front().x, area.corner.x);
  EXPECT_EQ(footprint.points.front().y, area.corner.y + area.height);
  EXPECT_EQ(footprint.points.back().x, area.corner.x + area.width);
  EXPECT_NEAR(footprint.points.back().y,
              area.corner.y + area.height * (1 - MiB(2000).AsDouble() / picture.top.AsDouble()),
              0.01);
  const LineShape level = CurveOf(picture, Role::kLevel);
  EXPECT_NEAR(level.points.front().y, area.corner.y + area.height * 0.1, 0.01);
}

TEST(PlotPicture, NamesItsRunStagesMarksAndAxes) {
  const std::vector<std::string> texts = Texts(Draw({Recorded()}, {}));
  for (const char* text : {"run", "setup", "encode", "decode", "half of it", "2 GiB", "100 %",
                           "20 s", "footprint", "swap used"}) {
    EXPECT_THAT(texts, Contains(text));
  }
  EXPECT_THAT(texts,
              Contains("peak footprint 1.95 GiB  ·  swap grew by 100 MiB  ·  lowest level 40 %"));
}

TEST(PlotPicture, DrawsTheBudgetOverTheSwapAtTheStart) {
  PlotOptions options;
  options.swap_budget = MiB(512);
  const PlotPicture picture = Draw({Recorded()}, options);
  const RectShape& area = picture.panels[0].area;
  const LineShape line = CurveOf(picture, Role::kSwap, true);
  ASSERT_EQ(line.points.size(), 2U);
  EXPECT_NEAR(line.points[0].y,
              area.corner.y + area.height * (1 - MiB(1536).AsDouble() / picture.top.AsDouble()),
              0.01);
  EXPECT_THAT(Texts(picture), Contains("swap budget 512 MiB"));
}

TEST(PlotPicture, ABudgetFarAboveEverythingIsNamedAndPressesNothing) {
  const PlotPicture picture = Draw({Recorded()}, {});  // 8 GiB over 1 GiB
  EXPECT_EQ(picture.top, GiB(2) + MiB(512));
  EXPECT_THAT(Texts(picture), Contains("↑ swap budget 8 GiB, at 9 GiB"));
  EXPECT_THAT(CurveOf(picture, Role::kSwap, true).points, IsEmpty());
}

TEST(PlotPicture, TakesTheRecordingsOwnBudget) {
  Trace trace = Recorded();
  trace.start.emplace();
  trace.start->rest = R"({"swap_budget":1048576})";
  EXPECT_EQ(BudgetOf(trace, {}).size, MiB(1));
  EXPECT_EQ(BudgetOf(Recorded(), {}).size, GiB(8));
  PlotOptions options;
  options.swap_budget = GiB(2);
  EXPECT_EQ(BudgetOf(trace, options).size, GiB(2));
}

TEST(PlotPicture, BreaksCurvesWhereSamplesAreMissing) {
  Trace trace = Recorded();
  trace.samples.erase(trace.samples.begin() + 40, trace.samples.begin() + 60);
  trace.samples[10].footprint.reset();
  const PlotPicture picture = Draw({trace}, {});
  EXPECT_EQ(CurveOf(picture, Role::kFootprint).points.size(), 10U);
  EXPECT_EQ(CurveOf(picture, Role::kSwap).points.size(), 40U);
}

TEST(PlotPicture, SeveralRunsShareTheirAxes) {
  Trace longer = Recorded();
  longer.path = "/a/longer.jsonl";
  longer.samples.push_back(Sample(200, GiB(6), GiB(1), 30));
  const PlotPicture picture = Draw({Recorded(), longer}, {});
  ASSERT_EQ(picture.panels.size(), 2U);
  EXPECT_EQ(picture.seconds, 200);
  EXPECT_GE(picture.top, GiB(6));
  EXPECT_GT(picture.panels[1].area.corner.y,
            picture.panels[0].area.corner.y + picture.panels[0].area.height);
  EXPECT_NEAR(CurveOf(picture, Role::kFootprint).points.back().x,
              picture.panels[0].area.corner.x + picture.panels[0].area.width / 2, 0.01);
}

TEST(PlotPicture, ARunThatIsShortBesideAnotherIsSeen) {
  Trace brief = Recorded();
  brief.path = "/a/brief.jsonl";
  brief.events.clear();
  brief.samples.resize(5);
  for (std::size_t i = 0; i < brief.samples.size(); ++i) {
    brief.samples[i].t = 0.02 * static_cast<double>(i);
    brief.samples[i].footprint = GiB(1);
  }
  Trace longer = Recorded();
  longer.samples.push_back(Sample(356400, GiB(1), GiB(1), 30));
  const LineShape curve = CurveOf(Draw({brief, longer}, {}), Role::kFootprint);
  ASSERT_FALSE(curve.points.empty());
  EXPECT_GE(curve.points.back().x - curve.points.front().x, 3);
}

Trace WithStages(const std::string& path, const std::vector<std::string>& names) {
  Trace trace;
  trace.path = path;
  double t = 0;
  trace.samples.push_back(Sample(0, MiB(1), Bytes(), 50));
  for (const std::string& name : names) trace.events.push_back(Event(t += 10, "stage", name));
  trace.samples.push_back(Sample(t + 10, MiB(1), Bytes(), 50));
  return trace;
}

// The tints of a panel's stages, from left to right.
std::vector<Role> TintsOf(const PlotPicture& picture, std::size_t panel) {
  std::vector<Role> tints;
  const double bottom = picture.panels[panel].area.corner.y + picture.panels[panel].area.height;
  for (const Shape& shape : picture.shapes) {
    const auto* rect = std::get_if<RectShape>(&shape);
    if (rect == nullptr || rect->role < Role::kStage0) continue;
    if (std::abs(rect->corner.y + rect->height - bottom) < 1) tints.push_back(rect->role);
  }
  return tints;
}

TEST(PlotPicture, StagesBesideEachOtherHaveDifferentTintsInEveryRun) {
  const Trace all = WithStages("all.jsonl", {"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"});
  const Trace some = WithStages("some.jsonl", {"n2", "n8", "n3", "n9", "n1", "n7"});
  const PlotPicture picture = Draw({all, some}, {});
  for (const std::size_t panel : {0U, 1U}) {
    const std::vector<Role> tints = TintsOf(picture, panel);
    ASSERT_GE(tints.size(), 6U);
    for (std::size_t i = 1; i < tints.size(); ++i) {
      EXPECT_NE(tints[i - 1], tints[i]) << "panel " << panel << ", stage " << i;
    }
  }
}

TEST(PlotPicture, AStageBesideStagesOfEveryTintHasALineBetween) {
  const PlotPicture picture =
      Draw({WithStages("run.jsonl", {"a", "b", "c", "d", "e", "hub", "setup", "hub", "a", "hub",
                                     "b", "hub", "c", "hub", "d", "hub"})},
           {});
  const std::vector<Role> tints = TintsOf(picture, 0);
  std::size_t same = 0;
  for (std::size_t i = 1; i < tints.size(); ++i) same += tints[i - 1] == tints[i] ? 1 : 0;
  ASSERT_GT(same, 0U) << "all have found a tint";
  const RectShape& area = picture.panels[0].area;
  std::size_t lines = 0;
  for (const Shape& shape : picture.shapes) {
    const auto* line = std::get_if<LineShape>(&shape);
    if (line == nullptr || line->role != Role::kFrame || line->points.size() != 2) continue;
    const bool upright = line->points[0].x == line->points[1].x;
    if (upright && line->points[0].y < area.corner.y) ++lines;
  }
  EXPECT_EQ(lines, same);
}

TEST(PlotPicture, TheBudgetsNameStandsOnNoCurve) {
  for (const int footprint : {954, 975, 900, 20}) {
    Trace trace;
    trace.path = "flat.jsonl";
    for (int i = 0; i <= 10; ++i) {
      trace.samples.push_back(Sample(i, MiB(footprint), MiB(4 * i), 50 + i));
    }
    const PlotPicture picture = Draw({trace}, {});
    const double curve = CurveOf(picture, Role::kFootprint).points[0].y;
    const double level = CurveOf(picture, Role::kLevel).points[0].y;
    std::size_t found = 0;
    for (const Shape& shape : picture.shapes) {
      const auto* text = std::get_if<TextShape>(&shape);
      if (text == nullptr || text->text.find("swap budget") == std::string::npos) continue;
      ++found;
      for (const double y : {curve, level}) {
        EXPECT_FALSE(y > text->at.y - text->size - 2 && y < text->at.y + 4)
            << "the name at " << text->at.y << ", a curve at " << y;
      }
    }
    EXPECT_EQ(found, 1U);
  }
}

// Whether a curve of the picture goes through where this text stands.
bool StandsOnACurve(const PlotPicture& picture, const TextShape& text) {
  const double half = 4 * static_cast<double>(text.text.size());
  for (const Shape& shape : picture.shapes) {
    const auto* line = std::get_if<LineShape>(&shape);
    if (line == nullptr || line->dashed || line->points.front().y < 40) continue;
    if (line->role != Role::kFootprint && line->role != Role::kSwap && line->role != Role::kLevel) {
      continue;
    }
    for (std::size_t i = 1; i < line->points.size(); ++i) {
      const Point& a = line->points[i - 1];
      const Point& b = line->points[i];
      for (int k = 0; k <= 100; ++k) {  // finer than a letter
        const double x = a.x + (b.x - a.x) * k / 100, y = a.y + (b.y - a.y) * k / 100;
        if (x > text.at.x - half && x < text.at.x + half && y > text.at.y - 10 &&
            y < text.at.y + 3) {
          return true;
        }
      }
    }
  }
  return false;
}

TEST(PlotPicture, TheNumbersOfMarksStandOnNoCurveAndNotOnEachOther) {
  Trace trace;
  trace.path = "busy.jsonl";
  for (int i = 0; i <= 200; ++i) {
    // At the bottom, at the top, and just below that; the footprint jumps at each mark.
    trace.samples.push_back(Sample(i, i / 20 % 2 == 0 ? MiB(5) : MiB(940), MiB(960), 89));
  }
  for (int i = 20; i <= 200; i += 20) trace.events.push_back(Event(i, "mark", "", "jump"));
  trace.events.insert(trace.events.begin() + 1, Event(26, "mark", "", "close by"));
  const PlotPicture picture = Draw({trace}, {});
  std::vector<TextShape> numbers;
  for (const Shape& shape : picture.shapes) {
    const auto* text = std::get_if<TextShape>(&shape);
    if (text == nullptr || !text->boxed || text->anchor != TextShape::Anchor::kMiddle) continue;
    numbers.push_back(*text);
    EXPECT_FALSE(StandsOnACurve(picture, *text)) << text->text << " at " << text->at.y;
    EXPECT_GT(text->at.y, picture.panels[0].area.corner.y);
    EXPECT_LT(text->at.y, picture.panels[0].area.corner.y + picture.panels[0].area.height);
  }
  ASSERT_EQ(numbers.size(), 11U);
  for (std::size_t i = 1; i < numbers.size(); ++i) {
    EXPECT_TRUE(numbers[i].at.x - numbers[i - 1].at.x > 12 ||
                std::abs(numbers[i].at.y - numbers[i - 1].at.y) > 12)
        << numbers[i].text;
  }
}

TEST(PlotPicture, TheLegendNamesWhatThereIs) {
  const auto without = [](const std::function<void(TraceSample&)>& drop) {
    Trace trace = Recorded();
    for (TraceSample& sample : trace.samples) drop(sample);
    return Texts(Draw({trace}, {}));
  };
  const char* level = "level: memory available (right axis)";
  const char* budget = "swap at the start + budget";
  EXPECT_THAT(without([](TraceSample&) {}), AllOf(Contains("footprint"), Contains("swap used"),
                                                  Contains(level), Not(Contains(budget))))
      << "the budget is far above the picture";
  EXPECT_THAT(without([](TraceSample& sample) { sample.level.reset(); }),
              AllOf(Contains("footprint"), Not(Contains(level)), Not(Contains("100 %"))));
  EXPECT_THAT(without([](TraceSample& sample) { sample.swap_used.reset(); }),
              AllOf(Contains(level), Not(Contains("swap used")), Not(Contains(budget))));
  EXPECT_THAT(without([](TraceSample& sample) { sample.footprint.reset(); }),
              AllOf(Contains("swap used"), Not(Contains("footprint"))));
  PlotOptions options;
  options.swap_budget = MiB(512);
  EXPECT_THAT(Texts(Draw({Recorded()}, options)), Contains(budget));
  Trace bare = Recorded();
  for (TraceSample& sample : bare.samples) sample.level.reset();
  EXPECT_THAT(Texts(Draw({bare, Recorded()}, {})), Contains(level)) << "of the other";
}

TEST(PlotPicture, ManyMarksAreNumberedTogetherAndListedInPart) {
  Trace trace = Recorded();
  trace.events.clear();
  for (int i = 0; i < 200; ++i) trace.events.push_back(Event(i * 0.5, "mark", "", "note"));
  const std::vector<std::string> texts = Texts(Draw({trace}, {}));
  EXPECT_THAT(texts, Contains("and 194 more"));
  EXPECT_LT(texts.size(), 100U);
}

TEST(PlotPicture, ANameWithoutRoomStandsOverItsStageAndASetupThatNobodySeesHasNone) {
  Trace trace = Recorded();
  trace.events = {Event(0.1, "stage", "encode"), Event(50, "stage", "a rather long name"),
                  Event(52, "stage", "decode")};
  const PlotPicture picture = Draw({trace}, {});
  EXPECT_THAT(Texts(picture), AllOf(Contains("a rather long name"), Not(Contains("setup"))));
  for (const Shape& shape : picture.shapes) {
    const auto* text = std::get_if<TextShape>(&shape);
    if (text == nullptr) continue;
    if (text->text == "encode") {
      EXPECT_GT(text->at.y, picture.panels[0].area.corner.y - 18);
    }
    if (text->text == "a rather long name") {
      EXPECT_LT(text->at.y, picture.panels[0].area.corner.y - 18);
    }
  }
}

TEST(PlotPicture, ARunOfOneSampleAndOneWithoutValuesAreDrawn) {
  Trace trace;
  trace.path = "one.jsonl";
  trace.samples.resize(1);
  EXPECT_THAT(SvgElement(Draw({trace}, {})), Not(HasSubstr("nan")));
  trace.samples[0] = Sample(0, GiB(1), Bytes(), 50);
  const std::string svg = SvgElement(Draw({trace}, {}));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(ThinnedSamples, KeepEveryExtremeAndGap) {
  Trace trace;
  for (int i = 0; i < 100000; ++i) trace.samples.push_back(Sample(i * 0.5, MiB(1), MiB(1), 50));
  trace.samples[54321].footprint = GiB(5);
  trace.samples[77777].swap_used = GiB(6);
  trace.samples[12345].level = Percent{3};
  for (std::size_t i = 90050; i < trace.samples.size(); ++i) trace.samples[i].t += 100;
  const std::vector<PlotSample> thinned = Thinned(trace, 800);
  EXPECT_LT(thinned.size(), 8000U);
  Bytes footprint;
  Bytes swap;
  double level = 100;
  int gaps = 0;
  double before = -1;
  for (const PlotSample& sample : thinned) {
    EXPECT_GT(sample.t, before);
    before = sample.t;
    footprint = std::max(footprint, *sample.footprint);
    swap = std::max(swap, *sample.swap);
    level = std::min(level, sample.level->value);
    if (sample.after_gap) ++gaps;
  }
  EXPECT_EQ(footprint, GiB(5));
  EXPECT_EQ(swap, GiB(6));
  EXPECT_EQ(level, 3);
  EXPECT_EQ(gaps, 1);
}

TEST(Ticks, AreAtRoundNumbers) {
  EXPECT_EQ(TickStep(100, 10), 10);
  EXPECT_EQ(TickStep(105, 10), 20);
  EXPECT_EQ(TickStep(27.4, 6), 5);
  EXPECT_NEAR(TickStep(0.9, 6), 0.2, 1e-9);
}

TEST(Marks, AreSaidInOneLine) {
  TraceEvent load = Event(1, "load", "encode");
  load.name = "transformer";
  load.nbytes = GiB(13);
  load.seconds = 5.3;
  EXPECT_EQ(MarkText(load), "load transformer, 13 GiB in 5.3s");
  EXPECT_EQ(MarkText(Event(1, "mark", "", "a note")), "a note");
  EXPECT_EQ(MarkText(Event(1, "checkpoint", "", "saved")), "checkpoint: saved");
}

// ---- Names that want to be more ----

Trace Hostile() {
  Trace trace = Recorded();
  trace.path = "/a/<b>'`id`.jsonl";
  trace.events = {
      Event(10, "stage", "</script><script>alert('1')</script>"),
      Event(60, "mark", "", "it's \"quoted\" `touch /tmp/x` \\n $(id)\nset output 'x'\x1b[31m"),
  };
  return trace;
}

TEST(Html, EscapesNamesInMarkupAndInData) {
  const std::string page = HtmlPage(Draw({Hostile()}, {}));
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;script&gt;"));
  EXPECT_THAT(page, HasSubstr("\\u003c/script\\u003e"));
  EXPECT_THAT(page, Not(HasSubstr("\x1b")));
}

TEST(Html, LoadsNothing) {
  const std::string page = HtmlPage(Draw({Recorded()}, {}));
  EXPECT_THAT(page, Not(HasSubstr("http:")));
  EXPECT_THAT(page, Not(HasSubstr("https:")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
}

TEST(Fonts, HaveWhatTheirRangesSayAndLatinAndArrows) {
  const Fonts fonts("20-7e 5e9-5ea\n4e00 zz-\n1f389-1f38a\n");
  EXPECT_EQ(WithPlainSigns("Zé–↑ 一丁 🎉🎁 \uE123", fonts), "Zé–↑ 一? 🎉? ?");
  EXPECT_EQ(WithPlainSigns("", fonts), "");
  EXPECT_FALSE(fonts.Have(0x5E8));
  EXPECT_TRUE(fonts.Have(0x5E9));
  EXPECT_FALSE(fonts.Have(0x5EB));
}

TEST(Fonts, WithoutFontconfigTheBasicPlaneIsLikelyAndNobodysOwnIsNot) {
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const Fonts fonts = Fonts::OfThisMachine();
  setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(WithPlainSigns("模型 🎉 \uE123 \uFF01", fonts), "模型 ? ? \uFF01");
}

TEST(Fonts, NoneOfThisMachineHasACharacterOfNobody) {
  PlotPicture picture;
  TextShape name;
  name.text = "a\U0010FFFDb";
  picture.shapes.emplace_back(name);
  ReplaceWhatHasNoFont(picture);
  EXPECT_EQ(std::get<TextShape>(picture.shapes[0]).text, "a?b");
}

TEST(Gnuplot, GetsNamesInSingleQuotesWithinTheirLine) {
  const std::string script = GnuplotScript(Draw({Hostile()}, {}), GnuplotFormat::kSvg);
  EXPECT_THAT(script,
              HasSubstr("'it''s \"quoted\" `touch /tmp/x` \\n $(id)?set output ''x''?[31m'"));
  EXPECT_THAT(script, Not(HasSubstr("\nset output")));
  EXPECT_THAT(script, HasSubstr("noenhanced"));
}

}  // namespace
}  // namespace stageload::ctl
