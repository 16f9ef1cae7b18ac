// stageloadctl summary: what happened in recorded runs, in figures; several side by side.
#include <unistd.h>

#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "base/trace.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/json.h"
#include "client/ctl/print.h"
#include "client/ctl/trace_name.h"
#include "client/ctl/trace_summary.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "Footprint: the memory of all of the command's processes. True peak: the most by which the\n"
    "machine's available memory fell and its swap grew since the begin, whoever's footprint has\n"
    "it.\n"
    "\n"
    "With several traces each column is followed by its difference from the first. With --json:\n"
    "one document for one trace, an array for several. Exits with 1 when a trace cannot be read;\n"
    "the others are shown all the same. `stageload summary TRACE` prints JSON, as stageload 0.1\n"
    "does, wherever its output is not a terminal.";

struct Options {
  std::vector<std::string> traces;
  bool json = false;
};

struct SummarisedTrace {
  Trace trace;
  TraceSummary summary;
};

// ---- One figure of every trace is one row ----

using Figure = std::optional<double>;
using Print = std::string (*)(double);

// A sum that Bytes could not count stands at the most that they can, as in the JSON.
std::string PrintSize(double bytes) {
  if (bytes >= Bytes::Max().AsDouble()) return FormatBytes(Bytes::Max());
  return FormatBytes(Bytes(static_cast<std::int64_t>(bytes)));
}
std::string PrintTime(double seconds) { return FormatSpan(absl::Seconds(seconds)); }
std::string PrintLevel(double percent) { return FormatPercent(Percent{percent}); }
std::string PrintCount(double count) { return absl::StrCat(static_cast<std::int64_t>(count)); }

Figure Size(const std::optional<Bytes>& size) {
  return size ? Figure(size->AsDouble()) : std::nullopt;
}

std::string Difference(const Figure& from, const Figure& to, Print print) {
  if (!from || !to) return "";
  const std::string size = print(std::abs(*to - *from));
  if (size == print(0)) return "same";
  return (*to > *from ? "+" : "-") + size;
}

class FigureTable {
 public:
  explicit FigureTable(const std::vector<SummarisedTrace>& traces)
      : traces_(traces), table_(Columns(traces)) {}

  void Add(const std::string& name, Print print,
           const std::function<Figure(const SummarisedTrace&)>& figure_of) {
    std::vector<Cell> row = {name};
    Figure first;
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      const Figure figure = figure_of(traces_[i]);
      row.emplace_back(figure ? print(*figure) : "-");
      if (i == 0) first = figure;
      if (i > 0) row.emplace_back(Difference(first, figure, print));
    }
    table_.Add(std::move(row));
  }
  void AddText(const std::string& name,
               const std::function<std::string(const SummarisedTrace&)>& text_of) {
    std::vector<Cell> row = {name};
    for (std::size_t i = 0; i < traces_.size(); ++i) {
      row.emplace_back(text_of(traces_[i]));
      if (i > 0) row.emplace_back("");
    }
    table_.Add(std::move(row));
  }
  std::string Text() const {
    return table_.Text(TerminalWidth(STDOUT_FILENO), UseColour(STDOUT_FILENO));
  }

 private:
  static std::vector<Column> Columns(const std::vector<SummarisedTrace>& traces) {
    std::vector<std::string> paths;
    for (const SummarisedTrace& one : traces) paths.push_back(one.trace.path);
    std::vector<Column> columns = {{.title = ""}};
    for (const std::string& name : TraceNames(paths)) {
      columns.push_back({.title = name, .right = true});
      if (columns.size() > 2) columns.push_back({.title = "DIFFERENCE", .right = true});
    }
    return columns;
  }

  const std::vector<SummarisedTrace>& traces_;
  Table table_;
};

// A stage by its name and by how often that came before.
using StageKey = std::pair<std::string, int>;

const TraceStage* Find(const TraceSummary& summary, const StageKey& key) {
  int before = 0;
  for (const TraceStage& stage : summary.stages) {
    if (stage.name == key.first && before++ == key.second) return &stage;
  }
  return nullptr;
}

// In the order of the first trace that has them.
std::vector<StageKey> StageKeys(const std::vector<SummarisedTrace>& traces) {
  std::vector<StageKey> keys;
  std::map<std::string, int> known;
  for (const SummarisedTrace& one : traces) {
    std::map<std::string, int> seen;
    for (const TraceStage& stage : one.summary.stages) {
      const int count = ++seen[stage.name];
      if (count <= known[stage.name]) continue;
      known[stage.name] = count;
      keys.emplace_back(stage.name, count - 1);
    }
  }
  return keys;
}

