// A recorded /proc and cgroup tree in a temp folder of its own, written from a list of paths and
// texts, and gone with the fixture.
#ifndef STAGELOAD_TESTS_DAEMON_HOST_PROC_TREE_H_
#define STAGELOAD_TESTS_DAEMON_HOST_PROC_TREE_H_

#include <stdlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <memory>
#include <string>
#include <utility>

#include "daemon/host/host.h"
#include "gtest/gtest.h"

namespace stageload::host {

class ProcTree {
 public:
  using Files = std::initializer_list<std::pair<std::string, std::string>>;

  ProcTree() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "stageload-proc-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::filesystem::create_directories(root_ / "proc");
    std::filesystem::create_directories(root_ / "cgroup");
  }
  // "proc/meminfo", "cgroup/memory.max", ...
  ProcTree(Files files) : ProcTree() {
    for (const auto& [path, text] : files) Write(path, text);
  }
  ~ProcTree() { std::filesystem::remove_all(root_); }
  ProcTree(const ProcTree&) = delete;
  ProcTree& operator=(const ProcTree&) = delete;

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream file(root_ / path, std::ios::binary);
    file << text;
    EXPECT_TRUE(file.flush().good()) << path;
  }
  void Remove(const std::string& path) { std::filesystem::remove_all(root_ / path); }
  std::string proc() const { return (root_ / "proc").string(); }

  std::unique_ptr<Host> Open() const { return NewLinuxHost({proc(), (root_ / "cgroup").string()}); }

 private:
  std::filesystem::path root_;
};

// A line of /proc/<pid>/stat as Linux 6 writes it.
struct StatLine {
  std::int32_t pid = 0;
  std::string comm = "python";
  char state = 'S';
  std::int32_t parent = 1;
  std::int32_t group = 1;
  std::int32_t session = 1;
  int threads = 1;
  std::string start = "100";

  std::string Text() const {
    return std::to_string(pid) + " (" + comm + ") " + state + " " + std::to_string(parent) + " " +
           std::to_string(group) + " " + std::to_string(session) +
           " 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 " + std::to_string(threads) + " 0 " + start +
           " 9 10 18446744073709551615 1 1 0 0 0 0 0 16781312 16386 1 0 0 17 1 0 0 0 0 0 0 0 0 0 0 "
           "0 0 0\n";
  }
};

}  // namespace stageload::host

#endif  // STAGELOAD_TESTS_DAEMON_HOST_PROC_TREE_H_
