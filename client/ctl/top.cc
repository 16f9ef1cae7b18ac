// stageloadctl top: the machine, who holds its memory, what waits and what happens, on a full
// screen that is kept up to date and has keys.
#include <signal.h>
#include <sys/select.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/ctl/errors.h"
#include "client/ctl/exit_code.h"
#include "client/ctl/invocation.h"
#include "client/ctl/options.h"
#include "client/ctl/signals.h"
#include "client/ctl/top_feed.h"
#include "client/ctl/top_layout.h"
#include "client/ctl/top_model.h"
#include "client/ctl/top_terminal.h"

namespace stageload::ctl {
namespace {

constexpr absl::Duration kDefaultInterval = absl::Seconds(1);
constexpr int kEmptyReads = 10;
// The clock on the screen, and messages that go away.
constexpr absl::Duration kTick = absl::Seconds(1);
constexpr absl::Duration kFirstFrame = absl::Seconds(1);

// The one loop: what came, what was typed, what is shown.
class Top {
 public:
  Top(TopTerminal& terminal, TopFeed& feed, TopMailbox& mailbox,
      const v1::GetVersionResponse& daemon, absl::Duration interval)
      : terminal_(terminal), feed_(feed), mailbox_(mailbox), began_(absl::Now()), model_(interval) {
    model_.Connected(daemon);
  }

  // Until q, a signal that ends it, or the end of the terminal; returns the exit code.
  int Run() {
    while (!code_) {
      // The first frame is a moment away: no screen without one flashes by.
      const bool early = model_.frame() == nullptr && absl::Now() < began_ + kFirstFrame;
      if (!early) Draw();
      if (Await(early ? kFirstFrame : kTick)) ReadKeys();
      for (TopEvent& event : mailbox_.TakeAll()) {
        std::visit([this](auto& what) { Take(what); }, event);
      }
      if (model_.quit()) code_ = kExitOk;
    }
    return *code_;
  }

 private:
  void Draw() {
    const absl::Time now = absl::Now();
    model_.Tick(now);
    const TopPicture picture = Compose(model_, {.width = terminal_.width(),
                                                .height = terminal_.height(),
                                                .utf8 = terminal_.utf8(),
                                                .now = now,
                                                .zone = absl::LocalTimeZone()});
    model_.SetPage(picture.page);
    terminal_.Draw(picture);
  }

  // True when the terminal can be read. select, since poll does not know terminals on every macOS.
  bool Await(absl::Duration longest) {
    fd_set ready;
    FD_ZERO(&ready);
    FD_SET(STDIN_FILENO, &ready);
    FD_SET(mailbox_.fd(), &ready);
    timeval timeout = absl::ToTimeval(longest);
    const int count = select(mailbox_.fd() + 1, &ready, nullptr, nullptr, &timeout);
    const bool readable = count > 0 && FD_ISSET(STDIN_FILENO, &ready);
    if (!readable) empty_reads_ = 0;
    return readable;
  }

  void ReadKeys() {
    // A terminal that has gone can always be read, and has nothing. Once can also be a key that
    // Ctrl-C took away.
    if (!terminal_.HasInput() && ++empty_reads_ >= kEmptyReads) code_ = ExitOfSignal(SIGHUP);
    while (const std::optional<int> key = terminal_.ReadKey()) {
      if (*key == kRedraw) terminal_.Continued();
      if (const std::optional<Action> action = model_.Press(*key)) {
        model_.Asked(*action, absl::Now());
        feed_.Act(*action);
      }
    }
  }

  void Take(DaemonCame& came) { model_.Connected(std::move(came.version)); }
  void Take(DaemonWent& went) { model_.Lost(std::move(went.why), absl::Now()); }
  void Take(LiveFrame& live) { model_.Live(std::move(live.frame)); }
  void Take(PastTold& past) {
    if (past.point) model_.Past(*past.point);
    model_.AddEvents(past.events);
  }
  void Take(ActionDone& done) {
    if (done.status.ok()) {
      model_.Answered(done.action, done.job, absl::Now());
    } else {
      model_.Failed(done.action, std::string(done.status.message()));
    }
  }
  void Take(SignalCame& signal) {
    switch (signal.number) {
      case SIGWINCH:
        return terminal_.Resized();
      case SIGTSTP:
        return terminal_.Stop();
      case SIGCONT:
        return terminal_.Continued();
      default:
        code_ = ExitOfSignal(signal.number);
    }
  }

  static constexpr int kRedraw = 'L' & 0x1F;  // Ctrl-L

  TopTerminal& terminal_;
  TopFeed& feed_;
  TopMailbox& mailbox_;
  const absl::Time began_;
  TopModel model_;
  std::optional<int> code_;
  int empty_reads_ = 0;
};

int Show(const Connection& connection, absl::Duration interval) {
  const auto mailbox = std::make_shared<TopMailbox>();
  if (!mailbox->ok()) return Fail(absl::ErrnoToStatus(errno, "make a pipe"));
  // Before curses, which would take signals that nobody has asked for.
  const SignalEvents signals({SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH},
                             [mailbox](int number) { mailbox->Push(SignalCame{number}); });
  absl::StatusOr<std::unique_ptr<TopTerminal>> terminal = TopTerminal::Open();
  if (!terminal.ok()) return Fail(terminal.status());
  TopFeed feed(connection, interval, mailbox);
  return Top(**terminal, feed, *mailbox, connection.version, interval).Run();
}

int RunTop(const Invocation& invocation, const CLI::App& command,
           const std::optional<std::string>& text) {
  absl::Duration interval = kDefaultInterval;
  if (text) {
    const absl::StatusOr<absl::Duration> given = DurationOption("--interval", *text);
    if (!given.ok()) return UsageError(invocation, command, std::string(given.status().message()));
    interval = *given;
  }
  const absl::StatusOr<Connection> connection = Connect(invocation.connect);
  if (!connection.ok()) return Fail(connection.status());
  return Show(*connection, interval);
}

}  // namespace

void AddTop(CLI::App& app, Invocation& invocation) {
  CLI::App* command = app.add_subcommand(
      "top", "a full screen of the machine and its jobs, kept up to date, with keys (? has them)");
  const auto interval = std::make_shared<std::optional<std::string>>();
  command->add_option("--interval", *interval, "at most one sample in this time (1s)")
      ->type_name("DUR");
  AddExample(*command, invocation, {"stageloadctl top --interval 5s"});
  command->callback([=, &invocation] {
    invocation.action = [=, &invocation] { return RunTop(invocation, *command, *interval); };
  });
}

}  // namespace stageload::ctl
