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
// What a program says in an hour, one a second, and what was done to it. Some 100 bytes each.
constexpr std::size_t kMostHeld = 4096;
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

// base/disk_error.h
std::string WithoutAdvice(const std::string& message) {
  return message.substr(0, message.rfind("; "));
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
  recording.has_command_ = !subject.command.empty();
  start.rest = StartRest(subject, sample);
  recording.incomplete_ = !recording.Wrote(recording.writer_.Write(start));
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
  if (sample == nullptr) return;
  const absl::Duration since_last =
      absl::Nanoseconds(sample->awake_ns()) - begin_ - absl::Seconds(last_t_);
  if (interrupted_.empty() && answer.dropped() == 0 &&
      client::IsGap(absl::ToDoubleSeconds(since_last), interval_)) {
    Interrupted(client::kNotSampled);
  }
  AddSample(*sample);
}

void Recording::AddSample(const v1::ProcessSample& sample) {
  last_told_ = absl::Now();
  const TraceSample line = client::TraceLine(sample, begin_);
  if (!interrupted_.empty()) {
    Mark(begin_ + absl::Seconds(last_t_),
         client::GapNote(absl::Seconds(line.t - last_t_), std::exchange(interrupted_, "")));
  }
  LookAtFile();
  const int written_before = written_samples_;
  WriteSample(line);
  if (writer_.times_cut() != times_cut_) {
    times_cut_ = writer_.times_cut();
    written_samples_ -= written_before;
    Mark(begin_ + absl::Seconds(last_t_), "the file was cut: what stood in it before is lost");
  }
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
  WriteEvent(std::move(line));
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
  WriteEvent(std::move(line));
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
  if (!lost_why_.empty() && WriteHeld().ok()) NoteLostUntil(last_t_);
  if (!WriteHeld().ok() || !Wrote(writer_.WriteEnd())) incomplete_ = true;
  LookAtFile();
  if (!harm_.empty()) incomplete_ = true;
}

void Recording::LookAtFile() {
  harm_ = writer_.Harm();
  if (harm_.empty() || std::exchange(said_harm_, true)) return;
  Note(absl::StrCat(writer_.path(), " ", harm_,
                    " while it was recorded; the recording there is not whole"));
}

// One that was begun is whole as soon as anything can be written.
void Recording::WriteSample(const TraceSample& line) {
  absl::Status status = WriteHeld();
  bool begun = false;
  if (status.ok()) {
    status = writer_.Write(line);
    begun = !Wrote(status) && writer_.begun();
  }
  if (!status.ok() && !begun) {
    lost_why_ = WithoutAdvice(std::string(status.message()));
    incomplete_ = true;
    return;
  }
  (begun ? begun_samples_ : written_samples_) += 1;
  if (!lost_why_.empty()) NoteLostUntil(line.t);
  written_t_ = line.t;
}

void Recording::WriteEvent(TraceEvent line) {
  held_.push_back(std::move(line));
  if (!WriteHeld().ok() && held_.size() > kMostHeld) {
    held_.pop_front();
    ++left_out_;
    incomplete_ = true;
  }
}

absl::Status Recording::WriteHeld() {
  while (!held_.empty()) {
    const absl::Status status = writer_.Write(held_.front());
    if (Wrote(status)) {
      held_.pop_front();
      continue;
    }
    const bool never = absl::IsInvalidArgument(status);  // it is no line of a trace
    if (never) incomplete_ = true;
    if (never || writer_.begun()) held_.pop_front();
    if (!never) return status;
  }
  return absl::OkStatus();
}

void Recording::NoteLostUntil(double t) {
  std::string note = client::GapNote(absl::Seconds(t - written_t_), std::exchange(lost_why_, ""));
  const int marks = std::exchange(left_out_, 0);
  if (marks > 0) absl::StrAppend(&note, "; ", marks, " marks were left out, too");
  Mark(begin_ + absl::Seconds(written_t_), note);
}

bool Recording::Wrote(const absl::Status& status) {
  if (status.ok()) {
    written_samples_ += std::exchange(begun_samples_, 0);
    return true;
  }
  if (absl::IsInvalidArgument(status)) {
    Note(absl::StrCat(std::string(status.message()), "; it is left out"));
    return false;
  }
  if ((writer_.reader_gone() && !has_command_) || std::exchange(said_, true)) return false;
  Note(absl::StrCat(std::string(status.message()),
                    "; samples are lost until that works again, marks are kept until then, and "
                    "nothing else is disturbed"));
  return false;
}

std::string Recording::LostMarks() const {
  const std::size_t lost = held_.size() + static_cast<std::size_t>(left_out_);
  return lost == 0 ? "" : absl::StrCat("; ", lost, lost == 1 ? " mark is" : " marks are", " lost");
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
                      writer_.path(), harm_.empty() ? "" : ", which ", harm_, ")",
                      missing_at_end_.empty() ? "" : "; at the end ", missing_at_end_, LostMarks());
}

}  // namespace stageload::ctl
