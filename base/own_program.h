// Which file this program is run from.
//
// Threading: any thread.
#ifndef STAGELOAD_BASE_OWN_PROGRAM_H_
#define STAGELOAD_BASE_OWN_PROGRAM_H_

#include <string>

namespace stageload {

// Absolute, with links followed; empty when it cannot be told.
std::string OwnProgram();

// Homebrew moves a formula's files with each version; its opt/ stays. `path` itself when it is not
// in a Cellar, or opt/ does not lead to the same file.
std::string StablePath(const std::string& path);

}  // namespace stageload

#endif  // STAGELOAD_BASE_OWN_PROGRAM_H_
