// Who a home's lock file names.
//
// Threading: no state; asks the kernel.
#ifndef STAGELOAD_CLIENT_LIB_LOCK_HOLDER_H_
#define STAGELOAD_CLIENT_LIB_LOCK_HOLDER_H_

#include <string>

namespace stageload::client {

// Whether the process that is named in the lock file is there.
bool HolderLives(const std::string& lock);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_LOCK_HOLDER_H_
