// The daemon as an installed service: its files on disk, and who runs it.
//
// Threading: one thread.
#ifndef STAGELOAD_CLIENT_CTL_INSTALLATION_H_
#define STAGELOAD_CLIENT_CTL_INSTALLATION_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/ctl/connection.h"
#include "client/ctl/service_files.h"
#include "client/ctl/supervisor.h"
#include "client/ctl/unique_fd.h"

namespace stageload::ctl {

class Installation {
 public:
  // Of this user. `daemon` is stageloadd's path; empty where only what is there is looked at.
  static absl::StatusOr<Installation> Of(Platform platform, const ConnectOptions& connect,
                                         const std::string& daemon);

  const std::vector<ServiceFile>& files() const { return files_; }
  const ServiceTerms& terms() const { return terms_; }
  Supervisor& supervisor() const { return *supervisor_; }

  // Whether all files are there.
  bool Exists() const;
  // Those that are not there.
  std::vector<std::string> Missing() const;
  // Whether `loaded` is by a file of ours, and not a package's.
  bool IsOf(const Supervised& loaded) const;
  // Whether they are there, and serve at the socket to which we connect: one service a user is
  // installed, and STAGELOAD_HOME may name another home than its.
  bool ServesHere() const;
  // Keeps whoever else installs or uninstalls for this user waiting, as long as the descriptor is
  // open; none where there is no folder of the files and none is made. DeadlineExceeded when
  // somebody else keeps us waiting for too long.
  enum class Folder { kMake, kLeave };
  absl::StatusOr<UniqueFd> Lock(Folder missing) const;
  // What the file on disk, ours or else the loaded one of a package, has run; nothing where there
  // is none or it does not tell.
  std::optional<std::string> Program() const;
  // Whether it cannot run since it is missing or not executable.
  bool ProgramGone() const;
  // When a file of it was written last.
  absl::Time Written() const;
  // Whether each is as it should be, and may be written to by nobody else.
  bool IsCurrent() const;
  // The file by which Homebrew keeps a stageloadd running; empty when it does not.
  std::string BrewedFile() const;
  // FailedPrecondition or PermissionDenied when a file of that name is not ours to replace or
  // remove, or when another program keeps a stageloadd running.
  absl::Status CheckOurs() const;
  // Writes each whole, and makes the folders that the service needs.
  absl::Status Write() const;
  // Also what StaleLinks() has.
  absl::Status Remove() const;
  // By which systemd had it started at logins, where the file that they lead to is gone.
  std::vector<std::string> StaleLinks() const;

 private:
  Installation() = default;

  ServiceTerms terms_;
  std::vector<ServiceFile> files_;
  std::string home_;
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_INSTALLATION_H_
