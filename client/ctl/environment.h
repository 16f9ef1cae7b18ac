// The library's list of the environment, by its name here.
//
// Threading: as there.
#ifndef STAGELOAD_CLIENT_CTL_ENVIRONMENT_H_
#define STAGELOAD_CLIENT_CTL_ENVIRONMENT_H_

#include "client/lib/environment.h"

namespace stageload::ctl {

using client::OwnEnvironment;
using client::Pointers;
using client::SetVariable;

}  // namespace stageload::ctl

#endif  // STAGELOAD_CLIENT_CTL_ENVIRONMENT_H_
