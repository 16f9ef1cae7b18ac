#include "daemon/core/effects.h"

#include <utility>

namespace stageload::core {

void Tell(Effects& effects, Note note) { effects.emplace_back(std::move(note)); }

}  // namespace stageload::core
