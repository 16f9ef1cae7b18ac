// Exits on macOS: kqueue's EVFILT_PROC tells them of any process, child or not.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "daemon/jobs/darwin_exits.h"
#include "daemon/jobs/darwin_kernel_darwin.h"
#include "daemon/jobs/exit_watcher.h"

namespace stageload::jobs {

class ExitWatcher::Impl {
 public:
  Impl(std::unique_ptr<DarwinKernel> kernel, OnExit on_exit)
      : kernel_(std::move(kernel)), exits_(*kernel_, std::move(on_exit)) {}
  DarwinExits& exits() { return exits_; }
  int descriptor() const { return kernel_->descriptor(); }

 private:
  const std::unique_ptr<DarwinKernel> kernel_;
  DarwinExits exits_;
};

ExitWatcher::ExitWatcher(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ExitWatcher::~ExitWatcher() = default;

absl::StatusOr<std::unique_ptr<ExitWatcher>> ExitWatcher::Create(OnExit on_exit) {
  absl::StatusOr<std::unique_ptr<DarwinKernel>> kernel = NewDarwinKernel();
  if (!kernel.ok()) {
    // EMFILE and ENFILE are that already (absl::ErrnoToStatus).
    return absl::IsResourceExhausted(kernel.status())
               ? kernel.status()
               : absl::InternalError(std::string(kernel.status().message()));
  }
  return std::unique_ptr<ExitWatcher>(
      new ExitWatcher(std::make_unique<Impl>(*std::move(kernel), std::move(on_exit))));
}

absl::Status ExitWatcher::Watch(const core::ProcessIdentity& identity,
                                const StillThere& still_there) {
  return impl_->exits().Watch(identity, still_there);
}
absl::Status ExitWatcher::WatchUrgent(int, std::function<void()>) {
  return absl::UnimplementedError("no part of stageloadd waits for a descriptor on macOS");
}
int ExitWatcher::descriptor() const { return impl_->descriptor(); }
void ExitWatcher::Handle() { impl_->exits().Handle(); }

}  // namespace stageload::jobs
