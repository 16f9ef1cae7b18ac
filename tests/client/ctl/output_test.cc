// Where what is printed goes: full disks, readers that have gone, terminals that are narrow or want
// no colour.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/ctl/environment.h"
#include "client/ctl/print.h"
#include "tests/client/ctl/fake_daemon.h"
#include "tests/client/ctl/program.h"
#include "tests/client/ctl/pseudo_terminal.h"

namespace stageload::ctl {
namespace {

using testing::HasSubstr;
using testing::Not;
using Words = std::vector<std::string>;

constexpr int kClosed = -1;  // in place of a descriptor

class OutputTest : public testing::Test {
 protected:
  OutputTest() {
    AddJob(1, "sdxl-base", v1::JOB_STATE_RUNNING);
    AddJob(2, "模型训练-очень-длинное-имя", v1::JOB_STATE_PENDING);
    AddJob(3, "🚀 launch", v1::JOB_STATE_PENDING);
    daemon_.jobs[2].clear_blockers();
  }
  void AddJob(std::int64_t id, const std::string& name, v1::JobState state) {
    v1::Job job;
    job.set_id(id);
    job.set_name(name);
    job.set_state(state);
    job.mutable_policy()->set_memory_bytes(12LL << 30);
    job.mutable_policy()->set_swap_budget_bytes(8LL << 30);
    if (state == v1::JOB_STATE_PENDING) {
      v1::Blocker& blocker = *job.add_blockers();
      blocker.set_kind(v1::BLOCKER_KIND_MEMORY);
      blocker.set_text("needs 12 GiB, 9.1 GiB free after 16.3 GiB reserved by job 1");
    }
    daemon_.jobs.push_back(job);
  }
  Words Environment() const {
    Words environment = OwnEnvironment();
    SetVariable(environment, "STAGELOAD_HOME", daemon_.home());
    SetVariable(environment, "STAGELOAD_SOCKET", "");
    SetVariable(environment, "STAGELOAD_NO_AUTOSTART", "1");
    SetVariable(environment, "TERM", "xterm-256color");
    SetVariable(environment, "NO_COLOR", "");
    return environment;
  }
  // With `out` as its stdout, or that closed; what waitpid says, and its stderr.
  int RunInto(int out, Words words, std::string& err) {
    const std::string err_path = daemon_.home() + "/err";
    words.insert(words.begin(), STAGELOADCTL);
    Words environment = Environment();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (out == kClosed) {
      posix_spawn_file_actions_addclose(&actions, 1);
    } else {
      posix_spawn_file_actions_adddup2(&actions, out, 1);
    }
    posix_spawn_file_actions_addopen(&actions, 2, err_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                     0600);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    pid_t pid = -1;
    EXPECT_EQ(posix_spawn(&pid, STAGELOADCTL, &actions, &attributes, Pointers(words).data(),
                          Pointers(environment).data()),
              0);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    int status = 0;
    waitpid(pid, &status, 0);
    std::ostringstream text;
    text << std::ifstream(err_path).rdbuf();
    err = text.str();
    return status;
  }
  std::string AtTerminal(unsigned short columns, Words environment, const Words& words) {
    PseudoTerminal terminal(columns, 24);
    Words argv = {STAGELOADCTL};
    argv.insert(argv.end(), words.begin(), words.end());
    terminal.Run(argv, std::move(environment));
    EXPECT_TRUE(terminal.Shows("launch")) << terminal.shown();
    EXPECT_EQ(terminal.Wait(), 0);
    return terminal.shown();
  }

