// Header, graphs, clients, what waits, events, and the line at the bottom.
#include "client/ctl/top_layout.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/ctl/json.h"
#include "client/ctl/outcome.h"
#include "client/ctl/print_text.h"
#include "client/ctl/telemetry_text.h"
#include "client/ctl/top_columns.h"
#include "client/ctl/top_graph.h"

namespace stageload::ctl {
namespace {

constexpr double kLowLevel = 40;   // where jobs wait by default
constexpr double kDireLevel = 10;  // where one of them is stopped
constexpr double kFastSwap = 64.0 * 1024 * 1024;
constexpr double kLeastRate = 1024;  // below this swap is said to be steady
constexpr std::int64_t kLeastSwapScale = 64LL << 20;

constexpr Style kBold{.bold = true};
constexpr Style kDim{.dim = true};
constexpr Style kWarning{.ink = Ink::kYellow, .bold = true};
constexpr Style kAlarm{.ink = Ink::kYellow, .bold = true, .reverse = true};

std::string Size(std::int64_t bytes) { return FormatBytes(Bytes(bytes)); }

// Builds the picture from the top down.
class Layout {
 public:
  Layout(const TopModel& model, const TopScreen& screen) : model_(model), screen_(screen) {}

  TopPicture Done() && { return std::move(picture_); }
  void Screen();
  void Help();

 private:
  PictureLine NewLine() const { return {screen_.width, screen_.utf8}; }
  void Add(PictureLine line) {
    if (picture_.lines.size() < screen_.height) picture_.lines.push_back(std::move(line));
  }
  std::size_t RowsLeft() const {
    const std::size_t used = picture_.lines.size() + 1;  // the bottom line
    return screen_.height - std::min(used, screen_.height);
  }

  void Header();
  void Flags(PictureLine& line) const;
  void Host();
  void HostText();
  void Graph(const std::vector<std::string>& labels, Ink ink, const std::vector<GraphColumn>& graph,
             std::size_t rows);
  void Axis(std::size_t gutter, std::size_t columns);
  void Summary();
  void Body();
  void Clients(std::size_t rows);
  std::vector<PictureLine> ClientLines(const v1::ClientSample& client, bool chosen, bool all) const;
  void Waiting(std::size_t rows);
  std::vector<PictureLine> WaitingLines(const v1::WaitingRequest& request, bool chosen) const;
  void Events(std::size_t rows);
  void Bottom();
  void Title(const std::string& text, const std::string& more = "");
  std::size_t WantedClients() const;
  std::size_t WantedWaiting() const;
  int WaitingCount() const;
  void FitWaiting();

  bool Chosen(std::size_t row) const { return model_.chosen() == row; }
  const v1::Frame& frame() const { return *model_.frame(); }

  const TopModel& model_;
  const TopScreen& screen_;
  const absl::Time shown_time_ = model_.ShownTime(screen_.now);
  TopPicture picture_;
  std::vector<PlacedColumn> columns_;
  bool all_details_ = false;
  std::size_t name_columns_ = 8;  // of what waits
  std::size_t wants_columns_ = 16;
};

Ink InkOfLevel(double level) {
  return level < kDireLevel ? Ink::kRed : level < kLowLevel ? Ink::kYellow : Ink::kGreen;
}

Ink InkOfPressure(v1::Pressure pressure) {
  switch (pressure) {
    case v1::PRESSURE_WARN:
      return Ink::kYellow;
    case v1::PRESSURE_CRITICAL:
      return Ink::kRed;
    default:
      return Ink::kGreen;
  }
}

// "+12 MiB/s", "-3 MiB/s", "steady".
std::string RateText(double bytes_per_second) {
  if (std::abs(bytes_per_second) < kLeastRate) return "steady";
  const auto bytes = static_cast<std::int64_t>(std::clamp(bytes_per_second, -1e15, 1e15));
  return absl::StrCat(bytes > 0 ? "+" : "", Size(bytes), "/s");
}

Ink InkOfRate(double bytes_per_second) {
  return bytes_per_second > kFastSwap     ? Ink::kRed
         : bytes_per_second >= kLeastRate ? Ink::kYellow
                                          : Ink::kGreen;
}

// The next power of two: the scale does not move with every sample.
std::int64_t ScaleFor(std::int64_t highest) {
  std::int64_t scale = kLeastSwapScale;
  while (scale < highest && scale < (1LL << 61)) scale *= 2;
  return scale;
}

std::vector<GraphColumn> LevelGraph(const std::vector<HostPoint>& points) {
  std::vector<GraphColumn> graph(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].level) graph[i] = {*points[i].level / 100, InkOfLevel(*points[i].level)};
  }
  return graph;
}

