// From the status that the library's own code returns to the exception that its user sees.
//
// Threading: any thread.
#ifndef STAGELOAD_CLIENT_LIB_EXCEPTION_H_
#define STAGELOAD_CLIENT_LIB_EXCEPTION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "stageload/error.h"

namespace stageload::client {

// `blockers` go into a NoRoom. The status must not be OK.
[[noreturn]] void Throw(const absl::Status& status, std::vector<Blocker> blockers = {});

// For on_end, where nothing is thrown.
Error ToError(const absl::Status& status);

// What goes to the daemon as text: INVALID_FIELD when it is not UTF-8, or holds control characters.
void CheckText(const char* field, const std::string& text);

// The same, and it must say something.
void CheckSaysSomething(const char* field, const std::string& text);

// In a child of the process that made the object `what`.
[[noreturn]] void ThrowForked(const char* what);

}  // namespace stageload::client

#endif  // STAGELOAD_CLIENT_LIB_EXCEPTION_H_
