#include "daemon/rpc/peer.h"

#include <sys/socket.h>
#if defined(__APPLE__)
#include <sys/ucred.h>
#include <sys/un.h>
#endif

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace stageload::rpc {
namespace {

absl::Status Failed(const char* what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

}  // namespace

#if defined(__APPLE__)

absl::StatusOr<Peer> PeerOf(int connection) {
  xucred credentials = {};
  socklen_t size = sizeof credentials;
  if (getsockopt(connection, SOL_LOCAL, LOCAL_PEERCRED, &credentials, &size) != 0) {
    return Failed("LOCAL_PEERCRED");
  }
  if (credentials.cr_version != XUCRED_VERSION) {
    return absl::InternalError("LOCAL_PEERCRED: credentials of an unknown version");
  }
  Peer peer;
  peer.uid = credentials.cr_uid;
  size = sizeof peer.pid;
  if (getsockopt(connection, SOL_LOCAL, LOCAL_PEERPID, &peer.pid, &size) != 0) {
    return Failed("LOCAL_PEERPID");
  }
  return peer;
}

#else

absl::StatusOr<Peer> PeerOf(int connection) {
  ucred credentials = {};
  socklen_t size = sizeof credentials;
  if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Failed("SO_PEERCRED");
  }
  return Peer{credentials.uid, credentials.pid};
}

#endif

}  // namespace stageload::rpc
