// A file may grow no further meanwhile, as on a full disk: the write is cut, then refused.
#ifndef STAGELOAD_TESTS_FILE_SIZE_LIMIT_H_
#define STAGELOAD_TESTS_FILE_SIZE_LIMIT_H_

#include <signal.h>
#include <sys/resource.h>

namespace stageload {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    handler_ = signal(SIGXFSZ, SIG_IGN);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    signal(SIGXFSZ, handler_);
  }

 private:
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};

}  // namespace stageload

#endif  // STAGELOAD_TESTS_FILE_SIZE_LIMIT_H_
