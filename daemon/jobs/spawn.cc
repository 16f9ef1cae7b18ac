#include "daemon/jobs/spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace stageload::jobs {
namespace {

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  for (const std::string& each : strings) pointers.push_back(const_cast<char*>(each.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Both of posix_spawn's objects; `error` is the first that any call gave.
class Preparation {
 public:
  explicit Preparation(const SpawnRequest& request) {
    Note(::posix_spawn_file_actions_init(&actions_));
    Note(::posix_spawnattr_init(&attributes_));
    Signals();
    short flags = POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK;
    if (request.place == SpawnRequest::Place::kOwnSession) {
      flags |= POSIX_SPAWN_SETSID;
    } else {
      flags |= POSIX_SPAWN_SETPGROUP;
      Note(::posix_spawnattr_setpgroup(&attributes_, 0));
    }
    int last = 2;
    for (const auto& [ours, theirs] : request.descriptors) {
      Note(::posix_spawn_file_actions_adddup2(&actions_, ours, theirs));
      last = std::max(last, theirs);
    }
    for (int standard = 0; standard <= 2; ++standard) {
      const bool given =
          std::any_of(request.descriptors.begin(), request.descriptors.end(),
                      [standard](const auto& pair) { return pair.second == standard; });
      if (!given) {
        Note(::posix_spawn_file_actions_addopen(&actions_, standard, "/dev/null",
                                                standard == 0 ? O_RDONLY : O_WRONLY, 0));
      }
    }
#ifdef POSIX_SPAWN_CLOEXEC_DEFAULT  // macOS
    flags |= POSIX_SPAWN_CLOEXEC_DEFAULT;
#else
    Note(::posix_spawn_file_actions_addclosefrom_np(&actions_, last + 1));
#endif
    Note(::posix_spawnattr_setflags(&attributes_, flags));
  }
  ~Preparation() {
    ::posix_spawnattr_destroy(&attributes_);
    ::posix_spawn_file_actions_destroy(&actions_);
  }
  Preparation(const Preparation&) = delete;
  Preparation& operator=(const Preparation&) = delete;

  int error() const { return error_; }
  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  void Note(int error) {
    if (error_ == 0) error_ = error;
  }
  // What is ignored or blocked here would be there too. All bits and not sigfillset(3), which
  // leaves out glibc's own two signals, and posix_spawn(3) then starts the program with these
  // ignored (glibc, sysdeps/unix/sysv/linux/spawni.c).
  void Signals() {
    sigset_t all;
    std::memset(&all, 0xff, sizeof(all));
    Note(::posix_spawnattr_setsigdefault(&attributes_, &all));
    sigset_t none;
    sigemptyset(&none);
    Note(::posix_spawnattr_setsigmask(&attributes_, &none));
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  int error_ = 0;
};

}  // namespace

int Spawn(const SpawnRequest& request, pid_t* pid) {
  const Preparation preparation(request);
  if (preparation.error() != 0) return preparation.error();
  const std::vector<char*> argv = Pointers(request.argv);
  const std::vector<char*> environment = Pointers(request.environment);
  return ::posix_spawn(pid, request.path.c_str(), preparation.actions(), preparation.attributes(),
                       argv.data(), environment.data());
}

absl::StatusOr<DescriptorPair> MakePipe() {
  int ends[2];
#ifdef __linux__
  if (::pipe2(ends, O_CLOEXEC) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
#else
  if (::pipe(ends) != 0) return absl::ErrnoToStatus(errno, "make a pipe");
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
  return DescriptorPair{Descriptor(ends[0]), Descriptor(ends[1])};
}

absl::StatusOr<DescriptorPair> MakeSocketPair() {
  int ends[2];
#ifdef SOCK_CLOEXEC
  const int made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends);
#else
  const int made = ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
#endif
  if (made != 0) return absl::ErrnoToStatus(errno, "make a socket pair");
#ifndef SOCK_CLOEXEC
  for (const int end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
#endif
  return DescriptorPair{Descriptor(ends[0]), Descriptor(ends[1])};
}

absl::StatusOr<Descriptor> AboveStandard(Descriptor descriptor) {
  constexpr int kLeast = 10;
  Descriptor above(::fcntl(descriptor.get(), F_DUPFD_CLOEXEC, kLeast));
  if (!above.ok()) return absl::ErrnoToStatus(errno, "duplicate a descriptor");
  return above;
}

}  // namespace stageload::jobs
