// The words by which other tools, and other habits, call what commands of ours do.
//
// Threading: pure functions.
#ifndef STAGELOAD_CLIENT_CTL_OTHER_WORDS_H_
#define STAGELOAD_CLIENT_CTL_OTHER_WORDS_H_

#include "base/usage.h"

namespace stageload::ctl {

// None of them is a command.
const OtherWords& WordsOfOtherTools();

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_OTHER_WORDS_H_
