// The calls of DarwinKernel as macOS answers them.
#include "daemon/jobs/darwin_kernel_darwin.h"

#include <bsm/audit.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <libproc.h>
#include <signal.h>
#include <sys/event.h>
#include <sys/sysctl.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <string>
#include <utility>

#include "daemon/jobs/descriptor.h"

namespace stageload::jobs {
namespace {

// bsd/sys/proc_info_private.h of xnu, which no SDK has but which calls itself API.
constexpr int kProcPidUniqIdentifierInfo = 17;
struct UniqueIdentifiers {
  std::uint8_t executable_uuid[16];
  std::uint64_t unique_id;
  std::uint64_t parents_unique_id;
  std::int32_t id_version;
  std::int32_t parents_version;
  std::uint64_t reserved[2];
};
static_assert(sizeof(UniqueIdentifiers) == 56);

constexpr std::uintptr_t kWakeIdent = 1;

// macOS 14.4 has it (xnu libsyscall/wrappers/libproc/libproc.c); it gives 0 or an errno.
using SignalWithToken = int (*)(audit_token_t*, int);
SignalWithToken FindSignalWithToken() {
  return reinterpret_cast<SignalWithToken>(::dlsym(RTLD_DEFAULT, "proc_signal_with_audittoken"));
}

class SystemKernel final : public DarwinKernel {
 public:
  explicit SystemKernel(Descriptor queue) : queue_(std::move(queue)) {}

  int ReadIdentifiers(std::int32_t pid, Identifiers* out) override {
    std::array<UniqueIdentifiers, 2> room{};  // for what may be appended to the struct
    // The argument asks for zombies, too. 0 is a failure (libproc.c), whether errno says one or
    // not.
    errno = 0;
    if (::proc_pidinfo(pid, kProcPidUniqIdentifierInfo, 1, room.data(), sizeof room) <= 0) {
      return errno != 0 ? errno : EIO;
    }
    *out = {.unique_id = room[0].unique_id, .version = room[0].id_version};
    return out->unique_id != 0 ? 0 : EINVAL;
  }

  int ReadStart(std::int32_t pid, std::uint64_t* microseconds) override {
    std::array<int, 4> name = {CTL_KERN, KERN_PROC, KERN_PROC_PID, pid};
    kinfo_proc entry{};
    std::size_t size = sizeof entry;
    if (::sysctl(name.data(), name.size(), &entry, &size, nullptr, 0) != 0) return errno;
    if (size != sizeof entry) return size == 0 ? ESRCH : EINVAL;  // nobody is no error to it
    const timeval& start = entry.kp_proc.p_starttime;
    *microseconds = static_cast<std::uint64_t>(start.tv_sec) * 1'000'000U +
                    static_cast<std::uint64_t>(start.tv_usec);
    return 0;
  }

  int Kill(std::int32_t pid, int signal) override { return ::kill(pid, signal) == 0 ? 0 : errno; }

  int KillExactly(std::int32_t pid, std::int32_t version, int signal) override {
    static const SignalWithToken signal_with_token = FindSignalWithToken();
    if (signal_with_token == nullptr) return ENOSYS;
    // Of the token only these two are looked at (xnu bsd/kern/kern_proc.c, proc_find_audit_token).
    audit_token_t token{};
    token.val[5] = static_cast<unsigned int>(pid);
    token.val[7] = static_cast<unsigned int>(version);
    return signal_with_token(&token, signal);
  }

  int Reap(std::int32_t pid) override {
    while (::waitpid(pid, nullptr, 0) < 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  int Attach(std::int32_t pid, std::uint64_t token) override {
    struct kevent64_s change {};
    change.ident = static_cast<std::uint64_t>(pid);
    change.filter = EVFILT_PROC;
    change.flags = EV_ADD | EV_ONESHOT;
    change.fflags = NOTE_EXIT;
    change.udata = token;
    return Change(change);
  }

  void Detach(std::int32_t pid) override {
    struct kevent64_s change {};
    change.ident = static_cast<std::uint64_t>(pid);
    change.filter = EVFILT_PROC;
    change.flags = EV_DELETE;
    Change(change);  // ENOENT when its end has been told
  }

  std::vector<std::uint64_t> Next() override {
    constexpr timespec kNow{};
    std::array<struct kevent64_s, 64> events;
    const int count = ::kevent64(queue_.get(), nullptr, 0, events.data(),
                                 static_cast<int>(events.size()), 0, &kNow);
    std::vector<std::uint64_t> tokens;
    for (int i = 0; i < count; ++i) {
      const struct kevent64_s& event = events[static_cast<std::size_t>(i)];
      if (event.filter == EVFILT_PROC) tokens.push_back(event.udata);
    }
    return tokens;  // what is left keeps the descriptor's input
  }

  int descriptor() const override { return queue_.get(); }

  void Wake() override {
    struct kevent64_s change {};
    change.ident = kWakeIdent;
    change.filter = EVFILT_USER;
    change.fflags = NOTE_TRIGGER;
    Change(change);
  }

  // What Wake() triggers.
  int AddWake() {
    struct kevent64_s change {};
    change.ident = kWakeIdent;
    change.filter = EVFILT_USER;
    change.flags = EV_ADD | EV_CLEAR;
    return Change(change);
  }

 private:
  int Change(const struct kevent64_s& change) {
    while (::kevent64(queue_.get(), &change, 1, nullptr, 0, 0, nullptr) < 0) {
      if (errno != EINTR) return errno;
    }
    return 0;
  }

  const Descriptor queue_;
};

}  // namespace

DarwinKernel& PlainDarwinKernel() {
  static SystemKernel kernel{Descriptor()};
  return kernel;
}

absl::StatusOr<std::unique_ptr<DarwinKernel>> NewDarwinKernel() {
  Descriptor queue(::kqueue());
  if (!queue.ok()) return absl::ErrnoToStatus(errno, "make a kqueue");
  // Not inherited by fork(2), but by posix_spawn(2) without POSIX_SPAWN_CLOEXEC_DEFAULT.
  ::fcntl(queue.get(), F_SETFD, FD_CLOEXEC);
  auto kernel = std::make_unique<SystemKernel>(std::move(queue));
  if (const int error = kernel->AddWake(); error != 0) {
    return absl::ErrnoToStatus(error, "add EVFILT_USER to a kqueue");
  }
  return kernel;
}

}  // namespace stageload::jobs
