// `top` at terminals of many kinds, before a daemon that the test plays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <fstream>
#include <future>
#include <mutex>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "client/ctl/print_text.h"
#include "tests/client/ctl/frame_daemon.h"
#include "tests/client/ctl/program.h"
#include "tests/client/ctl/pseudo_terminal.h"
#include "tests/client/ctl/tmux.h"
#include "tests/client/ctl/top_frames.h"

namespace stageload::ctl {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr char kEnterScreen[] = "\033[?1049h";
constexpr char kLeaveScreen[] = "\033[?1049l";
constexpr char kHideCursor[] = "\033[?25l";
constexpr char kShowCursor[] = "\033[?25h";

class TopProgram : public testing::Test {
 protected:
  TopProgram() {
    v1::Frame frame = FrameAt(0, 63, kGiB);
    AddClient(frame, 7, "train", 9 * kGiB, 7 * kGiB).set_stage("transformer");
    AddClient(frame, 8, "模型服务🚀e\u0301", 3 * kGiB);
    AddWaiting(frame, 9, "eval", "needs 6 GiB, 4 GiB free");
    frame_ = frame;
    daemon_.SetFrame(frame);
    // Not everywhere among those that are installed.
    std::ofstream(daemon_.home() + "/16") << "xterm-16color|xterm with 16 colours,\n"
                                             "\tcolors#16, pairs#256, use=xterm,\n"
                                             "\tsetaf=\\E[%?%p1%{8}%<%t3%p1%d%e9%p1%{8}%-%d%;m,\n"
                                             "\tsetab=\\E[%?%p1%{8}%<%t4%p1%d%e10%p1%{8}%-%d%;m,\n";
    const std::string compile =
        absl::StrCat("tic -o ", daemon_.home(), "/terminfo ", daemon_.home(), "/16");
    EXPECT_EQ(system(compile.c_str()), 0) << compile;
  }

  std::vector<std::string> Environment(const std::string& term,
                                       std::vector<std::string> more = {}) const {
    std::vector<std::string> environment{"TERM=" + term,
                                         "TERMINFO=" + daemon_.home() + "/terminfo",
                                         absl::StrCat("PATH=", getenv("PATH")),
                                         "STAGELOAD_HOME=" + daemon_.home(),
                                         "STAGELOAD_NO_AUTOSTART=1",
                                         "TZ=UTC"};
    environment.insert(environment.end(), more.begin(), more.end());
    return environment;
  }
  std::vector<std::string> Top() const { return {STAGELOADCTL, "top", "--interval", "0"}; }

  void Run(PseudoTerminal& terminal, const std::string& term = "xterm-256color",
           std::vector<std::string> more = {}) {
    before_ = terminal.Modes();
    terminal.Run(Top(), Environment(term, std::move(more)));
  }
  // The last of `on` comes before the last of `off`.
  static bool LastIs(const std::string& shown, const std::string& off, const std::string& on) {
    return shown.rfind(off) != std::string::npos && shown.rfind(off) > shown.rfind(on);
  }
  void ExpectLeftAsItWas(const PseudoTerminal& terminal) {
    EXPECT_EQ(terminal.Modes(), before_);
    EXPECT_TRUE(LastIs(terminal.shown(), kLeaveScreen, kEnterScreen));
    EXPECT_TRUE(LastIs(terminal.shown(), kShowCursor, kHideCursor));
  }

