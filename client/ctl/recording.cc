// From messages to lines.
#include "client/ctl/recording.h"

#include <sys/utsname.h>
#include <sys/wait.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/awake_clock.h"
#include "base/text.h"
#include "base/version.h"
#include "client/ctl/errors.h"
#include "client/ctl/json.h"
#include "client/lib/trace_lines.h"

namespace stageload::ctl {
namespace {

// A sample and the daemon's answer may each be late by so much on a busy machine.
constexpr absl::Duration kUnanswered = absl::Seconds(1);
constexpr char kUtcFormat[] = "%Y-%m-%dT%H:%M:%E3S+00:00";

// Bytes that are no UTF-8 must not keep a command from being recorded.
std::string Object(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// What is said of the machine and the run, for whoever reads the trace elsewhere.
std::string StartRest(const Recording::Subject& subject, const v1::ProcessSample& first) {
  Json rest = Json::object();
  rest["stageload"] = std::string(kVersion);
  rest["pid"] = subject.pid;
  if (!subject.command.empty()) rest["command"] = subject.command;
  Json host = Json::object();
  utsname system{};
  if (uname(&system) == 0) host["system"] = system.sysname;
  if (first.host().has_total_bytes()) host["total"] = first.host().total_bytes();
  rest["host"] = std::move(host);
  if (first.has_swap_budget_bytes()) rest["swap_budget"] = first.swap_budget_bytes();
  return Object(rest);
}

std::string Signed(Bytes bytes) {
  return absl::StrCat(bytes < Bytes() ? "" : "+", FormatBytes(bytes));
}

}  // namespace

Recording::Recording(TraceWriter writer, const v1::ProcessSample& first)
    : writer_(std::move(writer)),
      begin_(absl::Nanoseconds(first.awake_ns())),
      last_wall_ns_(first.time_ns()) {}

Recording Recording::Begin(TraceWriter writer, absl::Duration interval, const Subject& subject,
                           const v1::WatchProcessResponse& first) {
  const v1::ProcessSample& sample = first.sample();
  Recording recording(std::move(writer), sample);
  TraceStart start;
  start.utc =
      absl::FormatTime(kUtcFormat, absl::FromUnixNanos(sample.time_ns()), absl::UTCTimeZone());
  start.interval_seconds = absl::ToDoubleSeconds(interval);
  recording.interval_ = interval;
  start.rest = StartRest(subject, sample);
  recording.Write(recording.writer_.Write(start));
  v1::WatchProcessResponse answer = first;
  // What is there is a copy of this program, which waits to become the command.
  if (!subject.command.empty() && sample.has_footprint_bytes()) {
    answer.mutable_sample()->set_footprint_bytes(0);
  }
  recording.Add(answer);
  return recording;
}

void Recording::Add(const v1::WatchProcessResponse& answer) {
  const v1::ProcessSample* sample = answer.has_sample() ? &answer.sample() : nullptr;
  for (const v1::Event& event : answer.events()) AddEvent(event, sample);
  if (answer.dropped() > 0) {
    Mark(begin_ + absl::Seconds(last_t_),
         absl::StrCat(answer.dropped(), " samples were left out: this program was too slow"));
  }
  if (sample != nullptr) AddSample(*sample);
}

void Recording::AddSample(const v1::ProcessSample& sample) {
  last_told_ = absl::Now();
  const TraceSample line = client::TraceLine(sample, begin_);
  if (!interrupted_.empty()) {
    Mark(begin_ + absl::Seconds(last_t_),
         client::GapNote(absl::Seconds(line.t - last_t_), std::exchange(interrupted_, "")));
  }
  const bool was_cut = writer_.cut();
  const bool written = Write(writer_.Write(line));
  written_samples_ += written ? 1 : 0;
  if (!written && !was_cut && writer_.cut()) sample_is_cut_ = true;
  last_t_ = line.t;
  last_wall_ns_ = sample.time_ns();
  ++samples_;
  if (line.footprint) peak_footprint_ = std::max(peak_footprint_, line.footprint);
  if (line.swap_used && !first_swap_) first_swap_ = line.swap_used;
  if (line.swap_used) peak_swap_ = std::max(peak_swap_, line.swap_used);
  // As it stands in the trace, so that `summary` says the same.
  if (line.level) {
    const Percent level = LevelAsWritten(*line.level);
    min_level_ = std::min(min_level_.value_or(level), level);
  }
}

void Recording::AddEvent(const v1::Event& event, const v1::ProcessSample* sample) {
  TraceEvent line = client::TraceLine(event);
  line.t = TimeOf(event, sample);
  Write(writer_.Write(line));
}

double Recording::TimeOf(const v1::Event& event, const v1::ProcessSample* sample) const {
  if (sample != nullptr) return client::TimeOf(event, *sample, begin_, last_t_);
  const absl::Duration since = absl::Nanoseconds(event.time_ns() - last_wall_ns_);
  return std::max(last_t_ + absl::ToDoubleSeconds(since), last_t_);
}

void Recording::Mark(absl::Duration awake, const std::string& note) {
  TraceEvent line;
  line.t = TimeOf(awake);
  line.kind = "mark";
  line.note = note;
  Write(writer_.Write(line));
}

void Recording::CommandEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    Mark(AwakeNow(), absl::StrCat("the command was ended by signal ", WTERMSIG(wait_status)));
  } else if (WEXITSTATUS(wait_status) != 0) {
    Mark(AwakeNow(), absl::StrCat("the command exited with ", WEXITSTATUS(wait_status)));
  }
}

void Recording::Unanswered() {
  if (interrupted_.empty() && SinceLastTold() > kUnanswered + 2 * interval_) {
    Interrupted("the daemon does not answer");
  }
}

void Recording::End() {
  if (!interrupted_.empty()) {
    missing_at_end_ = client::GapNote(SinceLastTold(), std::exchange(interrupted_, ""));
    Mark(begin_ + absl::Seconds(last_t_), missing_at_end_);
  }
  Write(writer_.WriteEnd());
}

bool Recording::Write(const absl::Status& written) {
  if (written.ok()) {  // and so is what was cut before it
    written_samples_ += std::exchange(sample_is_cut_, false) ? 1 : 0;
    return true;
  }
  if (std::exchange(incomplete_, true) || writer_.reader_gone()) return false;
  Note(absl::StrCat(std::string(written.message()),
                    "; what is measured until that works again is lost, and nothing else is "
                    "disturbed"));
  return false;
}

std::string Recording::Line() const {
  std::vector<std::string> figures;
  if (peak_footprint_ && *peak_footprint_ > Bytes()) {  // else it was too short to be read
    figures.push_back(absl::StrCat("peak footprint ", FormatBytes(*peak_footprint_)));
  }
  if (first_swap_) figures.push_back(absl::StrCat("swap ", Signed(*peak_swap_ - *first_swap_)));
  if (min_level_) figures.push_back(absl::StrCat("lowest level ", FormatPercent(*min_level_)));
  const std::string of = written_samples_ == samples_ ? "" : absl::StrCat(written_samples_, " of ");
  return absl::StrCat(of, samples_, samples_ == 1 ? " sample" : " samples", " in ",
                      FormatSpan(absl::Seconds(last_t_)), ": ", absl::StrJoin(figures, ", "), " (",
                      writer_.path(), ")", missing_at_end_.empty() ? "" : "; at the end ",
                      missing_at_end_);
}

}  // namespace stageload::ctl
