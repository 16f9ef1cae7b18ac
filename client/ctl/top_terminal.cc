// The one file that knows curses. Its macros (OK, timeout, ...) and gRPC's headers do not go
// together.
#define NCURSES_NOMACROS 1
#define NCURSES_WIDECHAR 1
#include <curses.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <term.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

// terminfo's names for its capabilities are macros, too.
#undef lines
#undef columns

#include "absl/strings/str_cat.h"
#include "client/ctl/print.h"
#include "client/ctl/top_model.h"
#include "client/ctl/top_terminal.h"

namespace stageload::ctl {
namespace {

constexpr char kNotThis[] = "top needs a terminal that can move its cursor; try stageloadctl watch";
constexpr short kGreyPair = 10;

// A capability's string without the pauses that old terminals needed ("$<5>").
std::string Capability(const char* name) {
  const char* value = tigetstr(const_cast<char*>(name));
  if (value == nullptr || value == reinterpret_cast<const char*>(-1)) return "";
  std::string text(value);
  for (std::size_t at = 0; (at = text.find("$<", at)) != std::string::npos;) {
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) break;
    text.erase(at, end - at + 1);
  }
  return text;
}

absl::Status CheckTerminal() {
  if (isatty(STDIN_FILENO) == 0 || isatty(STDOUT_FILENO) == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat(isatty(STDOUT_FILENO) == 0 ? "stdout" : "stdin", " is no terminal: ", kNotThis,
                     ", or stageloadctl status --json"));
  }
  const char* term = std::getenv("TERM");
  const std::string name = term == nullptr ? "" : Printable(term);
  int found = 0;
  if (setupterm(nullptr, STDOUT_FILENO, &found) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        name.empty() ? "TERM is not set" : absl::StrCat("TERM=", name, " is not known here"), ": ",
        kNotThis));
  }
  if (Capability("cup").empty()) {
    return absl::FailedPreconditionError(absl::StrCat("TERM=", name, ": ", kNotThis));
  }
  return absl::OkStatus();
}

// What takes the picture away: a terminal without a second screen would keep it under the prompt.
std::string ClearSequence() {
  if (!Capability("rmcup").empty()) return "";
  const std::string clear = Capability("clear");
  return clear.empty() ? "\r\n" : clear;
}

// Back to the normal screen, keys, colours and cursor.
std::string LeaveSequence() {
  std::string leave;
  for (const char* name : {"sgr0", "op", "rmkx", "rmcup", "cnorm"}) leave += Capability(name);
  return leave + ClearSequence();
}

std::optional<int> KeyOf(wint_t code, bool function) {
  if (!function) return code < 0x80 ? std::optional<int>(static_cast<int>(code)) : std::nullopt;
  switch (code) {
    case KEY_UP:
      return kKeyUp;
    case KEY_DOWN:
      return kKeyDown;
    case KEY_PPAGE:
      return kKeyPageUp;
    case KEY_NPAGE:
      return kKeyPageDown;
    case KEY_HOME:
      return kKeyHome;
    case KEY_END:
      return kKeyEnd;
    default:
      return std::nullopt;
  }
}

short PairOf(Ink ink) { return static_cast<short>(static_cast<int>(ink)); }

}  // namespace

absl::StatusOr<std::unique_ptr<TopTerminal>> TopTerminal::Open() {
  setlocale(LC_CTYPE, "");
  if (absl::Status status = CheckTerminal(); !status.ok()) return status;
  termios modes{};
  if (tcgetattr(STDIN_FILENO, &modes) != 0) {
    return absl::ErrnoToStatus(errno, "read the terminal's modes");
  }
  const std::string leave = LeaveSequence();
  const bool utf8 = std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
  if (newterm(nullptr, stdout, stdin) == nullptr) {
    return absl::FailedPreconditionError(kNotThis);
  }
  return std::unique_ptr<TopTerminal>(
      new TopTerminal(modes, leave, utf8, UseColour(STDOUT_FILENO)));
}