  FrameDaemon daemon_;
  v1::Frame frame_;
  std::string before_;
};

TEST_F(TopProgram, LeavesTheTerminalAsItWasAfterQ) {
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  ASSERT_TRUE(terminal.Shows("quit"));
  EXPECT_NE(terminal.Modes(), before_) << "keys come one by one, and are not echoed";
  EXPECT_THAT(terminal.shown(), AllOf(HasSubstr(kEnterScreen), HasSubstr(kHideCursor)));
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
  ExpectLeftAsItWas(terminal);
}

class TopEndedBy : public TopProgram, public testing::WithParamInterface<int> {};

TEST_P(TopEndedBy, LeavesTheTerminalAsItWas) {
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.Signal(GetParam());
  EXPECT_EQ(terminal.Wait(), 128 + GetParam());
  ExpectLeftAsItWas(terminal);
}

std::vector<int> EndingSignals() {
  std::vector<int> numbers = {SIGTERM, SIGINT,  SIGHUP,  SIGSEGV, SIGABRT, SIGBUS,    SIGQUIT,
                              SIGUSR1, SIGUSR2, SIGALRM, SIGPIPE, SIGXCPU, SIGVTALRM, SIGPROF};
#ifdef __linux__
  numbers.insert(numbers.end(), {SIGIO, SIGPWR, SIGSTKFLT, SIGRTMIN, SIGRTMAX});
#endif
  return numbers;
}

INSTANTIATE_TEST_SUITE_P(Signals, TopEndedBy, testing::ValuesIn(EndingSignals()),
                         [](const auto& parameter) {
                           return absl::StrCat("Signal", parameter.param);
                         });

TEST_F(TopProgram, LeavesNothingOnATerminalWithoutASecondScreen) {
  constexpr char kClear[] = "\033[H\033[J";
  for (const char* term : {"vt100", "linux", "ansi"}) {
    for (const int signal : {0, SIGTERM, SIGHUP, SIGSEGV}) {
      SCOPED_TRACE(absl::StrCat(term, ", ended by ", signal));
      PseudoTerminal terminal(80, 24);
      Run(terminal, term);
      ASSERT_TRUE(terminal.Shows("quit"));
      if (signal == 0) {
        terminal.Type("q");
      } else {
        terminal.Signal(signal);
      }
      EXPECT_EQ(terminal.Wait(), signal == 0 ? 0 : 128 + signal);
      EXPECT_EQ(terminal.Modes(), before_);
      EXPECT_TRUE(LastIs(terminal.shown(), kClear, "quit"));
      EXPECT_THAT(terminal.shown(), Not(HasSubstr(kEnterScreen)));
    }
  }
  // Nor while it is stopped, which takes a shell above.
  PseudoTerminal terminal(80, 24);
  terminal.Run(
      {"/bin/sh", "-mc",
       absl::StrCat(STAGELOADCTL, " top --interval 0; echo stopped; read x; fg >/dev/null")},
      Environment("linux"));
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.Type("\x1a");
  ASSERT_TRUE(terminal.Shows("stopped"));
  EXPECT_TRUE(LastIs(terminal.shown(), kClear, "quit"));
  const std::size_t shown = terminal.shown().size();
  terminal.Type("\n");
  ASSERT_TRUE(terminal.Shows("quit", shown));
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(TopProgram, IsEndedByCtrlC) {
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.Type("\x03");
  EXPECT_EQ(terminal.Wait(), 128 + SIGINT);
  ExpectLeftAsItWas(terminal);
}

TEST_F(TopProgram, EndsWhenItsTerminalIsGone) {
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.HangUp();
  EXPECT_EQ(terminal.Wait(), 128 + SIGHUP);
}

TEST_F(TopProgram, EndsWhenItsTerminalIsGoneThoughHangupsAreIgnored) {
  PseudoTerminal terminal(80, 24);
  terminal.Run({"/bin/sh", "-c", absl::StrCat("trap '' HUP; exec ", STAGELOADCTL, " top")},
               Environment("xterm"));
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.HangUp();
  EXPECT_EQ(terminal.Wait(), 128 + SIGHUP);
}

TEST_F(TopProgram, GivesTheTerminalBackWhileItIsStopped) {
  PseudoTerminal terminal(80, 24);
  before_ = terminal.Modes();
  // A group that has nobody to continue it is not stopped by Ctrl-Z, so a shell has to stand above.
  terminal.Run(
      {"/bin/sh", "-mc",
       absl::StrCat(STAGELOADCTL, " top --interval 0; echo stopped; read x; fg >/dev/null")},
      Environment("xterm-256color"));
  ASSERT_TRUE(terminal.Shows("quit"));
  terminal.Type("\x1a");
  ASSERT_TRUE(terminal.Shows("stopped"));
  EXPECT_TRUE(LastIs(terminal.shown(), kLeaveScreen, kEnterScreen));
  EXPECT_TRUE(LastIs(terminal.shown(), kShowCursor, kHideCursor));
  EXPECT_EQ(terminal.Modes(), before_);
  const std::size_t shown = terminal.shown().size();
  terminal.Type("\n");
  ASSERT_TRUE(terminal.Shows("quit", shown)) << "all of it is drawn again";
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
  ExpectLeftAsItWas(terminal);
}

struct Kind {
  const char* term;
  std::vector<std::string> more;
  bool colour;
  bool utf8;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.term;
  for (const std::string& setting : kind.more) *out << ' ' << setting;
}

class TopOnTerminal : public TopProgram, public testing::WithParamInterface<Kind> {};

TEST_P(TopOnTerminal, ShowsItsRowsWithTheColoursThatItHas) {
  PseudoTerminal terminal(100, 30);
  Run(terminal, GetParam().term, GetParam().more);
  ASSERT_TRUE(terminal.Shows("needs 6 GiB")) << terminal.shown();
  ASSERT_TRUE(terminal.Shows("quit")) << terminal.shown();
  EXPECT_THAT(terminal.shown(), AllOf(HasSubstr("train"), HasSubstr("9 GiB"), HasSubstr("88 %"),
                                      HasSubstr("needs 6 GiB, 4 GiB free")));
  // Green, yellow, red or cyan in front.
  const bool coloured = terminal.shown().find("\033[32m") != std::string::npos ||
                        terminal.shown().find(";32m") != std::string::npos ||
                        terminal.shown().find("\033[1;32m") != std::string::npos ||
                        terminal.shown().find("\033[33m") != std::string::npos;
  EXPECT_EQ(coloured, GetParam().colour) << terminal.shown();
  EXPECT_EQ(terminal.shown().find("模型") != std::string::npos, GetParam().utf8);
  EXPECT_EQ(terminal.shown(), GetParam().utf8 ? terminal.shown() : Ascii(terminal.shown()));
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
  EXPECT_EQ(terminal.Modes(), before_);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, TopOnTerminal,
    testing::Values(Kind{"xterm-256color", {"LC_ALL=C.UTF-8"}, true, true},
                    Kind{"xterm-16color", {"LC_ALL=C.UTF-8"}, true, true},
                    Kind{"xterm", {"LC_ALL=C"}, true, false},
                    Kind{"linux", {"LC_ALL=C.UTF-8"}, true, true},
                    Kind{"vt100", {"LC_ALL=C"}, false, false},
                    Kind{"xterm-256color", {"LC_ALL=C.UTF-8", "NO_COLOR=1"}, false, true},
                    Kind{"xterm-256color", {"LC_ALL=C", "LINES=5", "COLUMNS=7"}, true, false}));

TEST_F(TopProgram, SaysSoWhereTheCursorCannotBeMoved) {
  for (const char* term : {"dumb", "no-such-terminal", ""}) {
    PseudoTerminal terminal(80, 24);
    Run(terminal, term);
    EXPECT_EQ(terminal.Wait(), 1) << term;
    EXPECT_THAT(terminal.shown(), HasSubstr("top needs a terminal that can move its cursor; try "
                                            "stageloadctl watch"));
    EXPECT_EQ(terminal.Modes(), before_);
  }
}

TEST_F(TopProgram, SaysSoWithoutATerminal) {
  const Result result = RunProgram(daemon_.home(), {"top"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("is no terminal: top needs a terminal"));
}

TEST_F(TopProgram, SaysThatThereIsNoDaemonBeforeItTakesTheScreen) {
  daemon_.Stop();
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  EXPECT_EQ(terminal.Wait(), 69);
  EXPECT_THAT(terminal.shown(),
              AllOf(HasSubstr("no daemon answers"), Not(HasSubstr(kEnterScreen))));
}

TEST_F(TopProgram, KeepsWordsOnStderrOutOfThePictureAndShowsThemAfterwards) {
  v1::GetVersionResponse version;
  version.set_api_level(1);
  daemon_.SetVersion(version);
  PseudoTerminal terminal(80, 24);
  Run(terminal);
  ASSERT_TRUE(terminal.Shows("quit"));
  version.set_api_level(99);  // which every connection is told of
  version.set_pid(77);
  daemon_.SetVersion(version);
  daemon_.Stop();
  daemon_.Start();
  ASSERT_TRUE(terminal.Shows("77"));
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
  const std::size_t left = terminal.shown().rfind(kLeaveScreen);
  ASSERT_NE(left, std::string::npos);
  EXPECT_THAT(terminal.shown().substr(0, left), Not(HasSubstr("API level 99")));
  EXPECT_THAT(terminal.shown().substr(left), HasSubstr("API level 99"));
}

class TopInTmux : public TopProgram {
 protected:
  void SetUp() override {
    if (!Tmux::IsThere()) GTEST_SKIP() << "tmux is not installed";
  }
  std::vector<std::string> In(std::vector<std::string> more = {"LC_ALL=C.UTF-8"}) const {
    return Environment("tmux-256color", std::move(more));
  }
};

TEST_F(TopInTmux, FitsScreensOfFortyEightyAndTwoHundredColumnsAndChangesWithThem) {
  const Tmux tmux(80, 24, In(), Top());
  ASSERT_TRUE(tmux.Shows("q quit")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("stage transformer"));
  tmux.Resize(200, 50);
  EXPECT_TRUE(tmux.Shows("STAGE")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("7 GiB / 8 GiB"));
  EXPECT_TRUE(tmux.Shows("graph to 1 GiB"));
  tmux.Resize(40, 10);
  EXPECT_TRUE(tmux.ShowsNot("pressure")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("level 63 %"));
  EXPECT_TRUE(tmux.Shows("MEMORY: need"));
  tmux.Resize(3, 2);
  tmux.Resize(1, 1);
  tmux.Resize(80, 24);
  EXPECT_TRUE(tmux.Shows("stage transformer")) << tmux.Screen();
  tmux.Type("q");
  EXPECT_EQ(tmux.Code(), "0") << tmux.Screen();
}

TEST_F(TopInTmux, WideCharactersDoNotMoveWhatIsBesideThem) {
  const Tmux tmux(120, 30, In(), Top());
  ASSERT_TRUE(tmux.Shows("模型服务🚀e\u0301"));
  const std::vector<std::string> lines = absl::StrSplit(tmux.Screen(), '\n');
  std::vector<std::size_t> ends;
  for (const std::string& line : lines) {
    for (const char* footprint : {" 9 GiB", " 3 GiB"}) {
      const std::size_t at = line.find(footprint);
      const bool row = line.find("train") < at || line.find("模型") < at;
      if (at != std::string::npos && row) ends.push_back(Columns(line.substr(0, at)));
    }
  }
  ASSERT_EQ(ends.size(), 2U) << tmux.Screen();
  EXPECT_EQ(ends[0], ends[1]);
}

TEST_F(TopInTmux, ItsKeysAskTheDaemonAndItsWordsAreShown) {
  std::mutex mutex;
  std::vector<std::string> asked;
  daemon_.SetAction([&](const std::string& verb, std::int64_t id, v1::Job& job) {
    const std::lock_guard lock(mutex);
    asked.push_back(absl::StrCat(verb, " ", id));
    if (verb == "resume") {
      return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "job 7 is not suspended");
    }
    job.set_state(verb == "suspend" ? v1::JOB_STATE_SUSPENDED : v1::JOB_STATE_STOPPING);
    return grpc::Status::OK;
  });
  const Tmux tmux(80, 24, In(), Top());
  ASSERT_TRUE(tmux.Shows("train"));
  tmux.Type("z");
  EXPECT_TRUE(tmux.Shows("job 7 is SUSPENDED")) << tmux.Screen();
  tmux.Type("c");
  EXPECT_TRUE(tmux.Shows("cannot resume job 7: job 7 is not suspended")) << tmux.Screen();
  tmux.Type("Down");
  tmux.Type("x");
  EXPECT_TRUE(tmux.Shows("cancel job 8 (")) << tmux.Screen();
  tmux.Type("n");
  EXPECT_TRUE(tmux.Shows("job 8 is not cancelled"));
  tmux.Type("x");
  tmux.Type("y");
  EXPECT_TRUE(tmux.Shows("job 8 is STOPPING")) << tmux.Screen();
  tmux.Type("G");
  tmux.Type("h");
  EXPECT_TRUE(tmux.Shows("job 9 is held")) << tmux.Screen();
  tmux.Type("?");
  EXPECT_TRUE(tmux.Shows("any key goes back"));
  tmux.Type("j");
  EXPECT_TRUE(tmux.Shows("q quit"));
  const std::lock_guard lock(mutex);
  EXPECT_THAT(asked, ElementsAre("suspend 7", "resume 7", "cancel 8", "hold 9"));
}

TEST_F(TopInTmux, AnActionThatHangsDoesNotHoldUpTheScreenOrTheEnd) {
  std::promise<void> go;
  daemon_.SetAction([told = go.get_future().share()](const std::string&, std::int64_t, v1::Job&) {
    told.wait();
    return grpc::Status::OK;
  });
  {
    const Tmux tmux(80, 24, In(), Top());
    ASSERT_TRUE(tmux.Shows("train"));
    tmux.Type("z");
    frame_.mutable_host()->set_level_percent(11);
    daemon_.SetFrame(frame_);
    EXPECT_TRUE(tmux.Shows("level 11 %"));
    tmux.Type("q");
    EXPECT_EQ(tmux.Code(), "0") << tmux.Screen();
  }
  go.set_value();
}

TEST_F(TopInTmux, GoesOnWithTheNextDaemon) {
  const Tmux tmux(80, 24, In(), Top());
  ASSERT_TRUE(tmux.Shows("pid 4711"));
  daemon_.Stop();
  EXPECT_TRUE(tmux.Shows("daemon went away, waiting")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("train")) << "what was known stays";
  v1::GetVersionResponse next;
  next.set_version("9.9.10");
  next.set_pid(4712);
  next.set_api_level(1);
  daemon_.SetVersion(next);
  frame_.mutable_clients(0)->set_name("renamed");
  daemon_.SetFrame(frame_);
  daemon_.Start();
  EXPECT_TRUE(tmux.Shows("pid 4712")) << tmux.Screen();
  EXPECT_TRUE(tmux.Shows("renamed"));
  EXPECT_TRUE(tmux.ShowsNot("went away"));
}

TEST_F(TopInTmux, ItsGraphsAndEventsAreThereFromTheStart) {
  std::vector<v1::Frame> past;
  const std::int64_t now = absl::ToUnixNanos(absl::Now());
  for (int second = 290; second > 2; --second) {
    v1::Frame frame = FrameAt(0, 50, kGiB);
    frame.set_time_ns(now - second * kSecondNs);
    if (second == 100) *frame.add_events() = EventAt(0, "warned", 7, "told by a frame");
    past.push_back(frame);
  }
  daemon_.SetPast(past);
  daemon_.SetHistory({EventAt(3, "ended", 3, "newest"), EventAt(2, "ended", 2, "middle"),
                      EventAt(1, "ended", 1, "oldest")});
  const Tmux tmux(80, 30, In(), Top());
  EXPECT_TRUE(tmux.Shows("▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄")) << tmux.Screen();
  for (const char* text : {"told by a frame", "newest", "oldest"}) {
    EXPECT_TRUE(tmux.Shows(text)) << text << "\n" << tmux.Screen();
  }
}

TEST_F(TopInTmux, AThousandClientsCanBeLookedThrough) {
  v1::Frame frame = FrameAt(0);
  for (int i = 1; i <= 1000; ++i) {
    AddClient(frame, i, absl::StrCat("client-", i, "."), (2000 - i) * (kGiB / 1000));
  }
  daemon_.SetFrame(frame);
  const Tmux tmux(100, 30, In(), Top());
  ASSERT_TRUE(tmux.Shows("client-1."));
  tmux.Type("G");
  EXPECT_TRUE(tmux.Shows("client-1000.")) << tmux.Screen();
  tmux.Type("g");
  EXPECT_TRUE(tmux.Shows("client-1."));
  tmux.Type("NPage");
  EXPECT_TRUE(tmux.ShowsNot("client-1.")) << tmux.Screen();
  tmux.Type("q");
  EXPECT_EQ(tmux.Code(), "0") << tmux.Screen();
}

TEST_F(TopProgram, AsksForNoMoreFramesThanItShows) {
  PseudoTerminal terminal(80, 24);
  terminal.Run({STAGELOADCTL, "top", "--interval", "2s"}, Environment("xterm"));
  ASSERT_TRUE(terminal.Shows("quit"));
  ASSERT_TRUE(terminal.Await([&] { return daemon_.WatchesAsked().size() >= 2; }));
  int live = 0;
  for (const v1::WatchTelemetryRequest& request : daemon_.WatchesAsked()) {
    if (request.has_since_sequence()) continue;
    ++live;
    EXPECT_EQ(request.min_interval_ns(), 2 * kSecondNs);
  }
  EXPECT_EQ(live, 1);
  terminal.Type("q");
  EXPECT_EQ(terminal.Wait(), 0);
}

TEST_F(TopProgram, RefusesAnIntervalThatIsNone) {
  const Result result = RunProgram(daemon_.home(), {"top", "--interval", "often"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("--interval"));
}

}  // namespace
}  // namespace stageload::ctl