void AddStages(FigureTable& table, const std::vector<SummarisedTrace>& traces) {
  for (const StageKey& key : StageKeys(traces)) {
    std::string name = absl::StrCat("stage ", key.first);
    if (key.second > 0) absl::StrAppend(&name, " (", key.second + 1, ")");
    table.Add(name, PrintTime, [&](const SummarisedTrace& one) {
      const TraceStage* stage = Find(one.summary, key);
      return stage == nullptr ? Figure() : stage->end - stage->begin;
    });
    table.Add("  peak footprint", PrintSize, [&](const SummarisedTrace& one) {
      const TraceStage* stage = Find(one.summary, key);
      return stage == nullptr ? Figure() : Size(stage->peak_footprint);
    });
  }
}

void AddLoads(FigureTable& table, const char* name, TraceLoads TraceSummary::*loads) {
  table.Add(name, PrintCount, [=](const SummarisedTrace& one) {
    return static_cast<double>((one.summary.*loads).count);
  });
  table.Add("  in all", PrintSize,
            [=](const SummarisedTrace& one) { return (one.summary.*loads).bytes.AsDouble(); });
}

std::string Text(const std::vector<SummarisedTrace>& traces) {
  FigureTable table(traces);
  const auto swap = [&](const char* name, Bytes TraceSwap::*part) {
    table.Add(name, PrintSize, [=](const SummarisedTrace& one) {
      return one.summary.swap ? Figure(((*one.summary.swap).*part).AsDouble()) : std::nullopt;
    });
  };
  table.AddText("started", [](const SummarisedTrace& one) {
    return one.trace.start && !one.trace.start->utc.empty() ? one.trace.start->utc : "-";
  });
  table.Add("duration", PrintTime, [](const SummarisedTrace& one) { return one.summary.duration; });
  table.Add("samples", PrintCount,
            [](const SummarisedTrace& one) { return static_cast<double>(one.summary.samples); });
  table.Add("peak footprint", PrintSize,
            [](const SummarisedTrace& one) { return Size(one.summary.peak_footprint); });
  swap("swap at the start", &TraceSwap::start);
  swap("swap at its peak", &TraceSwap::peak);
  swap("swap at the end", &TraceSwap::end);
  table.Add("growth of swap", PrintSize, [](const SummarisedTrace& one) {
    return one.summary.swap ? Size(one.summary.swap->peak - one.summary.swap->start) : std::nullopt;
  });
  table.Add("lowest level", PrintLevel, [](const SummarisedTrace& one) {
    return one.summary.min_level ? Figure(one.summary.min_level->value) : std::nullopt;
  });
  table.Add("true peak", PrintSize,
            [](const SummarisedTrace& one) { return Size(one.summary.true_peak); });
  AddLoads(table, "loads", &TraceSummary::loads);
  table.Add("  took", PrintTime,
            [](const SummarisedTrace& one) { return one.summary.loads.seconds; });
  AddLoads(table, "releases", &TraceSummary::releases);
  AddStages(table, traces);
  return table.Text();
}

// ---- The command ----

std::string JsonText(const std::vector<SummarisedTrace>& traces, bool one_document) {
  Json documents = Json::array();
  for (const SummarisedTrace& one : traces) {
    documents.push_back(SummaryJson(one.trace, one.summary));
  }
  return Document(one_document ? documents.front() : documents);
}

// A script that was written for stageload 0.1 calls it by that name and reads the one document.
bool IsForOldScript(const Invocation& invocation, const Options& options) {
  return invocation.program == "stageload" && options.traces.size() == 1 &&
         isatty(STDOUT_FILENO) == 0;
}

int Summary(const Options& options, bool as_json) {
  std::vector<SummarisedTrace> traces;
  for (const std::string& path : options.traces) {
    absl::StatusOr<Trace> trace = ReadTrace(TracePath(path));
    if (!trace.ok()) {
      Note(std::string(trace.status().message()));
      continue;
    }
    TraceSummary summary = Summarise(*trace);
    traces.push_back({*std::move(trace), std::move(summary)});
  }
  if (traces.empty()) return kExitOther;
  const bool written = Out(as_json ? JsonText(traces, options.traces.size() == 1) : Text(traces));
  if (!written) return kExitOther;
  for (const SummarisedTrace& one : traces) {
    if (as_json) break;  // they are in there
    for (const std::string& note : one.trace.notes) Note(absl::StrCat(one.trace.path, ": ", note));
  }
  return traces.size() == options.traces.size() ? kExitOk : kExitOther;
}

}  // namespace

void AddSummary(CLI::App& app, Invocation& invocation) {
  CLI::App* command =
      app.add_subcommand("summary", "what happened in a recorded run; several side by side");
  const auto options = std::make_shared<Options>();
  command->add_option("traces", options->traces, "the recordings, JSON lines; - is stdin")
      ->required()
      ->type_name("TRACE");
  command->add_flag("--json", options->json, "for programs");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation, {"stageloadctl summary before.jsonl run.jsonl"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] {
      return Summary(*options, options->json || IsForOldScript(invocation, *options));
    };
  });
}

}  // namespace stageload::ctl
