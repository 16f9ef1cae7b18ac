// One nlohmann object a line, printed and written at once.
#include "base/trace_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/disk_error.h"
#include "base/trace_limits.h"

namespace stageload {
namespace {

constexpr absl::Duration kReaderComesWithin = absl::Seconds(2);

// Keeps the order of the fields.
using Json = nlohmann::ordered_json;

double Rounded(double value, double parts) { return std::round(value * parts) / parts; }
double Seconds(double seconds) { return Rounded(seconds, 1000); }

// A whole number without ".0", as a kernel's counter is.
Json Level(Percent percent) {
  const double value = LevelAsWritten(percent).value;
  if (value == std::floor(value)) return static_cast<std::int64_t>(value);
  return value;
}

void AddText(Json& line, const char* name, const std::string& text) {
  if (!text.empty()) line[name] = text;
}
void AddSize(Json& line, const char* name, const std::optional<Bytes>& size) {
  if (size) line[name] = size->count();
}

absl::Status AddRest(Json& line, const std::string& rest) {
  if (rest.empty()) return absl::OkStatus();
  const Json fields = Json::parse(rest, nullptr, false);
  if (!fields.is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat("write a trace's line: \"", rest, "\" is no JSON object"));
  }
  // A name that is taken keeps its first value.
  line.insert(fields.begin(), fields.end());
  return absl::OkStatus();
}

// One such line would make the whole file unreadable.
absl::Status CheckEvent(const TraceEvent& event) {
  absl::Status status;
  if (event.nbytes) status = CheckTraceSize(*event.nbytes);
  if (status.ok() && event.seconds) status = CheckTraceSeconds(*event.seconds);
  if (status.ok()) return status;
  return absl::InvalidArgumentError(
      absl::StrCat("write \"", event.kind, "\" of \"", event.name,
                   "\" into a trace: ", std::string(status.message())));
}

// What is no UTF-8 in a name must not cost the line.
std::string Text(const Json& line) {
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool IsPipe(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && S_ISFIFO(found.st_mode);
}

// ENXIO for a named pipe that has no reader, who is given some time to come: a plain open() would
// wait for ever, and through every signal.
int Open(const std::string& path, int flags) {
  const absl::Time deadline = absl::Now() + kReaderComesWithin;
  while (true) {
    const int fd = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK | flags, 0666);
    if (fd >= 0) return fd;
    if (errno == EINTR) continue;
    const int error = errno;
    if (error != ENXIO || !IsPipe(path) || absl::Now() >= deadline) {
      errno = error;
      return -1;
    }
    absl::SleepFor(absl::Milliseconds(10));
  }
}

// Whether there is nothing in it that could be lost.
bool IsEmptyOrNoFile(const std::string& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && !S_ISDIR(found.st_mode) &&
         (!S_ISREG(found.st_mode) || found.st_size == 0);
}

}  // namespace

Percent LevelAsWritten(Percent level) { return Percent{Rounded(level.value, 100)}; }

absl::StatusOr<TraceWriter> TraceWriter::Create(const std::string& path, Existing existing) {
  int fd = Open(path, O_CREAT | O_EXCL);
  if (fd < 0 && errno == EEXIST) {
    if (existing == Existing::kRefuse && !IsEmptyOrNoFile(path)) {
      return absl::AlreadyExistsError(absl::StrCat(path, " exists already"));
    }
    fd = Open(path, O_CREAT | O_TRUNC);
  }
  if (fd < 0 && errno == ENXIO && IsPipe(path)) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " is a pipe that nobody reads; start its reader first, or name a regular file"));
  }
  if (fd < 0) return absl::ErrnoToStatus(errno, absl::StrCat("make ", path));
  const int flags = fcntl(fd, F_GETFL);
  (void)fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);  // writes may wait
  return TraceWriter(path, fd);
}

absl::StatusOr<TraceWriter> TraceWriter::To(int fd, std::string name) {
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (own < 0) return absl::ErrnoToStatus(errno, absl::StrCat("write to ", name));
  TraceWriter writer(std::move(name), own);
  writer.has_name_ = false;
  return writer;
}

