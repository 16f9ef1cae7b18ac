// The library's search for a command, by its name here.
//
// Threading: as there.
#ifndef STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_
#define STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_

#include "client/lib/command_path.h"

namespace stageload::ctl {

using client::FindCommand;

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_COMMAND_PATH_H_
