// What keeps the daemon running once it is installed: launchd or systemd, through the program by
// which each is told what to do.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_SUPERVISOR_H_
#define STAGELOAD_CLIENT_CTL_SUPERVISOR_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/ctl/service_files.h"

namespace stageload::ctl {

// What it knows of our service.
struct Supervised {
  bool loaded = false;    // it holds the socket, and starts the daemon
  std::string where;      // launchd's domain, "gui/501"; systemd's "user"
  int pid = 0;            // of the daemon; 0 when none runs
  std::string condition;  // in its own words
  bool enabled = true;    // it is loaded at the next login, too
  // launchd: a second domain in which it is loaded, whose daemon contends with the first one's for
  // home and socket; empty when there is none.
  std::string twice = "";
  std::string better = "";  // launchd: the domain of a graphical login that came after an install
  std::string file = "";    // by which it was loaded; empty where it is not told
};

// A command, and when it is run; empty is always.
struct Step {
  std::vector<std::string> argv;
  std::string when;
};

// Errors name the command, what it said and what to do.
class Supervisor {
 public:
  virtual ~Supervisor() = default;
  virtual const char* Name() const = 0;
  virtual absl::StatusOr<Supervised> Look() = 0;
  // Loads the files as they are now and starts the daemon, now and at each login. What is loaded
  // already is unloaded before.
  virtual absl::Status Load() = 0;
  // Ends the daemon and closes its socket, until Load() or the next login.
  virtual absl::Status Unload() = 0;
  // The same, and for good. The files are removed afterwards, and then AfterRemoval() called.
  virtual absl::Status Disable() = 0;
  virtual absl::Status AfterRemoval() = 0;
  // Ends the daemon and starts it again; may return in between.
  virtual absl::Status Restart() = 0;
  // What the daemon said last on its standard error, as where it could not start; may be empty.
  virtual std::string LastWords() = 0;
  // What Load() and Disable() with AfterRemoval() run.
  virtual std::vector<Step> LoadSteps() const = 0;
  virtual std::vector<Step> DisableSteps() const = 0;
};

// `plist` is the LaunchAgent's path, `errors` where it sends standard error.
std::unique_ptr<Supervisor> NewLaunchd(const std::string& plist, const std::string& errors);
std::unique_ptr<Supervisor> NewSystemd();
// Where the user's manager reads units; nothing when there is none to ask. It has its own
// environment, in which XDG_CONFIG_HOME may be another than in ours.
std::optional<std::string> SystemdUnitFolder();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_SUPERVISOR_H_
