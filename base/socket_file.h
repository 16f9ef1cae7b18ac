// A Unix socket by its file: its address, and whether it lives.
//
// Threading: no state; asks the kernel.
#ifndef STAGELOAD_BASE_SOCKET_FILE_H_
#define STAGELOAD_BASE_SOCKET_FILE_H_

#include <sys/un.h>

#include <string>

namespace stageload {

// To bind to or connect to. A path that is too long is cut: CheckSocketPath() (base/paths.h) comes
// before.
sockaddr_un SocketAddress(const std::string& path);

// Whether some process has a socket that is bound to `path`, also when it takes no connection right
// now, and also when that cannot be told. A connection tells less: macOS refuses one whose queue is
// full with ECONNREFUSED (xnu bsd/kern/uipc_usrreq.c, unp_connect), as it does where only the file
// is left. Nothing arrives at the socket.
bool SocketLives(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_BASE_SOCKET_FILE_H_
