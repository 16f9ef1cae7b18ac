// A job's output as `logs` prints it: as it is, with a time before each line, or as JSON lines.
//
// Threading: one owner.
#ifndef STAGELOAD_CLIENT_CTL_LOG_OUTPUT_H_
#define STAGELOAD_CLIENT_CTL_LOG_OUTPUT_H_

#include <array>
#include <string>

#include "absl/time/time.h"
#include "client/ctl/json.h"
#include "stageload/v1/job_service.pb.h"

namespace stageload::ctl {

// Puts the time at which a line began before each, as 2026-03-01T12:00:00.123+01:00 in `zone`. The
// two outputs have their lines each for itself.
class LineTimes {
 public:
  explicit LineTimes(absl::TimeZone zone) : zone_(zone) {}
  // The data of the piece with the times in it.
  std::string Stamp(const v1::ReadLogsResponse& piece);

 private:
  const absl::TimeZone zone_;
  std::array<bool, 2> within_line_ = {};
};

// One line of JSON a piece: its fields, with the data as text, or as `data_base64` where it is no
// UTF-8. A character that two pieces share goes into the later one.
class LogJson {
 public:
  std::string Lines(v1::ReadLogsResponse piece);
  // What is held back of a character that never came whole.
  std::string Rest();

 private:
  static std::string LineOf(const v1::ReadLogsResponse& piece);
  std::string RestOf(std::size_t output);

  std::array<v1::ReadLogsResponse, 2> held_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_LOG_OUTPUT_H_
