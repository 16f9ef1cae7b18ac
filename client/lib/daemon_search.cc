#include "client/lib/daemon_search.h"

#include <utility>

#include "base/awake_clock.h"
#include "base/error_reason.h"

namespace stageload::client {
namespace {

constexpr absl::Duration kPause = absl::Milliseconds(100);
// A daemon that cannot start is not started ten times a second.
constexpr int kStarts = 3;

}  // namespace

std::optional<Connection> AwaitDaemon(DaemonSearch search, Interrupt& interrupt) {
  const absl::Duration soon = AwakeNow() + search.patience;
  const bool may_start = search.connect.autostart;
  int starts = 0;
  bool told = false;
  for (;;) {
    if (interrupt.raised()) return std::nullopt;
    const bool early = AwakeNow() < soon;
    search.connect.autostart = may_start && early && ++starts <= kStarts;
    absl::StatusOr<Connection> connection = Connect(search.connect);
    if (connection.ok()) {
      // As it was asked for, not as it was in this look.
      connection->options.autostart = may_start;
      return *std::move(connection);
    }
    if (!early && !std::exchange(told, true) && search.on_absent) {
      search.on_absent(connection.status());
    }
    if (!interrupt.Pause(early ? kPause : kIdleSearchPause)) return std::nullopt;
  }
}

}  // namespace stageload::client
