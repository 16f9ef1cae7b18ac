// Where things are kept on each platform, and which settings are refused.
#include "base/paths.h"

#include <cstdlib>
#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace stageload {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Environment With(std::map<std::string, std::string> variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

std::string ErrorOf(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(Paths, LieInOneFolderWhenAHomeIsSet) {
  for (const Platform platform : {Platform::kLinux, Platform::kMacos}) {
    const auto paths = ResolvePathsOn(
        platform, With({{"STAGELOAD_HOME", "/h"}, {"HOME", "/u"}, {"XDG_CONFIG_HOME", "/c"}}));
    ASSERT_TRUE(paths.ok()) << paths.status();
    EXPECT_EQ(paths->state, "/h");
    EXPECT_EQ(paths->logs, "/h/log");
    EXPECT_EQ(paths->runtime, "/h");
    EXPECT_EQ(paths->socket, "/h/stageloadd.sock");
    EXPECT_EQ(paths->lock, "/h/stageloadd.lock");
    EXPECT_EQ(paths->config, "/h/config.toml");
    EXPECT_EQ(paths->store, "/h/stageload.db");
    EXPECT_EQ(paths->jobs, "/h/jobs");
  }
}

TEST(Paths, AreTheSameForTwoSpellingsOfOneHome) {
  const auto a = ResolvePathsOn(Platform::kLinux, With({{"STAGELOAD_HOME", "/a/b"}}));
  const auto b = ResolvePathsOn(Platform::kLinux, With({{"STAGELOAD_HOME", "//a/./c/../b//"}}));
  ASSERT_TRUE(a.ok() && b.ok());
  EXPECT_EQ(a->socket, b->socket);
  EXPECT_EQ(a->state, b->state);
}

TEST(Paths, FollowXdgOnLinux) {
  const auto paths = ResolvePathsOn(Platform::kLinux, With({{"HOME", "/u"},
                                                            {"XDG_STATE_HOME", "/s"},
                                                            {"XDG_RUNTIME_DIR", "/run/user/7"},
                                                            {"XDG_CONFIG_HOME", "/c"}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->state, "/s/stageload");
  EXPECT_EQ(paths->logs, "/s/stageload/log");
  EXPECT_EQ(paths->runtime, "/run/user/7/stageload");
  EXPECT_EQ(paths->socket, "/run/user/7/stageload/stageloadd.sock");
  EXPECT_EQ(paths->lock, "/s/stageload/stageloadd.lock");
  EXPECT_EQ(paths->config, "/c/stageload/config.toml");
  EXPECT_EQ(paths->store, "/s/stageload/stageload.db");
  EXPECT_EQ(paths->jobs, "/s/stageload/jobs");
}

TEST(Paths, HaveDefaultsOnLinux) {
  const auto paths = ResolvePathsOn(Platform::kLinux, With({{"HOME", "/u"}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->state, "/u/.local/state/stageload");
  EXPECT_EQ(paths->runtime, "/u/.local/state/stageload/run");
  EXPECT_EQ(paths->socket, "/u/.local/state/stageload/run/stageloadd.sock");
  EXPECT_EQ(paths->config, "/u/.config/stageload/config.toml");
}

TEST(Paths, IgnoreRelativeAndEmptyXdgVariables) {
  const auto paths = ResolvePathsOn(Platform::kLinux, With({{"HOME", "/u"},
                                                            {"XDG_STATE_HOME", "s"},
                                                            {"XDG_RUNTIME_DIR", "r"},
                                                            {"XDG_CONFIG_HOME", ""}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->state, "/u/.local/state/stageload");
  EXPECT_EQ(paths->runtime, "/u/.local/state/stageload/run");
  EXPECT_EQ(paths->config, "/u/.config/stageload/config.toml");
}

TEST(Paths, FollowTheLibraryFoldersOnMacos) {
  const auto paths =
      ResolvePathsOn(Platform::kMacos, With({{"HOME", "/Users/u"}, {"XDG_STATE_HOME", "/s"}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->state, "/Users/u/Library/Application Support/stageload");
  EXPECT_EQ(paths->logs, "/Users/u/Library/Logs/stageload");
  EXPECT_EQ(paths->runtime, "/Users/u/.stageload");
  EXPECT_EQ(paths->socket, "/Users/u/.stageload/stageloadd.sock");
  EXPECT_EQ(paths->lock, "/Users/u/Library/Application Support/stageload/stageloadd.lock");
  EXPECT_EQ(paths->config, "/Users/u/.config/stageload/config.toml");
}

TEST(Paths, MoveOnlyTheSocketForASocketVariable) {
  const auto paths = ResolvePathsOn(Platform::kLinux,
                                    With({{"STAGELOAD_HOME", "/h"}, {"STAGELOAD_SOCKET", "/x/s"}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->socket, "/x/s");
  EXPECT_EQ(paths->lock, "/h/stageloadd.lock");
  EXPECT_EQ(paths->runtime, "/h");
}

TEST(Paths, TakeAnEmptyVariableForNone) {
  const auto paths = ResolvePathsOn(
      Platform::kLinux, With({{"STAGELOAD_HOME", ""}, {"STAGELOAD_SOCKET", ""}, {"HOME", "/u"}}));
  ASSERT_TRUE(paths.ok()) << paths.status();
  EXPECT_EQ(paths->state, "/u/.local/state/stageload");
}

TEST(Paths, RefuseARelativeHomeAndSocketByName) {
  EXPECT_THAT(ErrorOf(ResolvePathsOn(Platform::kLinux, With({{"STAGELOAD_HOME", "~/x"}})).status()),
              HasSubstr("STAGELOAD_HOME=\"~/x\" is not an absolute path"));
  EXPECT_THAT(ErrorOf(ResolvePathsOn(Platform::kMacos, With({{"HOME", "u"}})).status()),
              HasSubstr("HOME=\"u\" is not an absolute path"));
  EXPECT_THAT(ErrorOf(ResolvePathsOn(Platform::kLinux,
                                     With({{"STAGELOAD_HOME", "/h"}, {"STAGELOAD_SOCKET", "s"}}))
                          .status()),
              HasSubstr("STAGELOAD_SOCKET=\"s\" is not an absolute path"));
}

TEST(Paths, SayWhatToSetWhenThereIsNoHomeAtAll) {
  for (const Platform platform : {Platform::kLinux, Platform::kMacos}) {
    EXPECT_THAT(ErrorOf(ResolvePathsOn(platform, With({})).status()),
                AllOf(HasSubstr("STAGELOAD_HOME"), HasSubstr("HOME")));
  }
}

TEST(SocketPaths, MayHave103Bytes) {
  EXPECT_TRUE(CheckSocketPath("/" + std::string(102, 'a')).ok());
  EXPECT_FALSE(CheckSocketPath("/" + std::string(103, 'a')).ok());
  EXPECT_FALSE(CheckSocketPath("").ok());
}

TEST(SocketPaths, ThatAreTooLongAreRefusedWithLengthLimitAndFix) {
  const std::string home = "/" + std::string(101, 'h');  // "/stageloadd.sock" makes it 118
  const auto paths = ResolvePathsOn(Platform::kLinux, With({{"STAGELOAD_HOME", home}}));
  EXPECT_THAT(ErrorOf(paths.status()),
              AllOf(HasSubstr(home), HasSubstr("is 118 bytes long"), HasSubstr("limit is 103"),
                    HasSubstr("set a shorter STAGELOAD_HOME or STAGELOAD_SOCKET")));
  EXPECT_TRUE(
      ResolvePathsOn(Platform::kLinux, With({{"STAGELOAD_HOME", home}, {"STAGELOAD_SOCKET", "/s"}}))
          .ok());
}

TEST(TheProcessEnvironment, TellsUnsetAndEmptyAlike) {
  const Environment environment = ProcessEnvironment();
  ASSERT_EQ(setenv("STAGELOAD_TEST_VARIABLE", "", 1), 0);
  EXPECT_EQ(environment("STAGELOAD_TEST_VARIABLE"), std::nullopt);
  ASSERT_EQ(setenv("STAGELOAD_TEST_VARIABLE", "x", 1), 0);
  EXPECT_EQ(environment("STAGELOAD_TEST_VARIABLE"), "x");
  ASSERT_EQ(unsetenv("STAGELOAD_TEST_VARIABLE"), 0);
  EXPECT_EQ(environment("STAGELOAD_TEST_VARIABLE"), std::nullopt);
}

}  // namespace
}  // namespace stageload
