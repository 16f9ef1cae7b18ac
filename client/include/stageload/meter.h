// Records this process's memory, and what it does, into a file.
//
//   stageload::MemoryMeter meter("run.trace.jsonl");
//   meter.Stage("decode");
//   meter.Load("vae", 250'000'000, 0.8);
//
// The file is a trace as docs/traces.md describes it and `stageloadctl summary`, `plot` and
// `simulate` read it: JSON lines, each in the file as soon as it is written, so a run that is
// killed leaves all but its last moment. The daemon samples the process and its descendants from
// outside: a program that is busy leaves no gap. Times are in seconds since the meter was made, on
// a clock that stands still while the machine sleeps.
//
// Marks that the process reports through a Session come into the file too. Where samples are
// missing since there was no daemon, a mark of the library's says for how long.
//
// Threading: one thread of the library waits for samples and writes them. All calls may be made
// from any thread. fork: as with Session.
#ifndef STAGELOAD_METER_H_
#define STAGELOAD_METER_H_

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>

#include "stageload/error.h"

namespace stageload {

namespace client {
class MeterCore;
}

// A field of a trace's first line.
using TraceField = std::variant<bool, std::int64_t, double, std::string>;

struct MeterOptions {
  // From one sample to the next, from 20 ms to 1 h.
  std::chrono::nanoseconds interval = std::chrono::milliseconds(500);
  // More for the first line, such as {"model", "Qwen-Image"}. The names of the format itself
  // ("type", "utc", "interval") are taken.
  std::map<std::string, TraceField> fields;
  // As in SessionOptions. Without a daemon there is nobody who samples: where one is not required,
  // the file has the program's own events only, until a daemon is there.
  std::string socket;
  bool autostart = true;
  bool require = true;
};

class MemoryMeter {
 public:
  // Makes the file, or empties the one that is there, and writes its first line. Waits for the
  // daemon as a Session does, and for its first sample 5 s at most. NoDaemon as above; Error for a
  // file that cannot be made, with the system's words, for an interval or a field that cannot be
  // (INVALID_FIELD), and OTHER_SOCKET and FORKED as of Session. It reads the environment.
  explicit MemoryMeter(const std::string& path, MeterOptions options = {});
  // Writes the last line. No sample comes after it.
  ~MemoryMeter();
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  // Each is in the file when the call returns; Error when it is not, as on a full disk, and
  // INVALID_FIELD for a note or a stage that is empty. What cannot be written of the samples is
  // left out.
  void Mark(const std::string& note);
  void Stage(const std::string& name);  // a new stage begins
  // `name` was loaded, or freed: how many bytes, and how long it took in seconds. Error
  // INVALID_FIELD for more than 2^60 bytes or 10^10 s, which no reader of the file would take.
  void Load(const std::string& name, std::int64_t nbytes, double seconds);
  void Reload(const std::string& name, std::int64_t nbytes, double seconds);
  void Release(const std::string& name, std::int64_t nbytes, double seconds);

 private:
  std::shared_ptr<client::MeterCore> core_;
};

}  // namespace stageload

#endif  // STAGELOAD_METER_H_
