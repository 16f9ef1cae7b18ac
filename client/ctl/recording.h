// What the daemon tells of a process, as the lines of a trace (base/trace.h), and the figures of
// the line that `record` says in the end.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_RECORDING_H_
#define STAGELOAD_CLIENT_CTL_RECORDING_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/trace_writer.h"
#include "base/units.h"
#include "stageload/v1/telemetry_service.pb.h"

namespace stageload::ctl {

class Recording {
 public:
  // From one sample to the next, where nobody says otherwise (telemetry_service.proto).
  static constexpr absl::Duration kInterval = absl::Milliseconds(500);
  // After the command's end: what the daemon did to it may be told only with the next sample.
  static constexpr absl::Duration kLastWord = absl::Milliseconds(500);

  struct Subject {
    pid_t pid = 0;
    // Empty for a process that ran already; else it is held back until the recording has begun.
    std::vector<std::string> command;
  };

  // Writes the start line and `first`, which has the sample at t = 0.
  static Recording Begin(TraceWriter writer, absl::Duration interval, const Subject& subject,
                         const v1::WatchProcessResponse& first);

  // When a line cannot be written that is said on stderr, once, and the recording goes on. A sample
  // is lost then; an event is written when that works again, with a note of what is missing.
  void Add(const v1::WatchProcessResponse& answer);
  // A note at the moment `awake`.
  void Mark(absl::Duration awake, const std::string& note);
  // A note of how it ended, where it did not with 0; `wait_status` is of waitpid.
  void CommandEnded(int wait_status);
  // From the last sample to the next, or to the end, there will be none, for this reason.
  void Interrupted(const std::string& why) { interrupted_ = why; }
  // The same where the daemon owes several samples, and no word comes of it.
  void Unanswered();
  void End();

  // Whether a line was lost, or is held at the end; after End() also where the file that is whole
  // is not at its path any more.
  bool incomplete() const { return incomplete_; }
  // Whether it goes to a pipe that nobody reads any more. That is said only where there is a
  // command, which runs on.
  bool reader_gone() const { return writer_.reader_gone(); }
  // "207 samples in 1m44s: peak footprint 18.5 GiB, swap +9.58 GiB, lowest level 22 % (run.jsonl)".
  // "65 of 101 samples" where the others could not be written; the figures are those of all. After
  // End() also since when there are none, where they are missing.
  std::string Line() const;

 private:
  Recording(TraceWriter writer, const v1::ProcessSample& first);
  void AddSample(const v1::ProcessSample& sample);
  void AddEvent(const v1::Event& event, const v1::ProcessSample* sample);
  double TimeOf(const v1::Event& event, const v1::ProcessSample* sample) const;
  double TimeOf(absl::Duration awake) const { return absl::ToDoubleSeconds(awake - begin_); }
  void WriteSample(const TraceSample& line);
  void WriteEvent(TraceEvent line);
  // Those that could not be written so far; an error as long as that does not work.
  absl::Status WriteHeld();
  // That no sample was written since the last one until then.
  void NoteLostUntil(double t);
  // Whether it was; if not, says so once.
  bool Wrote(const absl::Status& status);
  std::string LostMarks() const;
  // Says once what another did to the file.
  void LookAtFile();
  absl::Duration SinceLastTold() const { return absl::Now() - last_told_; }

  TraceWriter writer_;
  absl::Duration begin_;  // awake
  absl::Duration interval_ = kInterval;
  absl::Time last_told_;
  bool incomplete_ = false;
  bool has_command_ = false;
  bool said_ = false;  // that something could not be written
  std::string harm_;   // what another did to the file, as the writer tells it
  bool said_harm_ = false;
  int times_cut_ = 0;
  std::string interrupted_;
  std::string missing_at_end_;

  // Of the newest sample.
  double last_t_ = 0;
  std::int64_t last_wall_ns_ = 0;

  std::deque<TraceEvent> held_;  // the oldest first
  int left_out_ = 0;             // that were too many to be held
  double written_t_ = 0;         // of the newest sample in the file
  std::string lost_why_;         // why there is none of those after it

  int samples_ = 0;
  int written_samples_ = 0;
  int begun_samples_ = 0;  // 1 while the rest of one is to be written yet
  std::optional<Bytes> peak_footprint_;
  std::optional<Bytes> first_swap_;
  std::optional<Bytes> peak_swap_;
  std::optional<Percent> min_level_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_RECORDING_H_