std::vector<GraphColumn> SwapGraph(const std::vector<HostPoint>& points, std::int64_t scale) {
  std::vector<GraphColumn> graph(points.size());
  std::optional<std::int64_t> before;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].swap) continue;
    const std::int64_t swap = *points[i].swap;
    const bool grew = before && swap - *before > scale / 64;
    graph[i] = {static_cast<double>(swap) / static_cast<double>(scale),
                grew ? Ink::kRed : Ink::kCyan};
    before = swap;
  }
  return graph;
}

std::vector<GraphColumn> PressureGraph(const std::vector<HostPoint>& points) {
  std::vector<GraphColumn> graph(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (!points[i].pressure || *points[i].pressure == v1::PRESSURE_UNSPECIFIED) continue;
    const v1::Pressure pressure = *points[i].pressure;
    const double height = pressure == v1::PRESSURE_CRITICAL ? 1.0
                          : pressure == v1::PRESSURE_WARN   ? 0.5
                                                            : 0.0;
    graph[i] = {height, InkOfPressure(pressure)};
  }
  return graph;
}

std::int64_t HighestSwap(const std::vector<HostPoint>& points) {
  std::int64_t highest = 0;
  for (const HostPoint& point : points) highest = std::max(highest, point.swap.value_or(0));
  return highest;
}

void Layout::Screen() {
  Header();
  if (model_.frame() == nullptr) {
    Add(NewLine());
    Add(std::move(NewLine().Put("no sample yet", kDim)));
  } else {
    Host();
    Summary();
    Body();
  }
  while (RowsLeft() > 0) Add(NewLine());
  Bottom();
}

void Layout::Flags(PictureLine& line) const {
  const auto flag = [&](bool set, const char* text) {
    if (set) line.Put(" ").Put(absl::StrCat(" ", text, " "), kAlarm);
  };
  flag(model_.paused(), "PAUSED");
  flag(model_.frame() != nullptr && frame().has_queue_held(), "QUEUE HELD");
  flag(model_.daemon().dry_run(), "DRY RUN");
}

void Layout::Header() {
  PictureLine line = NewLine();
  if (const auto& loss = model_.loss()) {
    const absl::Duration since = absl::Trunc(screen_.now - loss->since, absl::Seconds(1));
    line.Put(absl::StrCat(loss->why, ", waiting"), {.ink = Ink::kRed, .bold = true});
    line.Put(absl::StrCat(" ", FormatSpan(std::max(since, absl::ZeroDuration()))));
    Flags(line);
  } else {
    const v1::GetVersionResponse& daemon = model_.daemon();
    if (const auto silence = model_.Silence(screen_.now)) {
      line.Put(absl::StrCat("no sample for ", FormatSpan(absl::Trunc(*silence, absl::Seconds(1))),
                            ": the daemon does not answer"),
               kWarning);
    } else {
      line.Put("stageloadd ", kBold).Put(Printable(std::string(daemon.version())), kBold);
    }
    Flags(line);
    line.Put(absl::StrCat(
        "  pid ", daemon.pid(), ", up ",
        FormatSpan(std::max(absl::ZeroDuration(),
                            absl::Trunc(shown_time_ - absl::FromUnixNanos(daemon.start_time_ns()),
                                        absl::Seconds(1))))));
  }
  Add(std::move(line.Right(absl::FormatTime("%H:%M:%S", screen_.now, screen_.zone))));
  if (screen_.height >= 12 && model_.frame() != nullptr && frame().has_queue_held()) {
    Add(std::move(
        NewLine().Put(absl::StrCat("queue held: ", Printable(std::string(frame().queue_held()))),
                      {.ink = Ink::kYellow})));
  }
}

// One row of a graph needs a label of one row, and so on.
void Layout::Graph(const std::vector<std::string>& labels, Ink ink,
                   const std::vector<GraphColumn>& graph, std::size_t rows) {
  const std::size_t gutter = screen_.width - graph.size();
  for (std::size_t row = 0; row < rows; ++row) {
    PictureLine line = NewLine();
    const std::string label = row < labels.size() ? labels[row] : "";
    line.Cell(label, gutter, false, row == 0 ? Style{.ink = ink, .bold = true} : Style{});
    PutGraphRow(line, graph, row, rows, screen_.utf8);
    Add(std::move(line));
  }
}

