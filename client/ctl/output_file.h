// A file that is there whole or not at all: written under a temporary name, then renamed.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_
#define STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class OutputFile {
 public:
  // Beside `path`; a pipe or a device is written to as it is.
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without Commit nothing is left

  absl::Status Write(const std::string& bytes);
  // Gives it its name.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string temporary, int fd)
      : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

  std::string path_;
  std::string temporary_;  // empty when there is none
  UniqueFd fd_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_
