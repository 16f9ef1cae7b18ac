// What tests of every room need: a folder of their own, and waiting on a condition.
#ifndef STAGELOAD_TESTS_FIXTURE_H_
#define STAGELOAD_TESTS_FIXTURE_H_

#include <poll.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace stageload {

// Mode 0700, with a short path, since a socket may lie in it; removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "sl_test.XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr) << pattern;
    path_ = pattern;
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Whether `condition` came true within a time that only a hang exceeds.
template <typename Condition>
bool Eventually(Condition condition) {
  const absl::Time deadline = absl::Now() + absl::Seconds(30);
  while (!condition()) {
    if (absl::Now() > deadline) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

}  // namespace stageload

#endif  // STAGELOAD_TESTS_FIXTURE_H_
