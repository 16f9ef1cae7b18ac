// A file that is there whole or not at all: written under a temporary name, then renamed. While it
// has the temporary name, SIGINT and its like wait, so that they do not leave it behind.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_
#define STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_

#include <signal.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

// Of the calling thread, and of those that it starts meanwhile.
class HeldSignals {
 public:
  HeldSignals();
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals();

 private:
  sigset_t before_{};
};

class OutputFile {
 public:
  // Beside `path`, or beside what it links to; a pipe or a device is written to as it is.
  static absl::StatusOr<OutputFile> Create(const std::string& path);
  OutputFile(OutputFile&&) = default;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();  // without Commit nothing is left

  absl::Status Write(const std::string& bytes);
  // Gives it its name.
  absl::Status Commit();

 private:
  OutputFile(std::string path, std::string target, std::string temporary, int fd,
             std::unique_ptr<HeldSignals> held)
      : path_(std::move(path)),
        target_(std::move(target)),
        temporary_(std::move(temporary)),
        fd_(fd),
        held_(std::move(held)) {}

  std::string path_;
  std::string target_;     // the file that it names, through links
  std::string temporary_;  // empty when there is none
  UniqueFd fd_;
  std::unique_ptr<HeldSignals> held_;  // while there is a temporary file
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OUTPUT_FILE_H_