void Layout::HostText() {
  const v1::HostSample& host = frame().host();
  Add(std::move(NewLine().Put(HostLine(host))));
}

std::vector<std::string> LevelLabels(const v1::HostSample& host) {
  std::vector<std::string> labels{"level -"};
  if (host.has_level_percent()) {
    labels[0] = absl::StrCat("level ", FormatPercent(Percent{host.level_percent()}));
  }
  if (host.has_available_bytes()) {
    labels.push_back(absl::StrCat(Size(host.available_bytes()), " free"));
  }
  if (host.has_total_bytes()) labels.push_back(absl::StrCat("of ", Size(host.total_bytes())));
  return labels;
}

// One line has the growth beside the figure, if there is room for it and any to tell.
std::vector<std::string> SwapLabels(const v1::HostSample& host, std::optional<double> rate,
                                    std::size_t rows, std::size_t columns) {
  if (!host.has_swap_used_bytes()) return {"swap -"};
  const std::string used = Size(host.swap_used_bytes());
  std::vector<std::string> labels{absl::StrCat("swap ", used)};
  if (!rate) return labels;
  if (rows == 1 && std::abs(*rate) >= kLeastRate) {
    for (const char* name : {"swap ", ""}) {
      const std::string both = absl::StrCat(name, used, " ", RateText(*rate));
      if (Columns(both) < columns) return {both};
    }
    return {absl::StrCat("swap ", RateText(*rate))};
  }
  labels.push_back(RateText(*rate));
  if (host.has_swap_total_bytes()) {
    labels.push_back(absl::StrCat("of ", Size(host.swap_total_bytes())));
  }
  return labels;
}

void Layout::Host() {
  // Below this a graph says nothing.
  constexpr std::size_t kLeastColumns = 10;
  const std::size_t gutter = screen_.width >= 60 ? 20 : 15;
  if (screen_.width < gutter + kLeastColumns || screen_.height < 8) return HostText();
  const std::size_t columns = screen_.width - gutter;
  const std::size_t rows = screen_.height >= 48   ? 6
                           : screen_.height >= 34 ? 4
                           : screen_.height >= 24 ? 3
                                                  : 1;
  const std::vector<HostPoint> points =
      model_.history().Stretches(columns, absl::ToInt64Seconds(model_.graph_span()));
  const v1::HostSample& host = frame().host();
  Graph(LevelLabels(host),
        host.has_level_percent() ? InkOfLevel(host.level_percent()) : Ink::kPlain,
        LevelGraph(points), rows);
  const std::optional<double> rate = model_.swap_growth();
  const std::int64_t scale = ScaleFor(HighestSwap(points));
  std::vector<std::string> swap = SwapLabels(host, rate, rows, gutter);
  if (rows > 3) swap.push_back(absl::StrCat("graph to ", Size(scale)));
  Graph(swap, rate ? InkOfRate(*rate) : Ink::kPlain, SwapGraph(points, scale), rows);
  if (screen_.height < 14) return;
  Graph({absl::StrCat("pressure ", host.has_pressure() ? Word(host.pressure()) : "-")},
        InkOfPressure(host.pressure()), PressureGraph(points), 1);
  if (screen_.height >= 24) Axis(gutter, columns);
}

// "-4m      -3m      -2m      -1m      now", each where its time is.
void Layout::Axis(std::size_t gutter, std::size_t columns) {
  const std::int64_t span = absl::ToInt64Seconds(model_.graph_span());
  const std::int64_t step = span <= 60 ? 15 : span <= 300 ? 60 : span <= 900 ? 300 : 900;
  PictureLine line = NewLine();
  for (std::int64_t ago = span; ago > 0; ago -= step) {
    const std::string label =
        step < 60 ? absl::StrCat("-", ago, "s") : absl::StrCat("-", ago / 60, "m");
    const auto column =
        gutter + columns - columns * static_cast<std::size_t>(ago) / static_cast<std::size_t>(span);
    if (line.used() > 0 && column < line.used() + 2) continue;
    if (column + label.size() + 4 > screen_.width) continue;  // the place of "now"
    line.To(column).Put(label, kDim);
  }
  Add(std::move(line.Right("now", kDim)));
}

