// Making a private folder is tested where it is used (listening_socket_test.cc); here, looking at
// one.
#include "base/private_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace stageload {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class PrivateFolder : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "private-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    top_ = std::filesystem::canonical(name).string();
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  std::string Make(const std::string& name, mode_t mode) const {
    const std::string path = top_ + "/" + name;
    EXPECT_EQ(::mkdir(path.c_str(), 0700), 0);
    EXPECT_EQ(::chmod(path.c_str(), mode), 0);
    return path;
  }
  static absl::Status Look(const std::string& path) {
    return CheckPrivateFolder(path, Readable::kByOwnerOnly);
  }

  std::string top_;
};

TEST_F(PrivateFolder, ALookMakesNothing) {
  const std::string path = top_ + "/absent/run";
  EXPECT_TRUE(absl::IsNotFound(Look(path))) << Look(path);
  EXPECT_FALSE(std::filesystem::exists(top_ + "/absent"));
}

TEST_F(PrivateFolder, ALookIsAsStrictAsMaking) {
  EXPECT_TRUE(Look(Make("good", 0700)).ok());
  const std::string open = Make("open", 0777);
  for (const absl::Status& status : {Look(open), MakePrivateFolder(open, Readable::kByOwnerOnly)}) {
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("has mode 0777"), HasSubstr("chmod 700 " + open)));
  }
  const std::string above = Make("above", 0770);
  Make("above/run", 0700);
  EXPECT_THAT(std::string(Look(above + "/run").message()),
              AllOf(HasSubstr(above + " has mode 0770"), HasSubstr("chmod go-w " + above)));
  std::filesystem::create_symlink(top_ + "/good", top_ + "/link");
  EXPECT_THAT(std::string(Look(top_ + "/link").message()), HasSubstr("is a symbolic link"));
}

}  // namespace
}  // namespace stageload
