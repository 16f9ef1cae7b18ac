// Reads line by line, and each line by nlohmann's parser; nothing here throws.
#include "base/trace.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "base/text.h"
#include "base/trace_limits.h"
#include "base/utf8.h"

namespace stageload {
namespace {

// Keeps the order of the fields that are only passed on.
using Json = nlohmann::ordered_json;

// What goes deeper is no trace, and the JSON library copies and prints by recursion.
constexpr int kMaxDepth = 100;
// A gap longer than this, and than three of the recording's intervals, is worth a note.
constexpr double kLongGapSeconds = 2;

// ---- Lines ----

class LineReader {
 public:
  LineReader() = default;
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;
  ~LineReader() {
    if (file_ >= 0) close(file_);
  }

  absl::Status Open(const std::string& path) {
    path_ = path;
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file_ >= 0) return absl::OkStatus();
    return absl::ErrnoToStatus(errno, absl::StrCat("open ", path));
  }

  // The next line without its newline, and no more of it than one byte over kLongestTraceLine;
  // false at the end of the file.
  absl::StatusOr<bool> Next(std::string& line) {
    line.clear();
    bool any = false;
    while (line.size() <= kLongestTraceLine) {
      if (begin_ == end_) {
        const absl::Status status = Fill();
        if (!status.ok()) return status;
        if (begin_ == end_) break;
      }
      any = true;
      const std::string_view unread(buffer_ + begin_, end_ - begin_);
      const std::size_t newline = unread.find('\n');
      const std::size_t take =
          std::min(std::min(newline, unread.size()), kLongestTraceLine + 1 - line.size());
      line.append(unread.substr(0, take));
      begin_ += take;
      if (take == newline) {
        ++begin_;
        break;
      }
    }
    if (any) ++number_;
    return any;
  }
  // Of the line that Next() gave last, from 1.
  int number() const { return number_; }

 private:
  absl::Status Fill() {
    ssize_t got = 0;
    do {
      got = read(file_, buffer_, sizeof buffer_);
    } while (got < 0 && errno == EINTR);
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("read ", path_));
    begin_ = 0;
    end_ = static_cast<std::size_t>(got);
    return absl::OkStatus();
  }

  std::string path_;
  int file_ = -1;
  int number_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  char buffer_[64 * 1024];
};

// The nesting of a text that may be JSON.
struct Nesting {
  int deepest = 0;
  bool closed = true;  // all that was opened, strings too
};

Nesting NestingOf(std::string_view text) {
  Nesting nesting;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      nesting.deepest = std::max(nesting.deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  nesting.closed = depth <= 0 && !in_string;
  return nesting;
}

bool HasControlBytes(std::string_view line) {
  return std::any_of(line.begin(), line.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return (byte < 0x20 && byte != '\t' && byte != '\r') || byte == 0x7F;
  });
}

bool IsBlank(std::string_view line) {
  return std::all_of(line.begin(), line.end(),
                     [](char c) { return absl::ascii_isspace(static_cast<unsigned char>(c)); });
}

// ---- Fields ----

std::string Shown(const Json& value) {
  constexpr std::size_t kShown = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > kShown) text.replace(kShown, std::string::npos, "...");
  return text;
}

// The fields of one line. The first thing that is wrong with any of them is kept; `rest` is what
// nobody asked for.
class Fields {
 public:
  explicit Fields(Json object) : object_(std::move(object)) {}

  std::string Text(const char* name) {
    const std::optional<Json> value = Take(name);
    if (!value) return "";
    if (value->is_string()) return value->get<std::string>();
    Fail(name, *value, "not text");
    return "";
  }

  std::optional<double> Number(const char* name, double lowest, double highest) {
    const std::optional<Json> value = Take(name);
    if (!value) return std::nullopt;
    if (!value->is_number()) return Fail(name, *value, "not a number");
    // Written so that a NaN is refused too; -0.0 becomes 0.
    const double number = value->get<double>() + 0.0;
    if (number >= lowest && number <= highest) return number;
    return Fail(name, *value, absl::StrCat("not from ", lowest, " to ", highest));
  }

  std::optional<Bytes> Size(const char* name) {
    const std::optional<Json> value = Take(name);
    if (!value) return std::nullopt;
    if (!value->is_number()) return Fail(name, *value, "not a number");
    const auto number = value->get<double>();
    if (number < 0) return Fail(name, *value, "negative");
    // Rounded, a whole number just above would pass.
    if (!(number <= kMostTraceBytes.AsDouble()) ||
        (value->is_number_unsigned() &&
         Bytes::FromUnsigned(value->get<std::uint64_t>()) > kMostTraceBytes)) {
      return Fail(name, *value, "more than any machine has");
    }
    if (number != std::floor(number)) return Fail(name, *value, "not a whole number of bytes");
    return Bytes(value->is_number_float() ? static_cast<std::int64_t>(number)
                                          : value->get<std::int64_t>());
  }

  void Require(const char* name) {
    if (object_.contains(name) && !object_[name].is_null()) return;
    Fail(absl::StrCat("there is no \"", name, "\""));
  }

