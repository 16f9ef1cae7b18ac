// A name for a request that nobody else has given.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_REQUEST_ID_H_
#define STAGELOAD_CLIENT_LIB_REQUEST_ID_H_

#include <string>

namespace stageload::client {

// 128 random bits: the daemon knows a request that it has had already by it.
std::string NewRequestId();

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_REQUEST_ID_H_
