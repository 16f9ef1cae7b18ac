#include "client/ctl/service_files.h"

#include <filesystem>
#include <fstream>

#include "base/own_program.h"
#include "client/ctl/tool.h"
#include "gtest/gtest.h"
#include "tests/fixture.h"

namespace stageload::ctl {
namespace {

namespace fs = std::filesystem;

TEST(ServiceFilesTest, OfHomebrewsFoldersTheOneThatStaysIsTaken) {
  const TemporaryFolder folder;
  const std::string keg = folder.path() + "/Cellar/stageload/0.2.0";
  const std::string daemon = keg + "/bin/stageloadd";
  fs::create_directories(keg + "/bin");
  std::ofstream(daemon) << "";
  EXPECT_EQ(StablePath(daemon), daemon) << "there is no opt/";
  fs::create_directories(folder.path() + "/opt");
  fs::create_directory_symlink(keg, folder.path() + "/opt/stageload");
  EXPECT_EQ(StablePath(daemon), folder.path() + "/opt/stageload/bin/stageloadd");
  EXPECT_EQ(StablePath("/usr/bin/stageloadd"), "/usr/bin/stageloadd");
  EXPECT_EQ(StablePath("/x/Cellar/stageload"), "/x/Cellar/stageload");
}

TEST(ServiceFilesTest, WhatXmlUnitsAndShellsWouldTakeAmissIsQuoted) {
  EXPECT_EQ(XmlEscape("a & b <c> \"d\" 'e'"), "a &amp; b &lt;c&gt; &quot;d&quot; &apos;e&apos;");
  EXPECT_EQ(UnitQuote("a b \"c\" \\ %h"), "\"a b \\\"c\\\" \\\\ %%h\"");
  EXPECT_EQ(ShellText({"launchctl", "bootstrap", "gui/501", "/a b/it's"}),
            "launchctl bootstrap gui/501 '/a b/it'\\''s'");
}

TEST(ServiceFilesTest, TheProgramIsReadBackFromWhatWasWritten) {
  const Environment environment = [](const std::string& name) {
    return name == "HOME" ? std::optional<std::string>("/home/u") : std::nullopt;
  };
  for (Platform platform : {Platform::kMacos, Platform::kLinux}) {
    for (const char* program : {"/usr/bin/stageloadd", "/a b/50%/<&>/%h/stageloadd"}) {
      const auto terms = TermsFor(platform, environment, program);
      ASSERT_TRUE(terms.ok()) << terms.status();
      const auto files = ServiceFiles(*terms, environment);
      ASSERT_TRUE(files.ok()) << files.status();
      EXPECT_EQ(ProgramIn(platform, files->front().text), program);
    }
  }
}

TEST(ServiceFilesTest, TheProgramOfAnEditedUnitIsReadWhereItIsAPlainPath) {
  const auto read = [](const std::string& value) {
    return ProgramIn(Platform::kLinux, "[Service]\nExecStart=" + value + "\n").value_or("");
  };
  EXPECT_EQ(read("/x/stageloadd --service"), "/x/stageloadd");
  EXPECT_EQ(read("-/x/stageloadd"), "/x/stageloadd");
  for (const char* other : {"%h/stageloadd", "\"/x/%h\"", "/x\\x20y", "stageloadd", "", "\"/x"}) {
    EXPECT_EQ(read(other), "") << other;
  }
  EXPECT_EQ(ProgramIn(Platform::kLinux, ""), std::nullopt);
  EXPECT_EQ(ProgramIn(Platform::kMacos, "bplist00"), std::nullopt);
}

TEST(ToolTest, BothOutputsAndTheExitCodeAreHeardAndAHangIsEnded) {
  const auto heard = RunTool({"sh", "-c", "echo out; echo err >&2; exit 5"});
  ASSERT_TRUE(heard.ok()) << heard.status();
  EXPECT_EQ(heard->exit_code, 5);
  EXPECT_EQ(heard->output, "out\nerr");
  EXPECT_EQ(ToolFailure({"sh", "-c"}, *heard), "sh -c: exit code 5: out; err");
  EXPECT_TRUE(absl::IsNotFound(RunTool({"stageload-no-such-tool"}).status()));
  const auto hangs = RunTool({"sh", "-c", "echo waits; exec sleep 600"}, absl::Milliseconds(300));
  EXPECT_TRUE(absl::IsDeadlineExceeded(hangs.status())) << hangs.status();
}

}  // namespace
}  // namespace stageload::ctl
