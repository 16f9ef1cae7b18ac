// Which file this program is run from.
//
// Threading: any thread.
#ifndef STAGELOAD_BASE_OWN_PROGRAM_H_
#define STAGELOAD_BASE_OWN_PROGRAM_H_

#include <string>

namespace stageload {

// Absolute, with links followed; empty when it cannot be told.
std::string OwnProgram();

}  // namespace stageload

#endif  // STAGELOAD_BASE_OWN_PROGRAM_H_