void Layout::Summary() {
  if (screen_.height < 18) return;
  PictureLine line = NewLine();
  line.Put(absl::StrCat(frame().active(), " active, ", WaitingCount(), " waiting, ",
                        Size(frame().reserved_bytes()), " promised beyond what they take now"));
  Add(std::move(line));
}

std::size_t Layout::WantedClients() const {
  std::size_t rows = 1 + model_.clients().size();
  if (!all_details_) return rows + 1;  // the chosen one's
  for (const v1::ClientSample* client : model_.clients()) {
    rows += ClientLines(*client, false, true).size() - 1;
  }
  return rows + 1;
}

std::size_t Layout::WantedWaiting() const {
  if (frame().waiting().empty()) {
    return frame().pending() == 0 ? 0 : 1 + static_cast<std::size_t>(frame().blockers_size());
  }
  std::size_t rows = 1;
  for (int i = 0; i < frame().waiting_size(); ++i) {
    rows += WaitingLines(frame().waiting(i),
                         Chosen(model_.clients().size() + static_cast<std::size_t>(i)))
                .size();
  }
  return rows;
}

// Starts, of which the first are told, and leases, which stand before them.
int Layout::WaitingCount() const {
  const auto leases =
      std::count_if(frame().waiting().begin(), frame().waiting().end(),
                    [](const v1::WaitingRequest& request) { return request.lease_id() != 0; });
  return frame().pending() + static_cast<int>(leases);
}

// As wide as the widest, but what blocks them keeps at least half of the screen.
void Layout::FitWaiting() {
  std::size_t name = 4;
  std::size_t wants = 5;
  for (const v1::WaitingRequest& request : frame().waiting()) {
    name = std::max(name, Columns(Printable(std::string(request.name()))));
    wants = std::max(wants, Columns(Printable(WantsText(request))));
  }
  name_columns_ = std::min(name, screen_.width / 5);
  wants_columns_ = std::min(wants, screen_.width / 5);
}

// Half for the clients, a quarter for what waits, the rest for events; what one does not need goes
// to the next.
void Layout::Body() {
  columns_ = ColumnsFor(screen_.width, model_.clients());
  FitWaiting();
  const std::size_t room = RowsLeft();
  all_details_ = model_.clients().size() < room / 2;
  if (all_details_ && WantedClients() > room / 2) all_details_ = false;
  const std::size_t wants_events = model_.events().empty() ? 0 : 1 + model_.events().size();
  const std::size_t least_events = room >= 12 ? std::min<std::size_t>(wants_events, room / 5) : 0;
  const std::size_t for_rows = room - least_events;
  std::size_t clients = WantedClients();
  std::size_t waiting = WantedWaiting();
  if (clients + waiting > for_rows) {
    const std::size_t least_waiting = std::min(waiting, std::max<std::size_t>(2, for_rows / 3));
    clients = std::min(clients, for_rows - std::min(for_rows, least_waiting));
    waiting = for_rows - clients;
  }
  Clients(clients);
  Waiting(waiting);
  Events(RowsLeft());
}

// Its row; its stage, leases and gauges below it where they have no columns.
std::vector<PictureLine> Layout::ClientLines(const v1::ClientSample& client, bool chosen,
                                             bool all) const {
  std::vector<PictureLine> lines{NewLine()};
  PutClient(lines[0], columns_, client, shown_time_, chosen, screen_.utf8);
  if (!all && !chosen) return lines;
  std::vector<std::string> parts;
  if (!client.stage().empty() && !Has(columns_, ColumnOf::kStage)) {
    parts.push_back(absl::StrCat("stage ", std::string(client.stage())));
  }
  const std::string notes = LeasesAndGauges(client);
  if (!notes.empty() && !Has(columns_, ColumnOf::kNotes)) parts.push_back(notes);
  if (chosen && client.has_pid()) parts.push_back(absl::StrCat("pid ", client.pid()));
  if (chosen && !Has(columns_, ColumnOf::kProcesses)) {
    parts.push_back(
        absl::StrCat(client.processes(), client.processes() == 1 ? " process" : " processes"));
  }
  if (chosen && !Has(columns_, ColumnOf::kBudget)) {
    parts.push_back(absl::StrCat("charge ", Size(client.charge_bytes()), " of ",
                                 Size(client.swap_budget_bytes())));
  }
  if (parts.empty()) return lines;
  PictureLine& line = lines.emplace_back(NewLine());
  line.To(6).Put(Printable(absl::StrJoin(parts, ", ")), kDim);
  return lines;
}

