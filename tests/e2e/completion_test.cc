// Tab at real shells: what they make of the scripts of `stageloadctl completion`, with the ids and
// names that a real daemon has.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/client/ctl/pseudo_terminal.h"
#include "tests/e2e/daemon_fixture.h"

namespace stageload::e2e {
namespace {

using ::testing::HasSubstr;

// Has the line printed as it stands, and all that may come next put into it.
constexpr char kShowLine[] = "\x18p";
constexpr char kInsertAll[] =
    "\x18"
    "a";
constexpr char kClearLine[] = "\x05\x15";

constexpr char kBashStart[] = R"shell(
PS1='ready> '
bind 'set bell-style none'
bind '"\C-xa": insert-completions'
bind -x '"\C-xp": printf "\n<%s>\n" "$READLINE_LINE"'
eval "$(stageloadctl completion bash)"
)shell";

constexpr char kZshStart[] = R"shell(
PS1='ready> '
unsetopt beep
autoload -U compinit
compinit -u -D
eval "$(stageloadctl completion zsh)"
zstyle ':completion:all-matches:*' insert true
zstyle ':completion:all-matches:*' completer _all_matches _complete
zle -C all-matches complete-word _generic
bindkey '^Xa' all-matches
show-line() { print -r -- $'\n'"<$BUFFER>" }
zle -N show-line
bindkey '^Xp' show-line
)shell";

std::string ProgramNamed(const std::string& name) {
  for (const char* folder : {"/bin/", "/usr/bin/", "/opt/homebrew/bin/", "/usr/local/bin/"}) {
    if (std::filesystem::exists(folder + name)) return folder + name;
  }
  return "";
}

class CompletionAtShells : public DaemonTest {
 protected:
  // Two jobs that live, one that has failed, and one that waits to be released.
  void Prepare() {
    StartDaemon();
    const Arguments at_once = {"--wait-free", "0", "--memory", "1M", "--name"};
    running_ = Submit(at_once + Arguments{"the one", "--group", "gpu", "--", "sleep", "600"});
    failed_ = Submit(at_once + Arguments{"bad", "--", "false"});
    held_ = Submit({"--hold", "--", "true"});
    ASSERT_TRUE(Reaches(running_, "RUNNING"));
    ASSERT_TRUE(Reaches(failed_, "FAILED"));
    WriteFile(PathOf("traced.jsonl"), "");
    std::filesystem::create_directory(PathOf("traces"));
  }

  std::vector<std::string> ShellEnvironment() {
    const std::string programs = std::filesystem::path(kCtlProgram).parent_path();
    std::vector<std::string> environment =
        Environment({"TERM=dumb", "INPUTRC=/dev/null", "ZDOTDIR=" + folder()});
    for (std::string& variable : environment) {
      if (variable.starts_with("PATH=")) variable = "PATH=" + programs + ":/usr/bin:/bin";
    }
    return environment;
  }

  void StartShell(const Arguments& argv) {
    shell_ = std::make_unique<ctl::PseudoTerminal>(200, 50);
    shell_->Run(argv, ShellEnvironment());
    ASSERT_TRUE(shell_->Shows("ready> ")) << shell_->shown();
    shell_->Type("cd " + folder() + "\n");
  }
  // The line after these keys, without the blanks at its end.
  std::string LineAfter(const std::string& keys) {
    const std::size_t from = shell_->shown().size();
    shell_->Type(keys + kShowLine);
    std::string line;
    const bool shown = shell_->Await([&] {
      const std::size_t begin = shell_->shown().find("\n<", from);
      if (begin == std::string::npos) return false;
      const std::size_t end = shell_->shown().find(">\r\n", begin);
      if (end == std::string::npos) return false;
      line = shell_->shown().substr(begin + 2, end - begin - 2);
      return true;
    });
    if (!shown) ADD_FAILURE() << "no line: " << shell_->shown().substr(from);
    shell_->Type(kClearLine);
    return line.substr(0, line.find_last_not_of(' ') + 1);
  }

  // Tries again where the machine was so busy that the daemon's answer came after the 300 ms.
  void ExpectLine(const std::string& keys, const ::testing::Matcher<std::string>& expected) {
    std::string line = LineAfter(keys);
    for (int tries = 1; tries < 20 && !::testing::Value(line, expected); ++tries) {
      line = LineAfter(keys);
    }
    EXPECT_THAT(line, expected) << ::testing::PrintToString(keys);
  }

  // What both shells that have a line editor do alike.
  void CheckLines() {
    const std::string all = absl::StrCat(held_, " ", failed_, " ", running_);
    ExpectLine(absl::StrCat("stageloadctl logs ", kInsertAll), "stageloadctl logs " + all);
    ExpectLine(absl::StrCat("stageload cancel ", kInsertAll),
               absl::StrCat("stageload cancel ", held_, " ", running_));
    ExpectLine("stageloadctl retry \t", absl::StrCat("stageloadctl retry ", failed_));
    ExpectLine("stageloadctl release \t", absl::StrCat("stageloadctl release ", held_));
    ExpectLine(absl::StrCat("stageloadctl submit --after ", held_, ",\t"),
               absl::StrCat("stageloadctl submit --after ", held_, ",", running_));
    ExpectLine("stageloadctl queue --group \t", "stageloadctl queue --group gpu");
    ExpectLine("stageloadctl dae\tunin\t", "stageloadctl daemon uninstall");
    ExpectLine("stageloadctl submit --cha\tsy\t", "stageloadctl submit --charge system");
    ExpectLine("stageloadctl submit --charge=sy\t", "stageloadctl submit --charge=system");
    ExpectLine("stageloadctl summary traced\t", "stageloadctl summary traced.jsonl");
    ExpectLine("stageloadctl plot --output=traced\t", "stageloadctl plot --output=traced.jsonl");
    ExpectLine("stageloadctl submit --cwd tr\t", "stageloadctl submit --cwd traces/");
    ExpectLine("stageloadctl run --memory 1G -- stageload-sh\t",
               "stageloadctl run --memory 1G -- stageload-shim");
    ExpectLine("stageloadctl guard cat traced\t", "stageloadctl guard cat traced.jsonl");
    // In the middle of a line (Ctrl-B is a character back) what stands behind is kept.
    ExpectLine("stageloadctl retry  --json" + std::string(7, '\x02') + "\t",
               ::testing::MatchesRegex(absl::StrCat("stageloadctl retry ", failed_, " +--json")));
  }

