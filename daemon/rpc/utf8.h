// Command lines are bytes; a proto string must be UTF-8, or the reader refuses the whole message.
//
// Threading: a pure function.
#ifndef STAGELOAD_DAEMON_RPC_UTF8_H_
#define STAGELOAD_DAEMON_RPC_UTF8_H_

#include <string>
#include <string_view>

namespace stageload::rpc {

// `text` with each byte that is not part of a well-formed character replaced by U+FFFD.
std::string ToUtf8(std::string_view text);

}  // namespace stageload::rpc

#endif  // STAGELOAD_DAEMON_RPC_UTF8_H_
