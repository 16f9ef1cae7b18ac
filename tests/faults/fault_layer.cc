// Loaded into stageloadd and its shims with LD_PRELOAD: makes the N-th call that changes something
// below the home fail, as a disk that is full or broken would. The programs have no hook for it.
// Linux with glibc.
//
// Not seen: what stdio writes inside of libc (the daemon's own log), and the -shm file of SQLite,
// which is mapped.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/faults/fault_control.h"

namespace stageload::faults {
namespace {

constexpr char kShim[] = "/stageload-shim";

template <typename Function>
Function Next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}
// The function of libc that a function here stands before.
#define STAGELOAD_NEXT(name)                                                 \
  ([] {                                                                      \
    static const auto f = stageload::faults::Next<decltype(&::name)>(#name); \
    return f;                                                                \
  }())

FaultControl* Map() {
  const char* path = ::getenv(kControlVariable);
  if (path == nullptr) return nullptr;
  const int file = STAGELOAD_NEXT(open)(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* at = ::mmap(nullptr, sizeof(FaultControl), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  ::close(file);
  return at == MAP_FAILED ? nullptr : static_cast<FaultControl*>(at);
}

FaultControl* Control() {
  static FaultControl* const control = Map();
  return control;
}

std::string PathOf(int descriptor) {
  char link[64];
  ::snprintf(link, sizeof(link), "/proc/self/fd/%d", descriptor);
  char path[4096];
  const ssize_t length = ::readlink(link, path, sizeof(path));
  return std::string(path, length > 0 ? static_cast<std::size_t>(length) : 0);
}

std::string PathAt(int folder, const char* path) {
  if (path[0] == '/' || folder == AT_FDCWD) return path;
  return PathOf(folder) + "/" + path;
}

// Counts a call and says whether it fails now, with errno set.
bool Fails(const char* call, const std::string& path) {
  FaultControl* const control = Control();
  if (control == nullptr) return false;
  const std::size_t length = ::strlen(control->home);
  if (path.compare(0, length, control->home) != 0 || path.size() <= length || path[length] != '/') {
    return false;
  }
  const std::int64_t call_number = ++control->calls;
  const std::int64_t fail_at = control->fail_at;
  if (fail_at == 0 || call_number < fail_at) return false;
  if (call_number > fail_at && !control->for_ever) return false;
  if (++control->failed == 1) {
    ::snprintf(control->first, sizeof(control->first), "%s %s", call, path.c_str());
  }
  if (control->error == 0) ::kill(::getpid(), SIGKILL);
  errno = control->error;
  return true;
}

bool Creates(int flags) { return (flags & O_CREAT) != 0; }

mode_t ModeOf(int flags, std::va_list arguments) {
  return Creates(flags) ? va_arg(arguments, mode_t) : 0;
}

}  // namespace
}  // namespace stageload::faults

using stageload::faults::Creates;
using stageload::faults::Fails;
using stageload::faults::ModeOf;
using stageload::faults::PathAt;
using stageload::faults::PathOf;

#define STAGELOAD_OPEN(name)                                \
  int name(const char* path, int flags, ...) {              \
    std::va_list arguments;                                 \
    va_start(arguments, flags);                             \
    const mode_t mode = ModeOf(flags, arguments);           \
    va_end(arguments);                                      \
    if (Creates(flags) && Fails("create", path)) return -1; \
    return STAGELOAD_NEXT(name)(path, flags, mode);         \
  }
#define STAGELOAD_OPENAT(name)                                              \
  int name(int folder, const char* path, int flags, ...) {                  \
    std::va_list arguments;                                                 \
    va_start(arguments, flags);                                             \
    const mode_t mode = ModeOf(flags, arguments);                           \
    va_end(arguments);                                                      \
    if (Creates(flags) && Fails("create", PathAt(folder, path))) return -1; \
    return STAGELOAD_NEXT(name)(folder, path, flags, mode);                 \
  }
extern "C" {

STAGELOAD_OPEN(open)
STAGELOAD_OPEN(open64)
STAGELOAD_OPENAT(openat)
STAGELOAD_OPENAT(openat64)

FILE* fopen(const char* path, const char* mode) {
  if (mode[0] != 'r' && Fails("fopen", path)) return nullptr;
  return STAGELOAD_NEXT(fopen)(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  if (mode[0] != 'r' && Fails("fopen", path)) return nullptr;
  return STAGELOAD_NEXT(fopen64)(path, mode);
}

ssize_t write(int descriptor, const void* data, size_t size) {
  if (Fails("write", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(write)(descriptor, data, size);
}

ssize_t pwrite(int descriptor, const void* data, size_t size, off_t at) {
  if (Fails("pwrite", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(pwrite)(descriptor, data, size, at);
}

ssize_t pwrite64(int descriptor, const void* data, size_t size, off64_t at) {
  if (Fails("pwrite", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(pwrite64)(descriptor, data, size, at);
}

int fsync(int descriptor) {
  if (Fails("fsync", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(fsync)(descriptor);
}

int fdatasync(int descriptor) {
  if (Fails("fdatasync", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(fdatasync)(descriptor);
}

int ftruncate(int descriptor, off_t size) noexcept {
  if (Fails("ftruncate", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(ftruncate)(descriptor, size);
}

int ftruncate64(int descriptor, off64_t size) noexcept {
  if (Fails("ftruncate", PathOf(descriptor))) return -1;
  return STAGELOAD_NEXT(ftruncate64)(descriptor, size);
}

int rename(const char* from, const char* to) noexcept {
  if (Fails("rename", from)) return -1;
  return STAGELOAD_NEXT(rename)(from, to);
}

int renameat(int from_folder, const char* from, int to_folder, const char* to) noexcept {
  if (Fails("rename", PathAt(from_folder, from))) return -1;
  return STAGELOAD_NEXT(renameat)(from_folder, from, to_folder, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (Fails("mkdir", path)) return -1;
  return STAGELOAD_NEXT(mkdir)(path, mode);
}

int unlink(const char* path) noexcept {
  if (Fails("unlink", path)) return -1;
  return STAGELOAD_NEXT(unlink)(path);
}

int unlinkat(int folder, const char* path, int flags) noexcept {
  if (Fails("unlink", PathAt(folder, path))) return -1;
  return STAGELOAD_NEXT(unlinkat)(folder, path, flags);
}

// A shim is given an empty environment, so the layer is handed on here; a job's command is not.
int posix_spawn(pid_t* pid, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const argv[],
                char* const environment[]) {
  const std::string program(path);
  const std::string shim(stageload::faults::kShim);
  std::vector<char*> variables;
  for (char* const* each = environment; *each != nullptr; ++each) variables.push_back(*each);
  std::string preload = "LD_PRELOAD=";
  std::string control = std::string(stageload::faults::kControlVariable) + "=";
  const bool to_shim = program.size() > shim.size() &&
                       program.compare(program.size() - shim.size(), shim.size(), shim) == 0;
  const stageload::faults::FaultControl* const shared = stageload::faults::Control();
  if (to_shim && shared != nullptr && shared->error != 0 && ::getenv("LD_PRELOAD") != nullptr &&
      ::getenv(stageload::faults::kControlVariable) != nullptr) {
    preload += ::getenv("LD_PRELOAD");
    control += ::getenv(stageload::faults::kControlVariable);
    variables.push_back(preload.data());
    variables.push_back(control.data());
  }
  variables.push_back(nullptr);
  return STAGELOAD_NEXT(posix_spawn)(pid, path, actions, attributes, argv, variables.data());
}

}  // extern "C"