  // Though nothing forbids to start one.
  void CheckWithoutADaemon() {
    KillDaemon();
    EXPECT_EQ(LineAfter("stageloadctl retry \t"), "stageloadctl retry");
    EXPECT_EQ(LineAfter("stageloadctl ret\t"), "stageloadctl retry");
    EXPECT_EQ(Ctl({"daemon", "status"}, {.environment = {"STAGELOAD_NO_AUTOSTART=1"}}).exit_code,
              69);
    StartDaemon();
  }

  std::int64_t running_ = 0, failed_ = 0, held_ = 0;
  std::unique_ptr<ctl::PseudoTerminal> shell_;
};

TEST_F(CompletionAtShells, BashCompletesCommandsOptionsIdsFilesAndTheUsersOwnCommand) {
  const std::string bash = ProgramNamed("bash");
  if (bash.empty()) GTEST_SKIP() << "no bash";
  Prepare();
  WriteFile(PathOf("bashrc"), kBashStart);
  StartShell({bash, "--rcfile", PathOf("bashrc"), "-i"});
  CheckLines();
  CheckWithoutADaemon();
}

TEST_F(CompletionAtShells, ZshCompletesTheSame) {
  const std::string zsh = ProgramNamed("zsh");
  if (zsh.empty()) GTEST_SKIP() << "no zsh";
  Prepare();
  WriteFile(PathOf(".zshrc"), kZshStart);
  StartShell({zsh, "-i"});
  CheckLines();
  CheckWithoutADaemon();
}

TEST_F(CompletionAtShells, FishCompletesTheSameAndHasNamesAndStatesBesideIds) {
  const std::string fish = ProgramNamed("fish");
  if (fish.empty()) GTEST_SKIP() << "no fish";
  Prepare();
  const auto completes = [&](const std::string& line) {
    ChildProcess child(
        {.argv = {fish, "--no-config", "-c",
                  "stageloadctl completion fish | source; complete -C'" + line + "'"},
         .environment = ShellEnvironment(),
         .directory = folder(),
         .input = "",
         .output = PathOf("fish")});
    const Result result = child.Wait();
    EXPECT_EQ(result.err, "") << line;
    return result.out;
  };
  // Tries again, as above.
  const auto expect = [&](const std::string& line, const ::testing::Matcher<std::string>& what) {
    std::string out = completes(line);
    for (int tries = 1; tries < 20 && !::testing::Value(out, what); ++tries) out = completes(line);
    EXPECT_THAT(out, what) << line;
  };
  expect("stageloadctl logs ", absl::StrCat(held_, "\ttrue, PENDING\n", failed_, "\tbad, FAILED\n",
                                            running_, "\tthe one, RUNNING\n"));
  expect("stageload retry ", absl::StrCat(failed_, "\tbad, FAILED\n"));
  expect("stageloadctl queue --group ", "gpu\t1 job\n");
  const std::int64_t profiled =
      Submit({"--wait-free", "0", "--memory", "1M", "--profile", "sdxl", "--", "sleep", "1"});
  ASSERT_TRUE(Reaches(profiled, "COMPLETED"));
  ASSERT_TRUE(Eventually([&] { return !CtlJson({"profile"})["profiles"].empty(); }));
  expect("stageloadctl profile ", HasSubstr("sdxl\t1 run\n"));
  expect("stageloadctl submit --profile sd", "sdxl\t1 run\n");
  expect("stageloadctl submit --cha", HasSubstr("--charge\twhat counts"));
  expect("stageloadctl submit --charge=sy", HasSubstr("--charge=system"));
  expect("stageloadctl summary traced", HasSubstr("traced.jsonl"));
  expect("stageloadctl plot --output=traced", HasSubstr("--output=traced.jsonl"));
  expect("stageloadctl run -- stageload-sh", HasSubstr("stageload-shim"));
  expect("stageloadctl guard --memory 1G cat traced", HasSubstr("traced.jsonl"));
}

// As a daemon that is stuck: what listens and never answers.
TEST_F(CompletionAtShells, NobodyWaitsLongForADaemonThatDoesNotAnswer) {
  StartDaemon();
  ASSERT_GT(Submit({"--hold", "--", "true"}), 0);
  daemon().Signal(SIGSTOP);
  const Result stuck = Ctl({"complete-words", "--", "logs", ""});
  daemon().Signal(SIGCONT);
  EXPECT_EQ(stuck.exit_code, 0);
  EXPECT_EQ(stuck.err, "");
  EXPECT_THAT(stuck.out, ::testing::AnyOf("", "words\n"));
  EXPECT_LT(stuck.took, absl::Seconds(3));  // 0.3 s on a machine that is not loaded
}

}  // namespace
}  // namespace stageload::e2e
