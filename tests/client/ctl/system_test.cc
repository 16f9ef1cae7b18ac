// The pieces that touch processes and files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "client/ctl/command_path.h"
#include "client/ctl/held_child.h"

namespace stageload::ctl {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "ctl-test-XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~Folder() { fs::remove_all(path_); }
  std::string File(const std::string& name, fs::perms mode) const {
    const fs::path file = path_ / name;
    std::ofstream(file) << "#!/bin/sh\nexit 5\n";
    fs::permissions(file, mode);
    return file.string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

int Await(pid_t pid) {
  int status = 0;
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
  return status;
}

TEST(FindCommand, SearchesThePathInOrder) {
  const Folder first, second;
  (void)first.File("tool", fs::perms::owner_read);  // there, and cannot be executed
  const std::string wanted = second.File("tool", fs::perms::owner_all);
  const std::string path = first.path() + ":" + second.path();
  EXPECT_EQ(*FindCommand("tool", path), wanted);
  EXPECT_TRUE(absl::IsPermissionDenied(FindCommand("tool", first.path()).status()));
  EXPECT_TRUE(absl::IsNotFound(FindCommand("other", path).status()));
  EXPECT_TRUE(absl::IsNotFound(FindCommand("", path).status()));
}

TEST(FindCommand, TakesANameWithASlashAsItIs) {
  const Folder folder;
  const std::string file = folder.File("tool", fs::perms::owner_all);
  EXPECT_EQ(*FindCommand(file, ""), file);
  const absl::Status none = FindCommand(folder.path() + "/none", "").status();
  EXPECT_TRUE(absl::IsNotFound(none));
  EXPECT_EQ(none.message(), folder.path() + "/none: there is no such file");
  EXPECT_EQ(FindCommand("none", folder.path()).status().message(), "none: command not found");
  EXPECT_TRUE(absl::IsPermissionDenied(FindCommand(folder.path(), "").status()));
}

TEST(HeldChild, RunsItsCommandOnlyWhenItIsLetGo) {
  const Folder folder;
  const std::string mark = folder.path() + "/ran";
  absl::StatusOr<HeldChild> child = HeldChild::Fork({"sh", "-c", "echo > \"$0\"; exit 7", mark});
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  EXPECT_FALSE(fs::exists(mark));
  EXPECT_EQ(child->LetGo(), 0);
  const int status = Await(child->pid());
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_TRUE(fs::exists(mark));
}

TEST(HeldChild, EndsWithoutRunningWhenItIsDiscarded) {
  const Folder folder;
  const std::string mark = folder.path() + "/ran";
  absl::StatusOr<HeldChild> child = HeldChild::Fork({"sh", "-c", "echo > \"$0\"", mark});
  ASSERT_TRUE(child.ok()) << child.status();
  child->Discard();
  EXPECT_EQ(Await(child->pid()), 0);
  EXPECT_FALSE(fs::exists(mark));
}

TEST(HeldChild, TellsWhyItsCommandCannotRun) {
  const Folder folder;
  absl::StatusOr<HeldChild> missing = HeldChild::Fork({folder.path() + "/none"});
  ASSERT_TRUE(missing.ok()) << missing.status();
  EXPECT_EQ(missing->LetGo(), ENOENT);
  int status = Await(missing->pid());  // macOS's macros take an address
  EXPECT_EQ(WEXITSTATUS(status), 127);
  absl::StatusOr<HeldChild> forbidden = HeldChild::Fork({folder.path()});
  ASSERT_TRUE(forbidden.ok()) << forbidden.status();
  EXPECT_EQ(forbidden->LetGo(), EACCES);
  status = Await(forbidden->pid());
  EXPECT_EQ(WEXITSTATUS(status), 127);
}

}  // namespace
}  // namespace stageload::ctl
