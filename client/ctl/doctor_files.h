// `doctor`: the folders and files that the daemon keeps things in, and the socket's.
//
// Threading: no state; they look at the file system.
#ifndef STAGELOAD_CLIENT_CTL_DOCTOR_FILES_H_
#define STAGELOAD_CLIENT_CTL_DOCTOR_FILES_H_

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "base/paths.h"
#include "client/ctl/doctor_finding.h"

namespace stageload::ctl {

// `status` is CheckPrivateFolder()'s.
Finding CheckFolder(const std::string& check, const std::string& path, const absl::Status& status);
// What the daemon opens to write: lock, store and log, and the folder of the jobs.
Finding CheckFiles(const Paths& paths);
// By its length and its first bytes; nothing where it is sound, or not there.
std::optional<Finding> CheckStoreFile(const std::string& path);
// Of the socket's file; nothing when there is none.
std::optional<Finding> CheckSocketFile(const std::string& path);

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_DOCTOR_FILES_H_
