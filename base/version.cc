#include "base/version.h"

namespace stageload {

const char kVersion[] = STAGELOAD_VERSION;

}  // namespace stageload
