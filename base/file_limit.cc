#include "base/file_limit.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace stageload {
namespace {

std::optional<rlimit> g_given;  // where it was raised

}  // namespace

absl::Status NeedFiles(const std::string& program, rlim_t least) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= least) return absl::OkStatus();
  if (limit.rlim_max < least) {
    return absl::ResourceExhaustedError(absl::StrCat(
        program, " takes up to ", least, " open files, and no more than ", limit.rlim_max,
        " are allowed here: raise the limit where this was started, as by `ulimit -n 1024` in a "
        "new shell, nofile in limits.conf, or LimitNOFILE= of a systemd unit"));
  }
  const rlimit given = limit;
  limit.rlim_cur = least;
  if (::setrlimit(RLIMIT_NOFILE, &limit) == 0 && !g_given) g_given = given;
  return absl::OkStatus();
}

rlimit GivenFileLimit() {
  if (g_given) return *g_given;
  rlimit limit{};
  (void)::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

void RestoreFileLimit() {
  if (g_given) (void)::setrlimit(RLIMIT_NOFILE, &*g_given);
}

}  // namespace stageload