  std::string Rest() const { return object_.empty() ? "" : object_.dump(); }
  const absl::Status& status() const { return status_; }

 private:
  // Absent and null are the same: it could not be read.
  std::optional<Json> Take(const char* name) {
    const auto found = object_.find(name);
    if (found == object_.end()) return std::nullopt;
    Json value = std::move(*found);
    object_.erase(found);
    if (value.is_null()) return std::nullopt;
    return std::make_optional(std::move(value));
  }

  std::nullopt_t Fail(const char* name, const Json& value, const std::string& why) {
    return Fail(absl::StrCat("\"", name, "\" is ", Shown(value), ": ", why));
  }
  std::nullopt_t Fail(const std::string& what) {
    status_.Update(absl::InvalidArgumentError(what));
    return std::nullopt;
  }

  Json object_;
  absl::Status status_;
};

// ---- One line ----

constexpr char kSecondEnd[] = "there is a second \"end\": are these several recordings?";

// Each once.
void Note(Trace& trace, const std::string& note) {
  if (std::find(trace.notes.begin(), trace.notes.end(), note) == trace.notes.end()) {
    trace.notes.push_back(note);
  }
}

absl::Status AddStart(Fields& fields, Trace& trace) {
  if (trace.start) {
    return absl::InvalidArgumentError(
        "a second \"start\": this file holds more than one recording; split it");
  }
  TraceStart& start = trace.start.emplace();
  start.utc = fields.Text("utc");
  start.interval_seconds = fields.Number("interval", 0, kMostTraceSeconds);
  start.rest = fields.Rest();
  return fields.status();
}

absl::Status AddSample(Fields& fields, Trace& trace) {
  fields.Require("t");
  TraceSample sample;
  sample.t = fields.Number("t", 0, kMostTraceSeconds).value_or(0);
  sample.footprint = fields.Size("footprint");
  sample.swap_used = fields.Size("swap_used");
  const std::optional<double> level = fields.Number("level", 0, 100);
  if (level) sample.level = Percent{*level};
  sample.available = fields.Size("available");
  sample.rest = fields.Rest();
  trace.samples.push_back(std::move(sample));
  return fields.status();
}

absl::Status AddEvent(Fields& fields, Trace& trace) {
  fields.Require("t");
  fields.Require("kind");
  TraceEvent event;
  event.t = fields.Number("t", -kMostTraceSeconds, kMostTraceSeconds).value_or(0);
  event.kind = fields.Text("kind");
  event.stage = fields.Text("stage");
  event.name = fields.Text("name");
  event.nbytes = fields.Size("nbytes");
  event.seconds = fields.Number("seconds", 0, kMostTraceSeconds);
  event.note = fields.Text("note");
  event.rest = fields.Rest();
  trace.events.push_back(std::move(event));
  return fields.status();
}

// As the Python library writes them: of the first of several that are alike.
absl::Status AddError(Fields& fields, Trace& trace) {
  fields.Require("t");
  TraceError error;
  error.t = fields.Number("t", -kMostTraceSeconds, kMostTraceSeconds).value_or(0);
  error.error = fields.Text("error");
  trace.errors.push_back(std::move(error));
  return fields.status();
}

absl::Status NotJson(std::string_view line) {
  if (HasControlBytes(line) || !IsUtf8(line))
    return absl::InvalidArgumentError("binary data, not a trace");
  const absl::string_view text(line.data(), line.size());
  const bool nan = absl::StrContains(text, "NaN") || absl::StrContains(text, "Infinity");
  return absl::InvalidArgumentError(nan ? "no JSON: NaN and Infinity are no JSON numbers"
                                        : "no JSON: a trace has one JSON object a line");
}

absl::Status AddLine(const std::string& line, Trace& trace) {
  if (NestingOf(line).deepest > kMaxDepth) {
    return absl::InvalidArgumentError(absl::StrCat("nested deeper than ", kMaxDepth));
  }
  Json object = Json::parse(line, nullptr, false);
  if (object.is_discarded()) return NotJson(line);
  if (!object.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(Shown(object), " is no JSON object"));
  }
  Fields fields(std::move(object));
  fields.Require("type");
  const std::string type = fields.Text("type");
  if (!fields.status().ok()) return fields.status();
  if (type == "start") return AddStart(fields, trace);
  if (type == "sample") return AddSample(fields, trace);
  if (type == "event") return AddEvent(fields, trace);
  if (type == "error") return AddError(fields, trace);
  if (type == "end") {
    if (std::exchange(trace.ended, true)) Note(trace, kSecondEnd);
  } else {
    trace.others.push_back(line);
  }
  return absl::OkStatus();
}

// ---- The file ----

absl::Status Wrong(const Trace& trace, int line, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(trace.path, ":", line, ": ", status.message()));
}