  FakeDaemon daemon_;
};

TEST_F(OutputTest, ThatCannotBeWrittenIsSaidAndIsNoSuccess) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "this system has no /dev/full";
  for (const Words& words : std::vector<Words>{{"queue"},
                                               {"queue", "--json"},
                                               {"show", "1"},
                                               {"help"},
                                               {"--help"},
                                               {"queue", "--help"},
                                               {"version"},
                                               {"explain", "1"},
                                               {"daemon", "status"}}) {
    std::string err;
    const int status = RunInto(full, words, err);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << words[0] << " " << status;
    EXPECT_EQ(err, "stageload: write to stdout: No space left on device\n") << words[0];
  }
  close(full);
}

// As of `>&-`.
TEST_F(OutputTest, OfAClosedStdoutIsNoSuccessEither) {
  for (const Words& words : std::vector<Words>{{"queue"},
                                               {"explain", "1"},
                                               {"show", "1"},
                                               {"daemon", "status"},
                                               {"--help"},
                                               {"--version"},
                                               {"version"}}) {
    std::string err;
    const int status = RunInto(kClosed, words, err);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << words[0] << " " << status;
    EXPECT_EQ(err, "stageload: write to stdout: Bad file descriptor\n") << words[0];
  }
  daemon_.on_submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse& response) {
    response.mutable_job()->set_id(7);
    return grpc::Status::OK;
  };
  std::string err;
  const int status = RunInto(kClosed, {"submit", "--", "true"}, err);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << status;
  EXPECT_THAT(err, HasSubstr("Bad file descriptor"));
  EXPECT_THAT(err, HasSubstr("was queued all the same"));
}

// What was done is done, and is said where its id could not be.
TEST_F(OutputTest, OfAJobThatIsQueuedOrFollowedIsMissedAndSaid) {
  const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);
  if (full < 0) GTEST_SKIP() << "this system has no /dev/full";
  AddJob(7, "done", v1::JOB_STATE_COMPLETED);
  daemon_.jobs.back().set_start_time_ns(1);
  daemon_.on_submit = [](const v1::SubmitJobRequest&, v1::SubmitJobResponse& response) {
    response.mutable_job()->set_id(7);
    return grpc::Status::OK;
  };
  daemon_.on_retry = [](const v1::RetryJobRequest& request, v1::RetryJobResponse& response) {
    response.mutable_job()->set_id(request.id() + 10);
    return grpc::Status::OK;
  };
  daemon_.log.emplace_back().set_data("epoch 1\n");
  const std::string lost = "stageload: write to stdout: No space left on device\n";
  const std::string rest =
      "stageload: the output of job 7 could not be copied to its end; `stageloadctl logs 7` has "
      "all "
      "of it\n";
  for (const auto& [words, said] : std::vector<std::pair<Words, std::string>>{
           {{"submit", "--", "true"}, "stageload: job 7 was queued all the same\n"},
           {{"run", "--", "true"}, rest},
           {{"retry", "7"}, "stageload: job 17 was queued all the same\n"},
           {{"retry", "7", "1"},
            "stageload: job 17 was queued all the same, and none of those that follow\n"},
           {{"retry", "7", "1", "--json"}, "stageload: queued all the same: job 11, job 17\n"},
           {{"submit", "--array", "2", "--json", "--", "true"},
            "stageload: jobs 7 to 7 were queued all the same\n"}}) {
    std::string err;
    const int status = RunInto(full, words, err);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1) << words[0] << " " << status;
    EXPECT_EQ(err, lost + said);
  }
  close(full);
  EXPECT_EQ(RunProgram(daemon_.home(), {"run", "--", "true"}).out, "epoch 1\n");
}

TEST_F(OutputTest, WhoseReaderHasGoneEndsSilentlyAsOtherProgramsDo) {
  for (const Words& words : std::vector<Words>{{"queue"}, {"queue", "--json"}, {"--help"}}) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    close(ends[0]);
    std::string err;
    const int status = RunInto(ends[1], words, err);
    close(ends[1]);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE) << words[0] << " " << status;
    EXPECT_EQ(err, "");
  }
}

// Without what sets colours, and without the terminal's "\r".
std::string Plain(const std::string& shown) {
  std::string plain;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    if (shown[i] == '\r') continue;
    if (shown[i] == '\033') {
      i = shown.find('m', i);
      continue;
    }
    plain += shown[i];
  }
  return plain;
}