TopTerminal::TopTerminal(const termios& modes, const std::string& leave, bool utf8, bool colour)
    : modes_(modes),
      clear_(ClearSequence()),
      utf8_(utf8),
      colour_(colour && has_colors()),
      restore_(STDOUT_FILENO, modes, leave) {
  cbreak();
  noecho();
  nonl();
  keypad(stdscr, TRUE);
  nodelay(stdscr, TRUE);
  set_escdelay(25);
  curs_set(0);
  if (colour_) StartColours();
  Resized();  // LINES and COLUMNS of the environment may be stale
}

void TopTerminal::Leave() {
  endwin();
  (void)WriteAll(STDOUT_FILENO, clear_);
}

TopTerminal::~TopTerminal() {
  Leave();
  tcsetattr(STDIN_FILENO, TCSADRAIN, &modes_);
}

void TopTerminal::StartColours() {
  start_color();
  use_default_colors();
  init_pair(PairOf(Ink::kGreen), COLOR_GREEN, -1);
  init_pair(PairOf(Ink::kYellow), COLOR_YELLOW, -1);
  init_pair(PairOf(Ink::kRed), COLOR_RED, -1);
  init_pair(PairOf(Ink::kCyan), COLOR_CYAN, -1);
  grey_ = COLORS >= 16 && init_pair(kGreyPair, 8, -1) == OK;  // bright black
}

int TopTerminal::AttributesOf(const Style& style) const {
  attr_t attributes = 0;
  if (style.bold) attributes |= A_BOLD;
  if (style.reverse) attributes |= A_REVERSE;
  if (style.dim) attributes |= grey_ ? COLOR_PAIR(kGreyPair) : A_DIM;
  if (colour_ && style.ink != Ink::kPlain) attributes |= COLOR_PAIR(PairOf(style.ink));
  return static_cast<int>(attributes);
}

std::size_t TopTerminal::width() const {
  return static_cast<std::size_t>(std::max(getmaxx(stdscr), 1));
}

std::size_t TopTerminal::height() const {
  return static_cast<std::size_t>(std::max(getmaxy(stdscr), 1));
}

void TopTerminal::Draw(const Picture& picture) {
  werase(stdscr);
  for (std::size_t row = 0; row < picture.lines.size() && row < height(); ++row) {
    wmove(stdscr, static_cast<int>(row), 0);
    for (const Span& span : picture.lines[row].spans()) {
      wattrset(stdscr, AttributesOf(span.style));
      // The last place of the screen has no next one to go to, and says so.
      (void)waddwstr(stdscr, Wide(span.text).c_str());
    }
  }
  wattrset(stdscr, 0);
  wmove(stdscr, static_cast<int>(height()) - 1, 0);
  wrefresh(stdscr);
}

std::optional<int> TopTerminal::ReadKey() {
  wint_t code = 0;
  while (true) {
    const int got = wget_wch(stdscr, &code);
    if (got == ERR) return std::nullopt;
    if (const std::optional<int> key = KeyOf(code, got == KEY_CODE_YES)) return key;
  }
}

bool TopTerminal::HasInput() const {
  int waiting = 0;
  return ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

void TopTerminal::Resized() {
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0) return;
  if (size.ws_row == getmaxy(stdscr) && size.ws_col == getmaxx(stdscr)) return;
  resizeterm(size.ws_row, size.ws_col);
  clearok(stdscr, TRUE);  // what a terminal makes of the old lines is its own matter
}

void TopTerminal::Stop() {
  Leave();
  struct sigaction ours {};
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &plain, &ours);
  raise(SIGTSTP);  // returns when the shell says fg
  sigaction(SIGTSTP, &ours, nullptr);
  Continued();
}

void TopTerminal::Continued() {
  reset_prog_mode();
  Resized();
  clearok(stdscr, TRUE);
  curs_set(0);
}

}  // namespace stageload::ctl