// The next line that is not blank; false at the end of the file.
absl::StatusOr<bool> NextLine(LineReader& lines, const Trace& trace, std::string& line) {
  while (true) {
    absl::StatusOr<bool> more = lines.Next(line);
    if (!more.ok() || !*more) return more;
    if (line.size() > kLongestTraceLine) {
      return Wrong(
          trace, lines.number(),
          HasControlBytes(line) ? NotJson(line) : absl::InvalidArgumentError("longer than 1 MiB"));
    }
    if (!IsBlank(line)) return true;
  }
}

// Of a last line that is no JSON: whether its writer only did not get to its end. A file system may
// leave zeros where a machine that went down had not written yet.
bool IsCut(std::string_view line, const Trace& trace) {
  while (line.ends_with('\0')) line.remove_suffix(1);
  if (line.empty()) return !trace.samples.empty();
  return line.starts_with('{') && !NestingOf(line).closed && !HasControlBytes(line);
}

// Why there is nothing in it to look at.
absl::Status Empty(const Trace& trace, int lines) {
  if (lines == 0)
    return absl::InvalidArgumentError(absl::StrCat(trace.path, ": the file is empty"));
  std::string what =
      absl::StrCat(trace.path, ": no sample in ", lines, lines == 1 ? " line" : " lines");
  for (const std::string& note : trace.notes) absl::StrAppend(&what, "; ", note);
  return absl::InvalidArgumentError(what);
}

absl::Status AddLines(LineReader& lines, Trace& trace) {
  std::string line;
  absl::StatusOr<bool> more = NextLine(lines, trace, line);
  while (more.ok() && *more) {
    const int number = lines.number();
    const absl::Status added = AddLine(line, trace);
    std::string next;
    more = NextLine(lines, trace, next);
    if (!added.ok()) {
      const bool last = more.ok() && !*more;
      if (!last || !IsCut(line, trace)) return Wrong(trace, number, added);
      trace.notes.push_back(absl::StrCat("line ", number, " is cut: left out"));
    }
    line = std::move(next);
  }
  return more.status();
}

// ---- What is missing ----

// Of samples in the file's order.
void NoteOrder(Trace& trace) {
  int times = 0;
  double after = 0;
  for (std::size_t i = 1; i < trace.samples.size(); ++i) {
    if (trace.samples[i].t >= trace.samples[i - 1].t) continue;
    if (times++ == 0) after = trace.samples[i - 1].t;
  }
  if (times == 0) return;
  const std::string how_often = times == 1 ? "" : absl::StrCat(times, " times, first ");
  trace.notes.push_back(absl::StrCat("the time goes back ", how_often,
                                     "after t = ", Json(after).dump(),
                                     ": lines out of order, or several recordings?"));
}

void NoteGaps(Trace& trace) {
  const double usual = LongestUsualGap(trace);
  int gaps = 0;
  double longest = 0;
  double after = 0;
  for (std::size_t i = 1; i < trace.samples.size(); ++i) {
    const double gap = trace.samples[i].t - trace.samples[i - 1].t;
    if (gap > usual) ++gaps;
    if (gap <= longest) continue;
    longest = gap;
    after = trace.samples[i - 1].t;
  }
  if (gaps == 0) return;
  const std::string where =
      absl::StrCat(FormatSpan(absl::Seconds(longest)), " after t = ", Json(after).dump());
  trace.notes.push_back(gaps == 1 ? absl::StrCat("no sample for ", where)
                                  : absl::StrCat(gaps, " gaps between samples, one of ", where));
}

template <typename Has>
void NoteMissing(Trace& trace, const char* field, Has has) {
  const auto all = static_cast<std::ptrdiff_t>(trace.samples.size());
  const auto missing = all - std::count_if(trace.samples.begin(), trace.samples.end(), has);
  if (missing == 0) return;
  trace.notes.push_back(absl::StrCat(missing, " of ", all, " samples have no \"", field, "\""));
}

template <typename Timed>
void SortByTime(std::vector<Timed>& timed) {
  std::stable_sort(timed.begin(), timed.end(),
                   [](const Timed& a, const Timed& b) { return a.t < b.t; });
}

}  // namespace

double LongestUsualGap(const Trace& trace) {
  const double interval = trace.start ? trace.start->interval_seconds.value_or(0) : 0;
  return std::max(kLongGapSeconds, 3 * interval);
}

absl::StatusOr<Trace> ReadTrace(const std::string& path) {
  LineReader lines;
  Trace trace;
  trace.path = path;
  absl::Status status = lines.Open(path);
  if (status.ok()) status = AddLines(lines, trace);
  if (!status.ok()) return status;
  if (trace.samples.empty()) return Empty(trace, lines.number());
  if (!trace.ended) trace.notes.emplace_back("the trace ends without \"end\"");
  NoteOrder(trace);
  SortByTime(trace.samples);
  SortByTime(trace.events);
  NoteGaps(trace);
  NoteMissing(trace, "footprint", [](const TraceSample& s) { return s.footprint.has_value(); });
  NoteMissing(trace, "swap_used", [](const TraceSample& s) { return s.swap_used.has_value(); });
  NoteMissing(trace, "level", [](const TraceSample& s) { return s.level.has_value(); });
  return trace;
}

}  // namespace stageload
