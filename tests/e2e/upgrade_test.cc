// A daemon that runs on while a package manager puts another version of its files elsewhere.
#include <gmock/gmock.h>

#include <filesystem>
#include <string>

#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

namespace fs = std::filesystem;

class Upgrade : public DaemonTest {
 protected:
  // As Homebrew lays a version out.
  fs::path Install(const std::string& version) const {
    const fs::path bin = PathOf("Cellar/stageload/" + version + "/bin");
    fs::create_directories(bin);
    for (const char* name : {"stageloadd", "stageloadctl", "stageload-shim"}) {
      fs::copy_file(fs::path(kDaemonProgram).parent_path() / name, bin / name);
    }
    return bin.parent_path();
  }
  void Link(const fs::path& keg) const {
    fs::create_directories(PathOf("opt"));
    fs::remove(PathOf("opt/stageload"));
    fs::create_directory_symlink(keg, PathOf("opt/stageload"));
  }
  // Starts the daemon that is beside that stageloadctl.
  void StartFrom(const fs::path& keg) {
    const Result result =
        Ctl({"daemon", "start"}, {.program = (keg / "bin/stageloadctl").string()});
    ASSERT_EQ(result.exit_code, 0) << result;
  }
};

TEST_F(Upgrade, TheNextShimIsFoundByTheLinkThatStays) {
  const fs::path first = Install("1");
  Link(first);
  StartFrom(first);
  const fs::path second = Install("2");
  Link(second);
  fs::remove_all(first);
  const std::int64_t id = Submit({"--wait-free", "0", "--", "sh", "-c", "exit 3"});
  ASSERT_TRUE(Reaches(id, "FAILED"));
  EXPECT_EQ(Show(id).value("exit_code", -1), 3);
}

TEST_F(Upgrade, WithoutAShimAJobWaitsWithTheReasonUntilTheDaemonIsRestarted) {
  const fs::path only = Install("1");
  StartFrom(only);
  EXPECT_THAT(Ctl({"daemon", "status"}).out, Not(HasSubstr("program:")));
  fs::remove_all(only);
  const std::int64_t id = Submit({"--wait-free", "0", "--", "sh", "-c", "exit 3"});
  ASSERT_TRUE(Eventually([&] {
    return Show(id).value("reason_text", "").find("stageload-shim is gone") != std::string::npos;
  })) << Show(id).dump(2);
  EXPECT_THAT(Ctl({"show", Id(id)}).out, AllOf(HasSubstr((only / "bin/stageload-shim").string()),
                                               HasSubstr("stageloadctl daemon restart")));
  EXPECT_EQ(StateOf(id), "RUNNING");
  const std::string removed = (only / "bin/stageloadd").string() + " was removed";
  EXPECT_THAT(Ctl({"daemon", "status"}).out, HasSubstr(removed));
  const auto json = nlohmann::json::parse(Ctl({"daemon", "status", "--json"}).out, nullptr, false);
  EXPECT_EQ(json.value("program_change", ""), removed);
  EXPECT_THAT(Ctl({"doctor"}).out, HasSubstr(removed));
  ASSERT_EQ(Ctl({"daemon", "restart"}).exit_code, 0);
  ASSERT_TRUE(Reaches(id, "FAILED"));
  EXPECT_EQ(Show(id).value("exit_code", -1), 3);
}

}  // namespace
}  // namespace stageload::e2e
