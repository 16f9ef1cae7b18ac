// The library's file descriptor with one owner, by its name here.
//
// Threading: as there.
#ifndef STAGELOAD_CLIENT_CTL_UNIQUE_FD_H_
#define STAGELOAD_CLIENT_CTL_UNIQUE_FD_H_

#include "client/lib/unique_fd.h"

namespace stageload::ctl {

using client::UniqueFd;

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_UNIQUE_FD_H_