TEST_F(OutputTest, TheQueueFitsTerminalsOf40And80And200Columns) {
  for (const unsigned short columns : std::vector<unsigned short>{40, 80, 200}) {
    const std::string plain = Plain(AtTerminal(columns, Environment(), {"queue"}));
    const Words lines = absl::StrSplit(plain, '\n', absl::SkipEmpty());
    ASSERT_GE(lines.size(), 4U) << plain;
    for (const std::string& line : lines) {
      EXPECT_LE(Columns(line), columns) << line;
    }
    for (const char* part : {"ID", "STATE", "NAME", "RUNNING", "PENDING"}) {
      EXPECT_THAT(plain, HasSubstr(part)) << columns;
    }
    EXPECT_EQ(plain.find("FOOTPRINT") != std::string::npos, columns > 40) << plain;
    // The reason goes on below, and is whole.
    const Words words = absl::StrSplit(plain, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    EXPECT_THAT(absl::StrJoin(words, " "),
                HasSubstr("MEMORY: needs 12 GiB, 9.1 GiB free after 16.3"));
    EXPECT_THAT(plain, HasSubstr("reserved by job 1"));
    EXPECT_EQ(lines.size() == 4, columns == 200) << plain;
    if (columns < 200) continue;
    // What stands under each other does so behind wide names, too.
    const std::size_t title = lines[0].find("WAITS FOR");
    const std::size_t value = lines[2].find("MEMORY: ");
    ASSERT_NE(value, std::string::npos) << plain;
    EXPECT_EQ(Columns(lines[0].substr(0, title)), Columns(lines[2].substr(0, value))) << plain;
  }
}

TEST_F(OutputTest, ShowAndVersionFitATerminalOf40ColumnsButForWhatIsToBeCopied) {
  const std::string command = "python train.py --epochs 100 --model sdxl-base --precision bf16";
  daemon_.jobs[1].set_command(command);
  daemon_.jobs[1].set_name("launch");  // a name of its own is one word
  for (const Words& words : std::vector<Words>{{"show", "2"}, {"version"}}) {
    PseudoTerminal terminal(40, 24);
    Words argv = {STAGELOADCTL};
    argv.insert(argv.end(), words.begin(), words.end());
    terminal.Run(argv, Environment());
    EXPECT_EQ(terminal.Wait(), 0);
    const std::string plain = Plain(terminal.shown());
    bool whole = words[0] == "version";
    for (const std::string& line : Words(absl::StrSplit(plain, '\n', absl::SkipEmpty()))) {
      if (line.find(command) != std::string::npos) {
        whole = true;
      } else {
        EXPECT_LE(Columns(line), 40U) << line;
      }
    }
    EXPECT_TRUE(whole) << plain;
  }
}

TEST_F(OutputTest, DoctorFitsTerminalsOf40And80Columns) {
  for (const unsigned short columns : std::vector<unsigned short>{40, 80}) {
    PseudoTerminal terminal(columns, 24);
    terminal.Run({STAGELOADCTL, "doctor"}, Environment());
    EXPECT_TRUE(terminal.Await([&] {
      return terminal.shown().find("failed, ") != std::string::npos;
    })) << terminal.shown();
    (void)terminal.Wait();
    const std::string plain = Plain(terminal.shown());
    int lines = 0;
    for (const std::string& line : Words(absl::StrSplit(plain, '\n', absl::SkipEmpty()))) {
      ++lines;
      // A path stays whole.
      const std::string words = line.substr(std::min(line.find_first_not_of(" ->"), line.size()));
      if (words.find(' ') == std::string::npos) continue;
      EXPECT_LE(Columns(line), columns) << line;
    }
    EXPECT_GT(lines, 15) << plain;
  }
}

TEST_F(OutputTest, ColourIsForTerminalsThatDoNotRefuseIt) {
  EXPECT_THAT(AtTerminal(80, Environment(), {"queue"}), HasSubstr("\033[32mRUNNING\033[0m"));
  Words plain = Environment();
  SetVariable(plain, "NO_COLOR", "1");
  EXPECT_THAT(AtTerminal(80, plain, {"queue"}), Not(HasSubstr("\033")));
  EXPECT_THAT(RunProgram(daemon_.home(), {"queue"}).out, Not(HasSubstr("\033")));
}

}  // namespace
}  // namespace stageload::ctl
