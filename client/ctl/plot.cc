// stageloadctl plot: recorded runs as a picture, a page or a file for a trace viewer.
#include <sys/stat.h>

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/trace.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/options.h"
#include "client/ctl/output_file.h"
#include "client/ctl/plot_fonts.h"
#include "client/ctl/plot_gnuplot.h"
#include "client/ctl/plot_html.h"
#include "client/ctl/plot_perfetto.h"
#include "client/ctl/plot_picture.h"
#include "client/ctl/trace_name.h"

namespace stageload::ctl {
namespace {

constexpr char kNotes[] =
    "The file's name says what it becomes: .html is a page that needs nothing else and shows the\n"
    "values under the pointer; .svg and .png are drawn by gnuplot; .perfetto.json opens in\n"
    "ui.perfetto.dev. Several traces become panels under one time axis. A file of that name is\n"
    "replaced.";

struct Options {
  std::vector<std::string> traces;
  std::string output;
  std::optional<std::string> swap_budget;
};

enum class Format { kHtml, kSvg, kPng, kPerfetto };

absl::StatusOr<Format> FormatOf(const std::string& path) {
  const std::string name = absl::AsciiStrToLower(path);
  if (name.ends_with(".html") || name.ends_with(".htm")) return Format::kHtml;
  if (name.ends_with(".svg")) return Format::kSvg;
  if (name.ends_with(".png")) return Format::kPng;
  if (name.ends_with(".perfetto.json")) return Format::kPerfetto;
  return absl::InvalidArgumentError(
      absl::StrCat("-o ", path, ": the name must end in .html, .svg, .png or .perfetto.json"));
}

absl::StatusOr<PlotOptions> ReadOptions(const Options& options) {
  PlotOptions read;
  if (!options.swap_budget) return read;
  const absl::StatusOr<Bytes> budget = ParseBytes(*options.swap_budget);
  if (!budget.ok()) return AboutOption("--swap-budget", budget.status());
  read.swap_budget = *budget;
  return read;
}

// All of the file, before anything is written.
absl::StatusOr<std::string> Drawn(Format format, const std::vector<Trace>& traces,
                                  const PlotOptions& options) {
  PlotPicture picture;
  if (format != Format::kPerfetto) picture = Draw(traces, options);
  switch (format) {
    case Format::kHtml:
      return HtmlPage(picture);
    case Format::kPerfetto:
      return PerfettoJson(traces);
    case Format::kSvg:  // whoever shows it finds fonts of his own
      return RunGnuplot(GnuplotScript(picture, GnuplotFormat::kSvg), GnuplotFormat::kSvg);
    case Format::kPng:
      ReplaceWhatHasNoFont(picture);
      return RunGnuplot(GnuplotScript(picture, GnuplotFormat::kPng), GnuplotFormat::kPng);
  }
  return absl::InternalError("no such format");
}

bool AreOneFile(const std::string& one, const std::string& other) {
  struct stat a {};
  struct stat b {};
  return stat(one.c_str(), &a) == 0 && stat(other.c_str(), &b) == 0 && S_ISREG(a.st_mode) &&
         a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

int Plot(const Invocation& invocation, const CLI::App& command, const Options& options) {
  const absl::StatusOr<Format> format = FormatOf(options.output);
  if (!format.ok()) return UsageError(invocation, command, std::string(format.status().message()));
  const absl::StatusOr<PlotOptions> plot = ReadOptions(options);
  if (!plot.ok()) return UsageError(invocation, command, std::string(plot.status().message()));
  std::vector<Trace> traces;
  for (const std::string& path : options.traces) {
    if (AreOneFile(options.output, TracePath(path))) {
      return UsageError(invocation, command,
                        absl::StrCat("-o ", options.output, ": that is the trace ", path,
                                     ", which would be lost; name another file"));
    }
    absl::StatusOr<Trace> trace = ReadTrace(TracePath(path));
    if (!trace.ok()) {  // half a comparison would mislead
      Note(std::string(trace.status().message()));
      return kExitOther;
    }
    traces.push_back(*std::move(trace));
  }
  std::signal(SIGPIPE, SIG_IGN);
  const absl::StatusOr<std::string> drawn = Drawn(*format, traces, *plot);
  if (!drawn.ok()) {
    Note(std::string(drawn.status().message()));
    return kExitOther;
  }
  absl::StatusOr<OutputFile> file = OutputFile::Create(options.output);
  if (!file.ok()) return Fail(file.status());
  absl::Status written = file->Write(*drawn);
  if (written.ok()) written = file->Commit();
  if (!written.ok()) {
    Note(std::string(written.message()));
    return kExitOther;
  }
  for (const Trace& trace : traces) {
    for (const std::string& note : trace.notes) Note(absl::StrCat(trace.path, ": ", note));
  }
  return kExitOk;
}

}  // namespace

void AddPlot(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand("plot", "a recorded run as a picture or a page");
  const auto options = std::make_shared<Options>();
  command->add_option("traces", options->traces, "the recordings, JSON lines; - is stdin")
      ->required()
      ->type_name("TRACE");
  command->add_option("-o,--output", options->output, "where to")->required()->type_name("FILE");
  command
      ->add_option("--swap-budget", options->swap_budget,
                   "draw this one over the swap at the start (the recording's own, or 8G)")
      ->type_name("SIZE");
  command->footer(absl::StrCat(kNotes, "\n\n", command->get_footer()));
  AddExample(*command, invocation, {"stageloadctl plot run.jsonl -o run.html"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return Plot(invocation, *command, *options); };
  });
}

}  // namespace stageload::ctl
