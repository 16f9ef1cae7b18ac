#include "daemon/jobs/shim/launch.h"

#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "daemon/jobs/spawn.h"

namespace stageload::jobs {
namespace {

// glibc takes RLIMIT_* as an enumeration in C++, macOS as an int.
#ifdef __GLIBC__
using Resource = __rlimit_resource_t;
#else
using Resource = int;
#endif

// Sets a soft limit, or the hard one where that is lower. Returns what it was.
std::uint64_t SetSoft(int resource, std::uint64_t soft) {
  rlimit limit{};
  if (::getrlimit(static_cast<Resource>(resource), &limit) != 0) return soft;
  const std::uint64_t before = limit.rlim_cur;
  limit.rlim_cur = std::min<std::uint64_t>(soft, limit.rlim_max);
  if (::setrlimit(static_cast<Resource>(resource), &limit) == 0) return before;
#ifdef OPEN_MAX
  // Older systems refuse to go above kern.maxfilesperproc (setrlimit(2) of macOS).
  if (resource == RLIMIT_NOFILE) {
    limit.rlim_cur = std::min<std::uint64_t>(soft, OPEN_MAX);
    ::setrlimit(resource, &limit);
  }
#endif
  return before;
}

// Soft limits for as long as this lives: a child that is spawned meanwhile has them.
class SoftLimits {
 public:
  explicit SoftLimits(const Limits& wanted) {
    for (const auto& [resource, soft] : wanted) {
      before_.emplace_back(resource, SetSoft(resource, soft));
    }
  }
  ~SoftLimits() {
    for (auto each = before_.rbegin(); each != before_.rend(); ++each) {
      SetSoft(each->first, each->second);
    }
  }
  SoftLimits(const SoftLimits&) = delete;
  SoftLimits& operator=(const SoftLimits&) = delete;

 private:
  Limits before_;
};

class Umask {
 public:
  explicit Umask(mode_t mask) : before_(::umask(mask)) {}
  ~Umask() { ::umask(before_); }
  Umask(const Umask&) = delete;
  Umask& operator=(const Umask&) = delete;

 private:
  const mode_t before_;
};

Launched Failure(int error, const std::string& what) {
  return {
      .pid = 0, .error = error, .text = std::string(absl::ErrnoToStatus(error, what).message())};
}

// The job's PATH; where it has none, what execvp(3) takes.
std::string PathOf(const core::JobSpec& spec) {
  for (const std::string& variable : spec.environment) {
    if (variable.rfind("PATH=", 0) == 0) return variable.substr(5);
  }
  return "/bin:/usr/bin";
}

std::vector<std::string> Candidates(const core::JobSpec& spec) {
  const std::string& name = spec.argv.front();
  if (name.empty() || name.find('/') != std::string::npos) return {name};
  std::vector<std::string> candidates;
  for (const std::string& folder : std::vector<std::string>(absl::StrSplit(PathOf(spec), ':'))) {
    candidates.push_back(absl::StrCat(folder.empty() ? "." : folder, "/", name));
  }
  return candidates;
}

// A script without "#!" is run by the shell, as a shell or execvp(3) would.
int SpawnCandidate(SpawnRequest& request, const std::string& path, pid_t* pid) {
  request.path = path;
  const int error = Spawn(request, pid);
  if (error != ENOEXEC) return error;
  SpawnRequest script = request;
  script.path = "/bin/sh";
  script.argv.front() = path;
  script.argv.insert(script.argv.begin(), "/bin/sh");
  return Spawn(script, pid);
}

bool IsElsewhere(int error) { return error == ENOENT || error == ENOTDIR || error == EACCES; }

Launched LaunchFirst(const core::JobSpec& spec, SpawnRequest request) {
  const std::string what = absl::StrCat("cannot start \"", spec.argv.front(), "\"");
  int worst = ENOENT;
  bool lacks_interpreter = false;
  for (const std::string& path : Candidates(spec)) {
    Launched launched;
    const int error = SpawnCandidate(request, path, &launched.pid);
    if (error == 0) return launched;
    if (!IsElsewhere(error)) return Failure(error, what);
    if (error == EACCES && ::access(path.c_str(), F_OK) == 0) worst = EACCES;
    if (error == ENOENT && ::access(path.c_str(), F_OK) == 0) lacks_interpreter = true;
  }
  Launched failure = Failure(worst, what);
  if (worst == ENOENT && lacks_interpreter) {
    failure.text += " (it is there, but the interpreter that it names is not)";
  } else if (worst == ENOENT && spec.argv.front().find('/') == std::string::npos) {
    absl::StrAppend(&failure.text, " (looked in the job's PATH: ", PathOf(spec), ")");
  }
  return failure;
}

}  // namespace

Limits RaiseOwnLimits() {
  Limits before;
  for (const int resource : {int{RLIMIT_NOFILE}, int{RLIMIT_FSIZE}}) {
    before.emplace_back(resource, SetSoft(resource, RLIM_INFINITY));
  }
  return before;
}

Launched Launch(const core::JobSpec& spec, const Limits& inherited, int stdout_end,
                int stderr_end) {
  if (spec.argv.empty()) return Failure(EINVAL, "no command is given");
  // Ours for a moment, so that a relative command and relative folders in PATH are the job's.
  if (::chdir(spec.working_directory.c_str()) != 0) {
    return Failure(errno, absl::StrCat("cannot start \"", spec.argv.front(), "\" in the folder \"",
                                       spec.working_directory, "\""));
  }
  SpawnRequest request;
  request.argv = spec.argv;
  request.environment = spec.environment;
  request.descriptors = {{stdout_end, 1}, {stderr_end, 2}};
  request.place = SpawnRequest::Place::kOwnGroup;
  Launched launched;
  {
    const SoftLimits inherited_limits(inherited);
    const SoftLimits own_limits(spec.soft_limits);
    const Umask mask(static_cast<mode_t>(spec.umask & 0777));
    launched = LaunchFirst(spec, std::move(request));
  }
  if (::chdir("/") != 0) return launched;  // no harm but a busy mount
  return launched;
}

}  // namespace stageload::jobs
