// Which columns, how wide, with what in them.
#include "client/ctl/top_columns.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/ctl/job_table.h"
#include "client/ctl/json.h"
#include "client/ctl/print_text.h"
#include "client/ctl/telemetry_text.h"
#include "client/ctl/top_graph.h"

namespace stageload::ctl {
namespace {

constexpr std::size_t kNameMin = 8;
constexpr std::size_t kNameMax = 28;
constexpr std::size_t kStageMax = 18;
constexpr std::size_t kNotesMin = 24;
constexpr std::size_t kNotesMax = 72;
constexpr std::size_t kPercentColumns = 6;  // " 100 %"

struct Rule {
  ColumnOf what;
  const char* title;
  std::size_t width;  // at least
  bool right;
  std::optional<SortBy> sort;
};

// As they stand on the screen.
constexpr std::array<Rule, 12> kRules = {{
    {ColumnOf::kId, "ID", 5, true, SortBy::kId},
    {ColumnOf::kState, "STATE", 9, false, SortBy::kState},
    {ColumnOf::kName, "NAME", kNameMin, false, SortBy::kName},
    {ColumnOf::kFootprint, "FOOTPRINT", 10, true, SortBy::kFootprint},
    {ColumnOf::kDeclared, "DECLARED", 9, true, SortBy::kDeclared},
    {ColumnOf::kCharge, "CHARGE", 14, false, SortBy::kCharge},
    {ColumnOf::kBudget, "OF BUDGET", 17, true, std::nullopt},
    {ColumnOf::kSwapped, "SWAPPED", 8, true, std::nullopt},
    {ColumnOf::kProcesses, "PROCS", 6, true, SortBy::kProcesses},
    {ColumnOf::kTime, "TIME", 7, true, SortBy::kStart},
    {ColumnOf::kStage, "STAGE", 10, false, std::nullopt},
    {ColumnOf::kNotes, "LEASES AND GAUGES", kNotesMin, false, std::nullopt},
}};

// Who gets room first. On a narrow screen the bar of the charge is its percentage alone.
constexpr std::array<ColumnOf, 12> kPriority = {
    ColumnOf::kId,    ColumnOf::kName,     ColumnOf::kFootprint, ColumnOf::kCharge,
    ColumnOf::kState, ColumnOf::kDeclared, ColumnOf::kProcesses, ColumnOf::kBudget,
    ColumnOf::kTime,  ColumnOf::kStage,    ColumnOf::kNotes,     ColumnOf::kSwapped};
constexpr std::size_t kNarrow = 60;
constexpr std::size_t kNarrowCharge = 6;
constexpr std::size_t kWideCharge = 30;
constexpr std::size_t kNarrowState = 4;

const Rule& RuleOf(ColumnOf what) {
  return *std::find_if(kRules.begin(), kRules.end(),
                       [what](const Rule& rule) { return rule.what == what; });
}

std::string NotesOf(const v1::ClientSample& client) { return Printable(LeasesAndGauges(client)); }

// Of what all the clients have, up to a limit; 0 when none has any.
template <typename TextOf>
std::size_t Widest(const std::vector<const v1::ClientSample*>& clients, TextOf text_of) {
  std::size_t widest = 0;
  for (const v1::ClientSample* client : clients) {
    widest = std::max(widest, Columns(text_of(*client)));
  }
  return widest;
}

std::size_t MinimumOf(ColumnOf what, std::size_t width) {
  if (width < kNarrow && what == ColumnOf::kCharge) return kNarrowCharge;
  if (width < kNarrow && what == ColumnOf::kState) return kNarrowState;
  return RuleOf(what).width;
}

void Grow(std::vector<PlacedColumn>& columns, ColumnOf what, std::size_t to, std::size_t& room) {
  for (PlacedColumn& column : columns) {
    if (column.what != what || to <= column.width) continue;
    const std::size_t more = std::min(room, to - column.width);
    column.width += more;
    room -= more;
  }
}

std::string StateText(v1::JobState state, std::size_t width) {
  const std::string word = Word(state);
  if (word.size() <= width) return word;
  switch (state) {
    case v1::JOB_STATE_SUSPENDED:
      return "SUSP";
    case v1::JOB_STATE_STOPPING:
      return "STOP";
    default:
      return word.substr(0, std::min(width, std::size_t{3}));
  }
}

double ShareOf(const v1::ClientSample& client) {
  if (client.swap_budget_bytes() <= 0) return client.charge_bytes() > 0 ? 9.99 : 0;
  return static_cast<double>(client.charge_bytes()) /
         static_cast<double>(client.swap_budget_bytes());
}

// " 82 %"; a charge can be below nothing, and far above its budget.
std::string PercentText(double share) {
  return absl::StrCat(std::lround(std::clamp(share, -9.99, 9.99) * 100), " %");
}

std::string TextOf(ColumnOf what, const v1::ClientSample& client, std::size_t width,
                   absl::Time now) {
  switch (what) {
    case ColumnOf::kId:
      return absl::StrCat(client.job_id());
    case ColumnOf::kState:
      return StateText(client.state(), width);
    case ColumnOf::kName:
      return Printable(std::string(client.name()));
    case ColumnOf::kFootprint:
      return SizeOrDash(client.has_footprint_bytes(), client.footprint_bytes());
    case ColumnOf::kDeclared:
      return SizeOrDash(client.has_memory_bytes(), client.memory_bytes());
    case ColumnOf::kCharge:
      return PercentText(ShareOf(client));
    case ColumnOf::kBudget:
      return ChargeOfBudget(client.charge_bytes(), client.swap_budget_bytes());
    case ColumnOf::kSwapped:
      return SizeOrDash(client.has_swapped_bytes(), client.swapped_bytes());
    case ColumnOf::kProcesses:
      return absl::StrCat(client.processes());
    case ColumnOf::kTime:
      return client.start_time_ns() == 0
                 ? "-"
                 : FormatSpan(
                       std::max(absl::ZeroDuration(),
                                absl::Trunc(now - absl::FromUnixNanos(client.start_time_ns()),
                                            absl::Seconds(1))));
    case ColumnOf::kStage:
      return Printable(std::string(client.stage()));
    case ColumnOf::kNotes:
      return NotesOf(client);
  }
  return "";
}

void PutCharge(PictureLine& line, const v1::ClientSample& client, std::size_t width, Style style,
               bool utf8) {
  const std::string percent = PercentText(ShareOf(client));
  if (width <= kPercentColumns) {
    line.Cell(percent, width, true, style);
    return;
  }
  const std::size_t bar = width - kPercentColumns;
  // Reverse would show the part that is left.
  line.Put(Bar(ShareOf(client), bar, utf8), {.ink = InkOfCharge(client)})
      .Cell(percent, kPercentColumns, true, style);
}

Style StyleOf(ColumnOf what, const v1::ClientSample& client) {
  switch (what) {
    case ColumnOf::kState:
      return {.ink = InkOf(ColourOf(client.state()))};
    case ColumnOf::kCharge:
      return {.ink = InkOfCharge(client)};
    case ColumnOf::kId:
      return {.ink = Ink::kCyan};
    default:
      return {};
  }
}

}  // namespace

Ink InkOfCharge(const v1::ClientSample& client) {
  const double share = ShareOf(client);
  return share > 1 ? Ink::kRed : share > 0.8 ? Ink::kYellow : Ink::kGreen;
}

Ink InkOf(Colour colour) {
  switch (colour) {
    case Colour::kGreen:
      return Ink::kGreen;
    case Colour::kYellow:
      return Ink::kYellow;
    case Colour::kRed:
      return Ink::kRed;
    default:
      return Ink::kPlain;
  }
}

std::vector<PlacedColumn> ColumnsFor(std::size_t width,
                                     const std::vector<const v1::ClientSample*>& clients) {
  const std::size_t stage = Widest(clients, [](const v1::ClientSample& client) {
    return Printable(std::string(client.stage()));
  });
  const std::size_t notes = Widest(clients, NotesOf);
  const std::size_t name = Widest(clients, [](const v1::ClientSample& client) {
    return Printable(std::string(client.name()));
  });
  std::array<bool, kRules.size()> fits{};
  std::size_t used = 0;
  // All of it, or it stands below the row: half of a gauge says nothing.
  const std::size_t least_notes = std::clamp(notes, kNotesMin, kNotesMax);
  for (const ColumnOf what : kPriority) {
    if (what == ColumnOf::kStage && stage == 0) continue;
    if (what == ColumnOf::kNotes && notes == 0) continue;
    const std::size_t least = what == ColumnOf::kNotes ? least_notes : MinimumOf(what, width);
    const std::size_t more = least + (used > 0 ? 1 : 0);
    if (used + more > width && used > 0) break;
    used += more;
    fits[static_cast<std::size_t>(what)] = true;
  }
  std::vector<PlacedColumn> columns;
  for (const Rule& rule : kRules) {
    if (!fits[static_cast<std::size_t>(rule.what)]) continue;
    columns.push_back(
        {rule.what, rule.what == ColumnOf::kNotes ? least_notes : MinimumOf(rule.what, width)});
  }
  std::size_t room = width - std::min(used, width);
  Grow(columns, ColumnOf::kName, std::clamp(name, kNameMin, kNameMax), room);
  Grow(columns, ColumnOf::kStage, std::min(stage, kStageMax), room);
  Grow(columns, ColumnOf::kNotes, notes, room);
  if (width >= kNarrow) Grow(columns, ColumnOf::kCharge, kWideCharge, room);
  return columns;
}

bool Has(const std::vector<PlacedColumn>& columns, ColumnOf what) {
  return std::any_of(columns.begin(), columns.end(),
                     [what](const PlacedColumn& column) { return column.what == what; });
}

void PutTitles(PictureLine& line, const std::vector<PlacedColumn>& columns, SortBy sort_by,
               bool reversed, bool utf8) {
  for (const PlacedColumn& column : columns) {
    const Rule& rule = RuleOf(column.what);
    const bool sorts = rule.sort == sort_by;
    std::string title = rule.title;
    if (sorts) title += reversed ? (utf8 ? "▴" : "^") : (utf8 ? "▾" : "v");
    if (Columns(title) > column.width) title = std::string(rule.title).substr(0, column.width);
    if (line.used() > 0) line.Put(" ", kTitle);
    line.Cell(title, column.width, rule.right, sorts ? kTitleBold : kTitle);
  }
  line.To(line.used() + line.room(), kTitle);
}

void PutClient(PictureLine& line, const std::vector<PlacedColumn>& columns,
               const v1::ClientSample& client, absl::Time now, bool chosen, bool utf8) {
  for (const PlacedColumn& column : columns) {
    Style style = StyleOf(column.what, client);
    if (chosen) style.ink = Ink::kPlain;  // reverse in many colours is a flag
    style.reverse = chosen;
    style.bold = chosen;
    if (line.used() > 0) line.Put(" ", {.reverse = chosen});
    if (column.what == ColumnOf::kCharge) {
      PutCharge(line, client, column.width, style, utf8);
    } else {
      line.Cell(TextOf(column.what, client, column.width, now), column.width,
                RuleOf(column.what).right, style);
    }
  }
  if (chosen) line.To(line.used() + line.room(), {.reverse = true});
}

}  // namespace stageload::ctl
