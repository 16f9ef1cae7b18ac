#include "daemon/jobs/darwin_kernel_darwin.h"
#include "daemon/jobs/darwin_process.h"
#include "daemon/jobs/signal.h"

namespace stageload::jobs {

absl::Status SendSignal(const core::ProcessIdentity& identity, int signal,
                        const StillThere& still_there) {
  return SendSignalTo(PlainDarwinKernel(), identity, signal, still_there);
}

}  // namespace stageload::jobs
