// Command lines are bytes; a proto string must be UTF-8, or the reader refuses the whole message.
//
// Threading: pure functions.
#ifndef STAGELOAD_BASE_UTF8_H_
#define STAGELOAD_BASE_UTF8_H_

#include <string>
#include <string_view>

namespace stageload {

// `text` with each byte that is not part of a well-formed character replaced by U+FFFD.
std::string ToUtf8(std::string_view text);
// Whether there is none.
bool IsUtf8(std::string_view text);

}  // namespace stageload

#endif  // STAGELOAD_BASE_UTF8_H_