// The first of `lines` that is shown, so that those of the chosen row are: whole pages, which do
// not move under the eyes while the choice does.
std::size_t FirstShown(std::size_t chosen_begin, std::size_t chosen_end, std::size_t count,
                       std::size_t room) {
  if (count <= room || room == 0) return 0;
  std::size_t first = chosen_begin / room * room;
  if (chosen_end > first + room) first = chosen_end - room;
  return std::min(first, count - room);
}

void Layout::Clients(std::size_t rows) {
  if (rows == 0) return;
  PictureLine titles = NewLine();
  PutTitles(titles, columns_, model_.sort_by(), model_.reversed(), screen_.utf8);
  Add(std::move(titles));
  const std::size_t room = std::min(rows - 1, RowsLeft());
  picture_.page = std::max<std::size_t>(room, 1);
  const auto& clients = model_.clients();
  if (clients.empty() && room > 0) {
    return Add(std::move(NewLine().Put("nothing runs", kDim)));
  }
  // Only those that are seen are laid out: there can be a thousand.
  std::size_t first = 0;
  std::size_t end = clients.size();
  if (!all_details_) {
    const std::size_t chosen = model_.chosen().value_or(0) < clients.size() ? *model_.chosen() : 0;
    // One line less: the chosen one has two.
    first = FirstShown(chosen, chosen + 1, clients.size(), std::max<std::size_t>(room, 2) - 1);
    end = std::min(end, first + room);
  }
  std::size_t used = 0;
  for (std::size_t i = first; i < end; ++i) {
    for (PictureLine& line : ClientLines(*clients[i], Chosen(i), all_details_)) {
      if (used++ < room) Add(std::move(line));
    }
  }
}

void Layout::Title(const std::string& text, const std::string& more) {
  PictureLine line = NewLine();
  line.Put(text, kTitleBold);
  if (!more.empty()) line.Put(absl::StrCat("  ", more), kTitle);
  Add(std::move(line.To(screen_.width, kTitle)));
}

std::vector<PictureLine> Layout::WaitingLines(const v1::WaitingRequest& request,
                                              bool chosen) const {
  const std::vector<std::string> blockers = BlockerTexts(request);
  std::vector<PictureLine> lines{NewLine()};
  PictureLine& line = lines[0];
  const Style style{.bold = chosen, .reverse = chosen};
  const auto part = [&](std::string_view text, std::size_t columns, bool right, Ink ink) {
    Style inked = style;
    if (!chosen) inked.ink = ink;
    line.Cell(text, columns, right, inked).Put(" ", style);
  };
  const bool wide = screen_.width >= 80;
  part(absl::StrCat(request.job_id()), 5, true, Ink::kCyan);
  part(Printable(std::string(request.name())), name_columns_, false, Ink::kPlain);
  if (screen_.width >= 60) {
    part(Printable(WantsText(request)), wants_columns_, false, Ink::kPlain);
  }
  if (wide) {
    const absl::Duration since = shown_time_ - absl::FromUnixNanos(request.since_ns());
    part(FormatSpan(std::max(absl::ZeroDuration(), absl::Trunc(since, absl::Seconds(1)))), 6, true,
         Ink::kPlain);
  }
  std::string first = Printable(blockers.front());
  if (!chosen && blockers.size() > 1) {
    absl::StrAppend(&first, " (+", blockers.size() - 1, " more)");
  }
  const std::size_t at = line.used();
  line.Put(first, {.ink = chosen ? Ink::kPlain : Ink::kYellow, .bold = chosen, .reverse = chosen});
  if (!chosen) return lines;
  line.To(screen_.width, style);
  for (std::size_t i = 1; i < blockers.size(); ++i) {
    lines.push_back(std::move(NewLine().To(at).Put(Printable(blockers[i]), {.ink = Ink::kYellow})));
  }
  return lines;
}

