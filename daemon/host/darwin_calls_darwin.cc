// The calls of DarwinCalls as the kernel answers them.
#include <dispatch/dispatch.h>
#include <libproc.h>
#include <mach/mach.h>
#include <mach/mach_time.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <cerrno>
#include <functional>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "daemon/host/darwin_calls.h"

namespace stageload::host {
namespace {

class DispatchedPressure final : public PressureSource {
 public:
  explicit DispatchedPressure(std::function<void()> handler) : handler_(std::move(handler)) {}
  ~DispatchedPressure() override {
    if (source_ != nullptr) {
      dispatch_source_cancel(source_);  // a handler that runs goes on
      // The queue is serial, so this waits for it; a cancelled source calls no other.
      dispatch_sync_f(queue_, nullptr, [](void*) {});
      dispatch_release(source_);
    }
    if (queue_ != nullptr) dispatch_release(queue_);
  }

  bool Start() {
    queue_ = dispatch_queue_create("dev.stageload.pressure", DISPATCH_QUEUE_SERIAL);
    source_ = dispatch_source_create(DISPATCH_SOURCE_TYPE_MEMORYPRESSURE, 0,
                                     DISPATCH_MEMORYPRESSURE_NORMAL | DISPATCH_MEMORYPRESSURE_WARN |
                                         DISPATCH_MEMORYPRESSURE_CRITICAL,
                                     queue_);
    if (source_ == nullptr) return false;
    dispatch_set_context(source_, this);
    // Not a block: those take clang.
    dispatch_source_set_event_handler_f(
        source_, [](void* self) { static_cast<DispatchedPressure*>(self)->handler_(); });
    dispatch_resume(source_);
    return true;
  }

 private:
  const std::function<void()> handler_;
  dispatch_queue_t queue_ = nullptr;
  dispatch_source_t source_ = nullptr;
};

class SystemCalls final : public DarwinCalls {
 public:
  int Sysctl(std::span<int> name, void* out, std::size_t* size) override {
    const auto length = static_cast<u_int>(name.size());
    return sysctl(name.data(), length, out, size, nullptr, 0) == 0 ? 0 : errno;
  }
  int SysctlByName(const char* name, void* out, std::size_t* size) override {
    return sysctlbyname(name, out, size, nullptr, 0) == 0 ? 0 : errno;
  }
  int ProcPidInfo(pid_t pid, int flavor, std::uint64_t argument, void* out,
                  std::size_t* size) override {
    // 0 is a failure, too (xnu libsyscall/wrappers/libproc/libproc.c), whether errno says one or
    // not.
    errno = 0;
    const int written = proc_pidinfo(pid, flavor, argument, out, static_cast<int>(*size));
    if (written <= 0) return errno != 0 ? errno : EIO;
    *size = static_cast<std::size_t>(written);
    return 0;
  }
  int ProcPidRusage(pid_t pid, int flavor, rusage_info_t* out) override {
    return proc_pid_rusage(pid, flavor, out) == 0 ? 0 : errno;
  }
  int Getsid(pid_t pid, pid_t* session) override {
    *session = getsid(pid);
    return *session >= 0 ? 0 : errno;
  }

  mach_port_t MachHostSelf() override { return mach_host_self(); }
  kern_return_t HostStatistics64(mach_port_t host, int flavor, integer_t* out,
                                 mach_msg_type_number_t* count) override {
    return host_statistics64(host, flavor, out, count);
  }
  kern_return_t TaskNameForPid(pid_t pid, mach_port_t* task) override {
    return task_name_for_pid(mach_task_self(), pid, task);
  }
  kern_return_t TaskInfo(mach_port_t task, int flavor, integer_t* out,
                         mach_msg_type_number_t* count) override {
    return task_info(task, static_cast<task_flavor_t>(flavor), out, count);
  }
  void MachPortDeallocate(mach_port_t port) override {
    mach_port_deallocate(mach_task_self(), port);
  }

  std::uint64_t KernelPageSize() override { return vm_kernel_page_size; }

  std::unique_ptr<PressureSource> WatchPressure(std::function<void()> handler) override {
    auto source = std::make_unique<DispatchedPressure>(std::move(handler));
    if (!source->Start()) return nullptr;
    return source;
  }

  mach_timebase_info_data_t MachTimebase() override {
    mach_timebase_info_data_t timebase{};
    mach_timebase_info(&timebase);
    return timebase;
  }
  std::uint64_t MachAbsoluteTime() override { return mach_absolute_time(); }
  std::uint64_t MachContinuousTime() override { return mach_continuous_time(); }
  absl::Time WallTime() override { return absl::Now(); }
};

}  // namespace

std::unique_ptr<Host> NewDarwinHost() {
  static SystemCalls calls;  // without a state of its own
  return NewDarwinHost(calls);
}

std::unique_ptr<Host> NewLocalHost() { return NewDarwinHost(); }

}  // namespace stageload::host
