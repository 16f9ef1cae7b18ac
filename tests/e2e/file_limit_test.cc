// Few open files: what is wrong is said, and what can be raised is.
#include <gmock/gmock.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FileLimit : public DaemonTest {
 protected:
  // After `ulimit` with these words.
  Result Limited(const std::string& ulimit, const std::string& command) {
    return Ctl({"-c", absl::StrCat("ulimit ", ulimit, "; exec ", command)}, {.program = "/bin/sh"});
  }
};

TEST_F(FileLimit, AHardOneThatIsTooLowIsNamedWithWhatToDo) {
  for (const std::string& command :
       {absl::StrCat(kCtlProgram, " submit -- true"), absl::StrCat(kCtlProgram, " guard -- true"),
        std::string(kDaemonProgram)}) {
    const Result result = Limited("-n 20", command);
    EXPECT_EQ(result.exit_code, 1) << result;
    EXPECT_THAT(result.err, AllOf(HasSubstr("open files"), HasSubstr("no more than 20 are allowed"),
                                  HasSubstr("ulimit -n 1024")));
  }
  EXPECT_THAT(Daemons(), IsEmpty());
  EXPECT_EQ(Limited("-n 20", absl::StrCat(kCtlProgram, " --help")).exit_code, 0);
}

TEST_F(FileLimit, ASoftOneIsRaisedForUsAndJobsHaveItAsItWas) {
  for (const int files : {12, 20}) {
    const std::string ulimit = absl::StrCat("-Sn ", files);
    const Result run = Limited(
        ulimit, absl::StrCat(kCtlProgram, " run --wait-free 0 -- sh -c 'ulimit -Sn; exit 3'"));
    EXPECT_EQ(run.exit_code, 3) << run;
    EXPECT_EQ(run.out, absl::StrCat(files, "\n"));
    const Result guard = Limited(
        ulimit, absl::StrCat(kCtlProgram, " guard --wait-free 0 -- sh -c 'ulimit -Sn; exit 4'"));
    EXPECT_EQ(guard.exit_code, 4) << guard;
    EXPECT_EQ(guard.out, absl::StrCat(files, "\n"));
  }
}

// Enough to begin with, and no more than that.
TEST_F(FileLimit, TheLeastThatIsTakenIsEnough) {
  const Result first =
      Limited("-n 64", absl::StrCat(kCtlProgram, " run --wait-free 0 -- sh -c 'echo out; exit 3'"));
  EXPECT_EQ(first.exit_code, 3) << first;
  EXPECT_EQ(first.out, "out\n");
  EXPECT_EQ(Ctl({"run", "--wait-free", "0", "--", "sh", "-c", "exit 5"}).exit_code, 5);
}

}  // namespace
}  // namespace stageload::e2e
