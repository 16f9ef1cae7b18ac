// Writes a recording as ReadTrace reads it (base/trace.h): JSON lines, each of them whole in one
// write(2), so a process that is killed leaves at most its last line cut.
//
// Times are written to the millisecond and levels to a hundredth; what is absent or empty is left
// out. The fields of `rest` are written as they are, behind those that have a place of their own.
//
// Threading: one thread at a time.
#ifndef STAGELOAD_BASE_TRACE_WRITER_H_
#define STAGELOAD_BASE_TRACE_WRITER_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/trace.h"

namespace stageload {

// A level with as many digits as a trace has.
Percent LevelAsWritten(Percent level);

class TraceWriter {
 public:
  enum class Existing { kRefuse, kOverwrite };  // a file of that name with something in it

  // Makes the file, or opens a pipe or a device. What is written goes to the file's end, also when
  // another has cut it; where nothing of it is left, behind its start line again. AlreadyExists
  // where that is refused, FailedPrecondition for a pipe that nobody reads within two seconds, and
  // what the system says, with the path.
  static absl::StatusOr<TraceWriter> Create(const std::string& path, Existing existing);
  // To what is open already, such as stdout; `name` is for messages. Takes a duplicate of `fd`.
  static absl::StatusOr<TraceWriter> To(int fd, std::string name);
  TraceWriter(TraceWriter&& other) noexcept;
  TraceWriter& operator=(TraceWriter&& other) noexcept;
  ~TraceWriter();  // writes no "end"

  // Each adds one line. InvalidArgument when `rest` is no JSON object. After another error, such as
  // a full disk, the line is lost; the next may be tried all the same: what was cut by the error is
  // completed first.
  absl::Status Write(const TraceStart& start);
  absl::Status Write(const TraceSample& sample);
  absl::Status Write(const TraceEvent& event);
  absl::Status WriteEnd();

  // Removes the file, where nothing was written to it.
  void Discard();

  const std::string& path() const { return path_; }
  // Whether the line that failed last was begun: its rest comes before the next one.
  bool begun() const { return begun_; }
  // What another did to the file meanwhile, such as "was removed"; empty as long as all that was
  // written is in it, and it at its path. Not of a pipe or a device.
  std::string Harm() const;
  // How often it was cut.
  int times_cut() const { return times_cut_; }
  // Whether the last write found that it goes to a pipe that nobody reads any more.
  bool reader_gone() const { return reader_gone_; }

 private:
  TraceWriter(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  absl::Status WriteLine(const std::string& line);
  bool IsShorter() const;
  void GoOnBehindCut();

  std::string path_;
  int fd_ = -1;
  std::string cut_;  // the rest of a line whose beginning is in the file
  bool begun_ = false;
  std::string start_;  // that line
  int times_cut_ = 0;
  bool has_name_ = true;
  bool reader_gone_ = false;
};

}  // namespace stageload

#endif  // STAGELOAD_BASE_TRACE_WRITER_H_