void Layout::Waiting(std::size_t rows) {
  if (rows == 0) return;
  const int told = frame().waiting_size();
  Title("WAITING", absl::StrCat(WaitingCount()));
  const std::size_t room = std::min(rows - 1, RowsLeft());
  if (told == 0) {  // a daemon that tells the first one's blockers only
    for (int i = 0; i < frame().blockers_size() && static_cast<std::size_t>(i) < room; ++i) {
      Add(std::move(
          NewLine().To(6).Put(Printable(BlockerLine(frame().blockers(i))), {.ink = Ink::kYellow})));
    }
    return;
  }
  std::vector<PictureLine> lines;
  std::size_t chosen_begin = 0;
  std::size_t chosen_end = 0;
  for (int i = 0; i < told; ++i) {
    const bool chosen = Chosen(model_.clients().size() + static_cast<std::size_t>(i));
    if (chosen) chosen_begin = lines.size();
    for (PictureLine& line : WaitingLines(frame().waiting(i), chosen)) {
      lines.push_back(std::move(line));
    }
    if (chosen) chosen_end = lines.size();
  }
  const std::size_t first = FirstShown(chosen_begin, chosen_end, lines.size(), room);
  for (std::size_t i = first; i < std::min(lines.size(), first + room); ++i) {
    Add(std::move(lines[i]));
  }
}

void Layout::Events(std::size_t rows) {
  if (rows < 2 || model_.events().empty()) return;
  Title("EVENTS", "newest first");
  for (const v1::Event& event : model_.events()) {
    if (RowsLeft() == 0) return;
    PictureLine line = NewLine();
    line.Put(absl::FormatTime("%H:%M:%S", absl::FromUnixNanos(event.time_ns()), screen_.zone),
             kDim);
    line.Put(" ").Cell(Printable(std::string(event.kind())), 14, false,
                       {.ink = InkOf(ColourOf(event))});
    line.Put(" ").Cell(event.job_id() == 0 ? std::string() : absl::StrCat(event.job_id()), 5, true,
                       {.ink = Ink::kCyan});
    Add(std::move(line.Put(" ").Put(Printable(EventText(event)))));
  }
}

void Layout::Bottom() {
  PictureLine line = NewLine();
  if (const std::string question = model_.question(); !question.empty()) {
    Add(std::move(line.Put(question, kAlarm)));
    return;
  }
  if (const auto& message = model_.message()) {
    Add(std::move(
        line.Put(message->text, message->failed ? Style{.ink = Ink::kRed, .bold = true} : kBold)));
    return;
  }
  if (const std::string unanswered = model_.Unanswered(screen_.now); !unanswered.empty()) {
    Add(std::move(line.Put(unanswered, kWarning)));
    return;
  }
  // The most useful first: what does not fit is cut.
  for (const auto& [key, does] :
       std::initializer_list<std::pair<const char*, const char*>>{{"q", "quit"},
                                                                  {"?", "help"},
                                                                  {"x", "cancel"},
                                                                  {"z", "suspend"},
                                                                  {"c", "continue"},
                                                                  {"h", "hold"},
                                                                  {"s", "sort"},
                                                                  {"r", "reverse"},
                                                                  {"p", "pause"},
                                                                  {"+-", "time"}}) {
    const std::string text = absl::StrCat(key, " ", does, "  ");
    if (Columns(text) > line.room() + 2) break;
    line.Put(key, kBold).Put(absl::StrCat(" ", does, "  "), kDim);
  }
  Add(std::move(line));
}

void Layout::Help() {
  constexpr std::array<std::pair<const char*, const char*>, 14> kKeys = {{
      {"up down, j k", "choose a row; also Page Up and Down, g and G"},
      {"s, S", "sort by the next, the previous column"},
      {"r", "turn the order around"},
      {"z", "suspend the chosen job: its processes stop and keep their memory"},
      {"c", "continue a suspended job"},
      {"x", "cancel the chosen job, after a y"},
      {"h", "hold a waiting job, or release one that is held"},
      {"p", "pause the screen; the graphs go on behind it"},
      {"+ -", "graphs over less, over more time"},
      {"?", "this page"},
      {"q", "quit"},
      {"", ""},
      {"charge", "growth of swap that is put down to a client; over its budget it is stopped"},
      {"level", "percent of memory that is available"},
  }};
  Add(std::move(NewLine().Put("stageloadctl top", kBold)));
  if (screen_.height > kKeys.size() + 3) Add(NewLine());
  for (const auto& [key, does] : kKeys) {
    if (RowsLeft() == 0) break;
    Add(std::move(NewLine().Cell(key, 14, false, kBold).Put(does)));
  }
  while (RowsLeft() > 0) Add(NewLine());
  Add(std::move(NewLine().Put("any key goes back", kDim)));
}

}  // namespace

TopPicture Compose(const TopModel& model, const TopScreen& screen) {
  Layout layout(model, screen);
  if (model.help()) {
    layout.Help();
  } else {
    layout.Screen();
  }
  return std::move(layout).Done();
}

}  // namespace stageload::ctl
