// A terminal as a full screen, by curses: a Picture out, keys in, and left as it was found, however
// this process ends short of SIGKILL.
//
// Threading: one thread; one at a time.
#ifndef STAGELOAD_CLIENT_CTL_TOP_TERMINAL_H_
#define STAGELOAD_CLIENT_CTL_TOP_TERMINAL_H_

#include <termios.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/ctl/top_picture.h"
#include "client/ctl/top_restore.h"

namespace stageload::ctl {

class TopTerminal {
 public:
  // stdin and stdout. FailedPrecondition when they are no terminal, or one that cannot do it.
  static absl::StatusOr<std::unique_ptr<TopTerminal>> Open();
  TopTerminal(const TopTerminal&) = delete;
  TopTerminal& operator=(const TopTerminal&) = delete;
  ~TopTerminal();

  std::size_t width() const;
  std::size_t height() const;
  bool utf8() const { return utf8_; }

  // Sends what is not there yet.
  void Draw(const Picture& picture);
  // The next key that was typed, as in top_model.h; nothing when none was.
  std::optional<int> ReadKey();
  // Whether something was typed that was not read yet.
  bool HasInput() const;

  void Resized();
  // As Ctrl-Z does it: gives the terminal back, stops this process, and returns when it goes on.
  void Stop();
  // Somebody else has written on it.
  void Continued();

 private:
  TopTerminal(const termios& modes, const std::string& leave, bool utf8, bool colour);

  // Gives the screen back.
  void Leave();
  void StartColours();
  int AttributesOf(const Style& style) const;

  termios modes_;
  std::string clear_;  // what takes the picture away; empty where the screen before comes back
  bool utf8_;
  bool colour_;
  bool grey_ = false;  // a colour for what is dim
  HeldStderr stderr_;
  CrashRestore restore_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_TOP_TERMINAL_H_