TraceWriter::TraceWriter(TraceWriter&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      cut_(std::move(other.cut_)),
      begun_(other.begun_),
      start_(std::move(other.start_)),
      times_cut_(other.times_cut_),
      has_name_(other.has_name_),
      reader_gone_(other.reader_gone_) {}

TraceWriter& TraceWriter::operator=(TraceWriter&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(cut_, other.cut_);
  std::swap(begun_, other.begun_);
  std::swap(start_, other.start_);
  std::swap(times_cut_, other.times_cut_);
  std::swap(has_name_, other.has_name_);
  std::swap(reader_gone_, other.reader_gone_);
  return *this;
}

TraceWriter::~TraceWriter() {
  if (fd_ >= 0) close(fd_);
}

void TraceWriter::Discard() {
  struct stat made {};
  struct stat there {};
  // Another may have put a file of its own in its place.
  const bool ours = fd_ >= 0 && fstat(fd_, &made) == 0 && stat(path_.c_str(), &there) == 0 &&
                    made.st_dev == there.st_dev && made.st_ino == there.st_ino;
  if (ours && S_ISREG(made.st_mode) && made.st_size == 0) (void)unlink(path_.c_str());
}

std::string TraceWriter::Harm() const {
  struct stat made {};
  struct stat there {};
  if (fd_ < 0 || fstat(fd_, &made) != 0 || !S_ISREG(made.st_mode)) return "";
  if (times_cut_ > 0 || IsShorter()) return "was cut";
  // One that was open already may have had no name from the first.
  if (!has_name_) return "";
  const bool there_is_one = stat(path_.c_str(), &there) == 0;
  if (there_is_one && made.st_dev == there.st_dev && made.st_ino == there.st_ino) return "";
  if (made.st_nlink == 0) return there_is_one ? "was replaced" : "was removed";
  return "was given another name";
}

bool TraceWriter::IsShorter() const {
  struct stat made {};
  if (fstat(fd_, &made) != 0 || !S_ISREG(made.st_mode)) return false;
  return lseek(fd_, 0, SEEK_CUR) > made.st_size;  // it stands behind what was written last
}

// The rest of a line whose beginning is gone is lost.
void TraceWriter::GoOnBehindCut() {
  ++times_cut_;
  cut_ = lseek(fd_, 0, SEEK_END) == 0 ? start_ : "\n";
}

absl::Status TraceWriter::Write(const TraceStart& start) {
  Json line{{"type", "start"}};
  AddText(line, "utc", start.utc);
  if (start.interval_seconds) line["interval"] = *start.interval_seconds;
  if (absl::Status status = AddRest(line, start.rest); !status.ok()) return status;
  start_ = Text(line);
  return WriteLine(start_);
}

absl::Status TraceWriter::Write(const TraceSample& sample) {
  Json line{{"type", "sample"}, {"t", Seconds(sample.t)}};
  AddSize(line, "footprint", sample.footprint);
  AddSize(line, "swap_used", sample.swap_used);
  if (sample.level) line["level"] = Level(*sample.level);
  AddSize(line, "available", sample.available);
  if (absl::Status status = AddRest(line, sample.rest); !status.ok()) return status;
  return WriteLine(Text(line));
}

absl::Status TraceWriter::Write(const TraceEvent& event) {
  if (absl::Status status = CheckEvent(event); !status.ok()) return status;
  Json line{{"type", "event"}, {"kind", event.kind}};
  AddText(line, "stage", event.stage);
  AddText(line, "name", event.name);
  AddSize(line, "nbytes", event.nbytes);
  if (event.seconds) line["seconds"] = Seconds(*event.seconds);
  AddText(line, "note", event.note);
  line["t"] = Seconds(event.t);
  if (absl::Status status = AddRest(line, event.rest); !status.ok()) return status;
  return WriteLine(Text(line));
}

absl::Status TraceWriter::WriteEnd() { return WriteLine(Text(Json{{"type", "end"}})); }

absl::Status TraceWriter::WriteLine(const std::string& line) {
  begun_ = false;
  if (line.size() > kLongestTraceLine + 1) {  // with its newline
    return absl::InvalidArgumentError(
        absl::StrCat("write a trace's line of ", line.size(), " bytes: 1 MiB is the most"));
  }
  if (IsShorter()) GoOnBehindCut();
  const std::string text = cut_ + line;
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t written = write(fd_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      reader_gone_ = error == EPIPE;
      cut_ = left;
      // A line that was not begun is lost.
      begun_ = left.size() < line.size();
      if (!begun_) cut_.resize(left.size() - line.size());
      return DiskError(error, absl::StrCat("write ", path_));
    }
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  cut_.clear();
  reader_gone_ = false;
  return absl::OkStatus();
}

}  // namespace stageload
