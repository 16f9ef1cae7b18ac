#include "base/file_size_limit.h"

#include <csignal>

namespace stageload {
namespace {

bool given_ignored = true;  // until it is known otherwise, nothing is to be restored

}  // namespace

void TakeFileTooLargeAsError() { given_ignored = std::signal(SIGXFSZ, SIG_IGN) == SIG_IGN; }

void RestoreFileTooLarge() {
  if (!given_ignored) std::signal(SIGXFSZ, SIG_DFL);
}

}  // namespace stageload
